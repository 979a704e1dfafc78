package split

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

var errSlots = errors.New("CROSSSLOT")

// slotted is a memory store whose keys lie in slots, and which takes no call
// over several, as a cluster does.
type slotted struct {
	*memory.Store
	slots int
	fail  atomic.Pointer[func(slot int) error] // before a call is made
}

func newSlotted(slots int, o memory.Options) *slotted {
	return &slotted{Store: memory.New(o), slots: slots}
}

// Locate implements [sluice.Locator].
func (s *slotted) Locate(c *sluice.Charge) sluice.Place {
	text, hash := c.Tag, uint32(2166136261)
	if text == "" {
		text = c.Key
	}
	for i := range len(text) {
		hash = (hash ^ uint32(text[i])) * 16777619
	}
	return sluice.Place{Slot: int(hash>>8) % s.slots}
}

func (s *slotted) check(count int, charge func(int) *sluice.Charge) error {
	slot := s.Locate(charge(0)).Slot
	for i := range count {
		if s.Locate(charge(i)).Slot != slot {
			return errSlots
		}
	}
	if fail := s.fail.Load(); fail != nil {
		return (*fail)(slot)
	}
	return nil
}

// Take implements [sluice.Store].
func (s *slotted) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) > 0 {
		if err := s.check(len(charges), func(i int) *sluice.Charge { return &charges[i] }); err != nil {
			return dst, err
		}
	}
	return s.Store.Take(ctx, dst, charges)
}

// Settle implements [sluice.Settler].
func (s *slotted) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if err := s.check(len(settlements), func(i int) *sluice.Charge { return &settlements[i].Charge }); err != nil {
		return err
	}
	return s.Store.Settle(ctx, settlements)
}

// patient waits for give-backs after each call, so that the contract, which
// knows no moment of being under, can be asked.
type patient struct{ *Store }

// Take implements [sluice.Store].
func (p patient) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	dst, err := p.Store.Take(ctx, dst, charges)
	for len(p.backs.free) > 0 {
		runtime.Gosched()
	}
	return dst, err
}

func TestContract(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 16384} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			clock := new(storetest.Clock)
			storetest.Run(t, storetest.Harness{
				Clock: clock,
				New: func() (sluice.Store, error) {
					s := New(newSlotted(slots, memory.Options{Now: clock.Now}))
					t.Cleanup(s.Close)
					return patient{s}, nil
				},
				Except: resetUnknown(slots),
			})
		})
	}
}

// resetUnknown excepts what cannot be known over several slots: when a log is
// empty once a part of it was given back. All else about those answers is held
// against the specification by the other random history.
func resetUnknown(slots int) map[string]string {
	if slots == 1 {
		return nil
	}
	return map[string]string{
		"a random history gives the specification's answers": "the reset of a log after a give-back is known by the next call",
	}
}

func TestContractWithoutLocator(t *testing.T) {
	clock := new(storetest.Clock)
	storetest.Run(t, storetest.Harness{
		Clock: clock,
		New:   func() (sluice.Store, error) { return New(memory.New(memory.Options{Now: clock.Now})), nil },
	})
}

var (
	byHour = sluice.Limit{Tokens: 100, Per: time.Hour}
	kinds  = []sluice.Limit{
		byHour,
		{Tokens: 100, Per: time.Hour, Algorithm: sluice.FixedWindow},
		{Tokens: 100, Per: time.Hour, Algorithm: sluice.SlidingWindow},
		{Tokens: 100, Per: time.Hour, Algorithm: sluice.SlidingLog},
	}
)

func room(t *testing.T, s sluice.Store, key string, limit sluice.Limit) int64 {
	t.Helper()
	got, err := s.Take(context.Background(), nil, []sluice.Charge{{Key: key, Limit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Remaining
}

// Whatever groups are asked at once, no key grants more than its capacity, every
// group gets the same number of units of all its charges, and what is missing at
// the end is exactly what was granted.
func TestConservation(t *testing.T) {
	const keys, callers, calls = 6, 8, 200
	for _, limit := range kinds {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			next := newSlotted(4, memory.Options{})
			s := New(next)
			var granted [keys]atomic.Int64
			var wait sync.WaitGroup
			for caller := range callers {
				wait.Go(func() {
					random := rand.New(rand.NewPCG(uint64(caller), 7))
					for range calls {
						askAtRandom(t, s, random, limit, granted[:])
					}
				})
			}
			wait.Wait()
			s.Close()
			for i := range granted {
				n := granted[i].Load()
				if got := room(t, next, fmt.Sprint("key", i), limit); got != 100-n {
					t.Errorf("key %d granted %d and has %d left, want %d", i, n, got, 100-n)
				}
			}
		})
	}
}

func askAtRandom(t *testing.T, s sluice.Store, random *rand.Rand, limit sluice.Limit, granted []atomic.Int64) {
	var charges []sluice.Charge
	var keys []int
	for range 1 + random.IntN(5) {
		key := random.IntN(len(granted))
		c := sluice.Charge{Key: fmt.Sprint("key", key), Limit: limit, N: random.Int64N(4), Group: random.IntN(2)}
		if c.N > 1 && random.IntN(2) == 0 {
			c.Unit = 1
		}
		charges, keys = append(charges, c), append(keys, key)
	}
	got, err := s.Take(context.Background(), nil, charges)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range got {
		granted[keys[i]].Add(got[i].Granted)
		if i == 0 || charges[i].Group != charges[i-1].Group || charges[i].N == 0 || charges[i-1].N == 0 {
			continue
		}
		if a, b := got[i-1].Granted/unit(&charges[i-1]), got[i].Granted/unit(&charges[i]); a != b {
			t.Errorf("a group was granted %d and %d units: %+v", a, b, charges)
		}
	}
}

var errNode = errors.New("the node is away")

// Where one slot fails, the call is an error and everything else is given back.
func TestOneSlotFails(t *testing.T) {
	next := newSlotted(16384, memory.Options{})
	s := New(next)
	a, b, c := sluice.Charge{Key: "a", Limit: byHour, N: 5}, sluice.Charge{Key: "b", Limit: byHour, N: 5}, sluice.Charge{Key: "c", Limit: byHour, N: 5}
	again := a
	again.Group, c.Group = 1, 2
	bad := next.Locate(&b).Slot
	for _, charges := range [][]sluice.Charge{{a, b}, {b, a}, {a, c, b}, {c, b, again}} {
		fail := func(slot int) error {
			if slot == bad {
				return errNode
			}
			return nil
		}
		next.fail.Store(&fail)
		dst := []sluice.Decision{{Remaining: 42}}
		got, err := s.Take(t.Context(), dst, charges)
		if !errors.Is(err, errNode) || len(got) != 1 || got[0].Remaining != 42 {
			t.Errorf("Take = %+v, %v, want dst as it was and the node's error", got, err)
		}
		for len(s.backs.free) > 0 {
			runtime.Gosched()
		}
		next.fail.Store(nil)
		for _, key := range []string{"a", "b", "c"} {
			if got := room(t, next, key, byHour); got != 100 {
				t.Errorf("%s has %d left after a call that failed, want 100", key, got)
			}
		}
	}
	s.Close()
}

// A stage that fails takes back those before it.
func TestLaterStageFails(t *testing.T) {
	next := newSlotted(16384, memory.Options{})
	s := New(next)
	a, b := sluice.Charge{Key: "a", Limit: byHour, N: 5}, sluice.Charge{Key: "b", Limit: byHour, N: 5}
	later := a
	later.Group = 1
	calls := 0
	var mu sync.Mutex
	fail := func(int) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == 3 {
			return errNode
		}
		return nil
	}
	next.fail.Store(&fail)
	if _, err := s.Take(t.Context(), nil, []sluice.Charge{a, b, later}); !errors.Is(err, errNode) {
		t.Errorf("Take = %v, want the node's error", err)
	}
	s.Close()
	next.fail.Store(nil)
	for _, key := range []string{"a", "b"} {
		if got := room(t, next, key, byHour); got != 100 {
			t.Errorf("%s has %d left, want 100", key, got)
		}
	}
}

// A refused group tells of each charge what it would have told alone, and of
// those that passed what remains once they are given back.
func TestRefusedGroupTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range kinds {
			next := newSlotted(16384, memory.Options{})
			s := New(next)
			full, empty := sluice.Charge{Key: "full", Limit: limit, N: 3}, sluice.Charge{Key: "empty", Limit: limit, N: 3}
			use := empty
			use.N = 98
			if _, err := s.Take(t.Context(), nil, []sluice.Charge{use}); err != nil {
				t.Fatal(err)
			}
			got, err := s.Take(t.Context(), nil, []sluice.Charge{full, empty})
			if err != nil {
				t.Fatal(err)
			}
			if d := got[0]; !d.Allowed || d.Granted != 0 || d.Remaining != 100 || d.RetryAfter != 0 || d.ResetAfter != 0 {
				t.Errorf("%v: the charge that passes alone: %+v", limit, d)
			}
			if d := got[1]; d.Allowed || d.Granted != 0 || d.Remaining != 2 || d.RetryAfter <= 0 {
				t.Errorf("%v: the charge that refuses: %+v", limit, d)
			}
			s.Close()
			time.Sleep(got[1].RetryAfter)
			got, err = New(next).Take(t.Context(), nil, []sluice.Charge{full, empty})
			if err != nil || got[0].Granted != 3 || got[1].Granted != 3 {
				t.Errorf("%v: after the wait: %+v, %v", limit, got, err)
			}
		}
	})
}

// A give-back that hangs is let go after a while, and Close waits for it.
func TestGiveBackHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &hanging{slotted: newSlotted(16384, memory.Options{})}
		s := New(next)
		empty := sluice.Charge{Key: "b", Limit: byHour, N: 100}
		if _, err := s.Take(t.Context(), nil, []sluice.Charge{empty}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := s.Take(t.Context(), nil, []sluice.Charge{{Key: "a", Limit: byHour, N: 1}, empty}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the caller waited %v for a give-back", took)
		}
		s.Close()
		if took := time.Since(begin); took != backTimeout {
			t.Errorf("Close returned after %v, want %v", took, backTimeout)
		}
	})
}

type hanging struct{ *slotted }

// Settle implements [sluice.Settler] by waiting.
func (h *hanging) Settle(ctx context.Context, _ []sluice.Settlement) error {
	<-ctx.Done()
	return ctx.Err()
}

// still answers every charge, from one slot, and allocates nothing. The memory
// store will not do here: it keeps its calls in a pool, from which the race
// detector takes at random.
type still struct{}

func (still) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for range charges {
		dst = append(dst, sluice.Decision{Allowed: true})
	}
	return dst, nil
}

func (still) Locate(*sluice.Charge) sluice.Place { return sluice.Place{} }

func TestOneSlotCostsNothing(t *testing.T) {
	s := New(still{})
	defer s.Close()
	ctx := context.Background()
	charges := []sluice.Charge{{Key: "a", Limit: byHour, N: 1}, {Key: "b", Limit: byHour, N: 1}}
	dst := make([]sluice.Decision, 0, 2)
	var err error
	if allocs := testing.AllocsPerRun(200, func() { dst, err = s.Take(ctx, dst[:0], charges) }); allocs > 0 {
		t.Errorf("a call within one slot allocates %v times, want 0", allocs)
	}
	if err != nil || len(dst) != 2 {
		t.Errorf("Take = %d decisions, %v, want 2", len(dst), err)
	}
}

func TestSettleSplits(t *testing.T) {
	next := newSlotted(16384, memory.Options{})
	s := New(next)
	defer s.Close()
	a, b := sluice.Charge{Key: "a", Limit: byHour, N: 5}, sluice.Charge{Key: "b", Limit: byHour, N: 7}
	if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: a}, {Charge: b}}); err != nil {
		t.Fatal(err)
	}
	if x, y := room(t, next, "a", byHour), room(t, next, "b", byHour); x != 95 || y != 93 {
		t.Errorf("%d and %d are left, want 95 and 93", x, y)
	}
}
