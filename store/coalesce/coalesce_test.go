package coalesce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func TestNobodyWaitsWhenIdle(t *testing.T) {
	bubble(t, Options{InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		for i := range 20 {
			c := call(s, one("A", 1))
			if len(below.calls) != i+1 || below.let(1) != 1 || !c.done {
				t.Fatalf("after %d calls one by one, %d have reached the store", i+1, len(below.calls))
			}
		}
		var callers []*caller
		for i := range 4 {
			callers = append(callers, call(s, one("A", 1)))
			if below.now != i+1 {
				t.Fatalf("of %d callers, %d are under way", i+1, below.now)
			}
		}
		callers = append(callers, call(s, one("A", 1)))
		if below.now != 4 {
			t.Errorf("%d calls of a key are under way, want 4", below.now)
		}
		below.let(10)
		wantGranted(t, callers, 0, 0, 0, 0, 0)
	})
}

// TestEqualCallsTravelTogether lets ten calls wait for one under way.
func TestEqualCallsTravelTogether(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		callers := []*caller{call(s, one("A", 1))}
		for range 10 {
			callers = append(callers, call(s, one("A", 3)))
		}
		if n := below.let(5); n != 2 {
			t.Errorf("11 calls became %d, want 2", n)
		}
		want := []sluice.Charge{one("A", 30)}
		want[0].Unit, want[0].Group = 3, 1
		if diff := cmp.Diff(want, below.calls[1]); diff != "" {
			t.Errorf("the second call (-want +got):\n%s", diff)
		}
		// First come, first served.
		wantGranted(t, callers, 1, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0)
		for i, c := range callers[1:] {
			d := c.got[0]
			if d.Allowed != (i < 3) || (d.RetryAfter == 0) != (i < 3) || d.Remaining != 0 || d.Limit != 10 {
				t.Errorf("caller %d: got %+v", i+1, d)
			}
		}
	})
}

func TestCallersWhoLeaveBefore(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		callers := []*caller{call(s, one("A", 1))}
		for range 5 {
			callers = append(callers, call(s, one("A", 4)))
		}
		callers[1].leave()
		callers[3].leave()
		if !errors.Is(callers[1].err, context.Canceled) {
			t.Errorf("a caller who left got %v, %v", callers[1].got, callers[1].err)
		}
		below.let(5)
		wantGranted(t, callers, 1, -1, 4, -1, 4, 0)
		if n := below.calls[1][0].N; n != 12 {
			t.Errorf("%d tokens were asked for the three who stayed, want 12", n)
		}
		if len(below.settled) != 0 || below.used("A") != 9 {
			t.Errorf("%d used, settled %+v", below.used("A"), below.settled)
		}
	})
}

// TestCallersWhoLeaveAll is about items whose callers have all left: what waits
// behind them goes on.
func TestCallersWhoLeaveAll(t *testing.T) {
	bubble(t, Options{KeyInFlight: 2, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		callers := []*caller{call(s, one("A", 1)), call(s, one("A", 1))}
		for n := range int64(6) {
			callers = append(callers, call(s, one("A", 1+n), one(fmt.Sprint("b", n), 1)))
		}
		for _, c := range callers[2:7] {
			c.leave()
		}
		if n := below.let(5); n != 3 {
			t.Errorf("%d calls reached the store, want 3", n)
		}
		wantGranted(t, callers, 1, 1, -1, -1, -1, -1, -1, 6)
	})
}

// TestUnitsOfCallersWhoLeft lets callers leave while their call is under way.
func TestUnitsOfCallersWhoLeft(t *testing.T) {
	for _, tt := range []struct {
		n       int64 // of each call
		leave   []int
		granted []int64
		back    int64
	}{
		{4, []int{1}, []int64{1, -1, 4, 4, 0}, 0},
		{4, []int{1, 2}, []int64{1, -1, -1, 4, 4}, 0},
		{4, []int{3, 4}, []int64{1, 4, 4, -1, -1}, 0},
		{4, []int{1, 2, 4}, []int64{1, -1, -1, 4, -1}, 4},
		{1, []int{2}, []int64{1, 1, -1, 1, 1}, 1},
		{1, []int{1, 2, 3, 4}, []int64{1, -1, -1, -1, -1}, 4},
	} {
		t.Run(fmt.Sprint(tt.n, tt.leave), func(t *testing.T) {
			bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
				callers := []*caller{call(s, one("A", 1))}
				for range 4 {
					callers = append(callers, call(s, one("A", tt.n)))
				}
				below.let(1)
				for _, i := range tt.leave {
					callers[i].leave()
				}
				below.let(1)
				wantGranted(t, callers, tt.granted...)
				var back, used int64
				for _, settled := range below.settled {
					back -= settled.Charge.N
				}
				for _, c := range callers {
					used += max(0, c.granted())
				}
				if back != tt.back || len(below.settled) > 1 || below.used("A") != used {
					t.Errorf("gave back %d in %d settlements, want %d in one; %d are used, want %d", back, len(below.settled), tt.back, below.used("A"), used)
				}
			})
		})
	}
}

// TestGiveBackDelaysNobody lets the store take its time to take back.
func TestGiveBackDelaysNobody(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 1}, func(t *testing.T, s *Store, below *gate) {
		below.back = make(chan struct{})
		callers := []*caller{call(s, one("A", 1)), call(s, one("A", 2)), call(s, one("B", 3))}
		callers[0].leave()
		below.let(1)
		if len(below.settled) != 1 {
			t.Fatalf("settled %+v, want the first caller's unit", below.settled)
		}
		below.let(2)
		wantGranted(t, callers, -1, 2, 3)
		later := call(s, one("A", 1))
		below.let(1)
		wantGranted(t, []*caller{later}, 1)
		below.back <- struct{}{}
		synctest.Wait()
		if n := below.used("A"); n != 3 {
			t.Errorf("%d are used, want 3", n)
		}
	})
}

// TestGiveBackEnds leaves a settlement to a store that never answers it.
func TestGiveBackEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newGate()
		s := New(deaf{below}, Options{InFlight: 4})
		c := call(s, one("A", 1))
		c.leave()
		below.let(1)
		start := time.Now()
		s.Close()
		if d := time.Since(start); d != backTimeout {
			t.Errorf("Close took %v, want %v", d, backTimeout)
		}
	})
}

type deaf struct{ *gate }

func (deaf) Settle(ctx context.Context, _ []sluice.Settlement) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestDifferentCallsShareACall lets calls of many keys wait for a busy place.
func TestDifferentCallsShareACall(t *testing.T) {
	bubble(t, Options{InFlight: 2, Charges: 8}, func(t *testing.T, s *Store, below *gate) {
		callers := []*caller{call(s, one("A", 1)), call(s, one("B", 1))}
		for i := range 9 {
			callers = append(callers, call(s, one(fmt.Sprint("C", i), 2), one("shared", 1)))
		}
		large := []sluice.Charge{one("L", 1)}
		for i := range 20 {
			large = append(large, one(fmt.Sprint("l", i), 1))
		}
		callers = append(callers, call(s, large...), call(s, one("D", 3)))
		if below.now != 2 {
			t.Fatalf("%d calls are under way, want 2", below.now)
		}
		below.let(20)
		var sizes []int
		for _, charges := range below.calls {
			sizes = append(sizes, len(charges))
		}
		if want := []int{1, 1, 8, 8, 2, 21, 1}; !slices.Equal(sizes, want) || below.wide != 2 {
			t.Errorf("calls of %v charges, at most %d at once, want %v and 2", sizes, below.wide, want)
		}
		wantGranted(t, callers, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3)
		if n := below.used("shared"); n != 9 {
			t.Errorf("the shared key has %d used, want 9", n)
		}
	})
}

// TestCallsOfOneKeyShareACall is about different calls that begin with the same
// key, such as a limit that all share: they wait for it, and go together.
func TestCallsOfOneKeyShareACall(t *testing.T) {
	bubble(t, Options{InFlight: 3, KeyInFlight: 2}, func(t *testing.T, s *Store, below *gate) {
		var callers []*caller
		for i := range 10 {
			callers = append(callers, call(s, one("A", 1), one(fmt.Sprint("user", i), 1)))
		}
		if below.now != 2 {
			t.Fatalf("%d calls are under way, want 2", below.now)
		}
		other := call(s, one("B", 1))
		if below.now != 3 {
			t.Fatalf("a call of another key waits")
		}
		below.let(1)
		if got := len(below.calls[3]); got != 16 {
			t.Errorf("the next call has %d charges, want 16: all that wait", got)
		}
		below.let(10)
		wantGranted(t, callers, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		wantGranted(t, []*caller{other}, 1)
		if below.most != 2 {
			t.Errorf("%d calls of one key were under way, want 2", below.most)
		}
	})
}

// TestKeysTakeTurns sees that a key with many calls does not hold up another.
func TestKeysTakeTurns(t *testing.T) {
	bubble(t, Options{InFlight: 1, Charges: 4}, func(t *testing.T, s *Store, below *gate) {
		call(s, one("A", 1))
		for i := range 20 {
			call(s, one("A", 1), one(fmt.Sprint("user", i), 1))
		}
		c := call(s, one("B", 1))
		below.let(2)
		if !c.done {
			t.Errorf("a call waits behind all those of another key")
		}
		below.let(30)
	})
}

// TestMoreThanOneCallMayFollow lets one landing make place for several calls.
func TestMoreThanOneCallMayFollow(t *testing.T) {
	bubble(t, Options{InFlight: 3, KeyInFlight: 1, Charges: 4}, func(t *testing.T, s *Store, below *gate) {
		call(s, one("X", 1))
		call(s, one("Y", 1))
		call(s, one("Z", 1))
		for i := range 4 {
			call(s, one(fmt.Sprint("K", i), 1))
		}
		below.let(3)
		if below.now != 1 {
			t.Fatalf("%d calls are under way, want one of four keys", below.now)
		}
		for i := range 4 {
			call(s, one(fmt.Sprint("K", i), 2), one("a", 1), one("b", 1))
		}
		below.let(1)
		if below.now != 3 {
			t.Errorf("%d calls are under way, want 3", below.now)
		}
		below.let(10)
	})
}

func TestShadowsAreMerged(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		request := func(n int64) []sluice.Charge {
			a, peek, shadow := one("A", n), one("peek", 0), one("shadow", 2*n)
			shadow.Group = 7
			return []sluice.Charge{a, peek, shadow}
		}
		callers := []*caller{call(s, request(1)...)}
		for range 5 {
			callers = append(callers, call(s, request(1)...))
		}
		callers = append(callers, call(s, one("A", 6)))
		below.let(1)
		callers[2].leave()
		below.let(5)
		// Of the shadow's ten tokens a request takes two: four of those who
		// stayed would pass. The other six requests pass.
		wantGranted(t, callers, 1, 1, -1, 1, 1, 1, 0)
		var shadows []int64
		for _, c := range slices.Delete(callers[:6], 2, 3) {
			shadows = append(shadows, c.got[2].Granted)
			if d := c.got[1]; !d.Allowed || d.Granted != 0 || d.Remaining != 10 {
				t.Errorf("a peek in a merged call: %+v", d)
			}
		}
		if want := []int64{2, 2, 2, 2, 0 + 2}; !slices.Equal(shadows, want) {
			t.Errorf("shadows were granted %v, want %v", shadows, want)
		}
		if a, shadow := below.used("A"), below.used("shadow"); a != 5 || shadow != 10 {
			t.Errorf("%d and %d are used, want 5 and 10", a, shadow)
		}
	})
}

// TestOthersOfARefusedGroup compares the decisions of merged calls with those of
// calls one by one.
func TestOthersOfARefusedGroup(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		group := []sluice.Charge{one("A", 3), one("b", 1), one("A", 1)}
		alone := memory.New(memory.Options{})
		callers := []*caller{call(s, one("A", 1))}
		for range 4 {
			callers = append(callers, call(s, group...))
		}
		below.let(2)
		if len(below.calls) != 2 {
			t.Fatalf("%d calls, want 2", len(below.calls))
		}
		for i, c := range callers {
			want, err := alone.Take(t.Context(), nil, c.charges)
			if err != nil {
				t.Fatal(err)
			}
			for j, d := range c.got {
				if d.Allowed != want[j].Allowed || d.Granted != want[j].Granted || d.RetryAfter != want[j].RetryAfter {
					t.Errorf("caller %d, charge %d: got %+v, want %+v", i, j, d, want[j])
				}
			}
		}
	})
}

func TestCallsForAPartAreNotMerged(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		part := one("A", 4)
		part.Unit = 2
		whole := one("A", 1)
		whole.Unit = 1
		callers := []*caller{call(s, one("A", 1))}
		for range 3 {
			callers = append(callers, call(s, part))
		}
		for range 2 {
			callers = append(callers, call(s, whole))
		}
		below.let(5)
		wantGranted(t, callers, 1, 4, 4, 0, 1, 0)
		if got := len(below.calls[1]); got != 4 {
			t.Errorf("the second call has %d charges, want three parts and the others as one", got)
		}
	})
}

func TestErrorsReachAll(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{broken, errCount} {
		bubble(t, Options{KeyInFlight: 1, InFlight: 1}, func(t *testing.T, s *Store, below *gate) {
			below.err = want
			if want == errCount {
				below.err, below.short = nil, true
			}
			callers := []*caller{call(s, one("A", 1)), call(s, one("A", 1)), call(s, one("A", 1)), call(s, one("B", 2), one("c", 1))}
			callers[1].leave()
			below.let(5)
			for _, i := range []int{0, 2, 3} {
				if c := callers[i]; !c.done || !errors.Is(c.err, want) || len(c.got) != 0 {
					t.Errorf("caller %d got %v, %v, want %v", i, c.got, c.err, want)
				}
			}
			below.err, below.short = nil, false
			c := call(s, one("A", 1))
			below.let(1)
			wantGranted(t, []*caller{c}, 1)
		})
	}
}

func TestSenselessCallsDoNotTravel(t *testing.T) {
	bubble(t, Options{InFlight: 4}, func(t *testing.T, s *Store, below *gate) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		kept := []sluice.Decision{{Remaining: 17}}
		for _, tt := range []struct {
			ctx  context.Context
			n    int64
			want error
		}{{t.Context(), 11, sluice.ErrCost}, {t.Context(), -1, sluice.ErrCharge}, {ended, 1, context.Canceled}} {
			got, err := s.Take(tt.ctx, kept, []sluice.Charge{one("A", tt.n)})
			if !errors.Is(err, tt.want) || !slices.Equal(got, kept) {
				t.Errorf("Take of %d = %v, %v, want %v", tt.n, got, err, tt.want)
			}
		}
		if got, err := s.Take(t.Context(), kept, nil); err != nil || !slices.Equal(got, kept) {
			t.Errorf("an empty call: %v, %v", got, err)
		}
		if len(below.calls) != 0 {
			t.Errorf("%d calls reached the store", len(below.calls))
		}
	})
}

// TestCloseWaits closes while calls are under way and wait.
func TestCloseWaits(t *testing.T) {
	bubble(t, Options{KeyInFlight: 1, InFlight: 1, Charges: 1}, func(t *testing.T, s *Store, below *gate) {
		callers := []*caller{call(s, one("A", 1)), call(s, one("A", 2)), call(s, one("B", 3))}
		closed := false
		go func() {
			s.Close()
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("Close did not wait")
		}
		below.let(10)
		if !closed {
			t.Error("Close waits for nothing")
		}
		wantGranted(t, callers, 1, 2, 3)
		s.Close() // once more does nothing
	})
}

// A cluster keeps the keys that begin with a digit in slots of their own.
type cluster struct{ *gate }

func (cluster) Locate(c *sluice.Charge) sluice.Place {
	return sluice.Place{Slot: int(c.Key[len(c.Key)-1]), Node: "node " + c.Key[len(c.Key)-1:]}
}

func (cluster) Register(_ context.Context, id string, _ time.Duration) ([]string, error) {
	return []string{id}, nil
}

func TestSlotsAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newGate()
		s := New(cluster{below}, Options{InFlight: 1})
		var callers []*caller
		for i := range 12 {
			callers = append(callers, call(s, one(fmt.Sprint("A", i, " slot ", i%3), 1)))
		}
		if below.now != 3 {
			t.Errorf("%d calls are under way, want one for each slot", below.now)
		}
		below.let(20)
		for _, charges := range below.calls {
			for _, c := range charges {
				if c.Key[len(c.Key)-1] != charges[0].Key[len(charges[0].Key)-1] {
					t.Errorf("keys of several slots in one call: %+v", charges)
				}
			}
		}
		if n := len(below.calls); n != 6 {
			t.Errorf("%d calls, want 6", n)
		}
		for i, c := range callers {
			wantGranted(t, []*caller{c}, 1)
			if p := s.Locate(&callers[i].charges[0]); p.Node != fmt.Sprint("node ", i%3) {
				t.Errorf("Locate = %+v, want that of the store below", p)
			}
		}
		if live, err := s.Register(t.Context(), "id", time.Second); err != nil || !slices.Equal(live, []string{"id"}) {
			t.Errorf("Register = %v, %v, want that of the store below", live, err)
		}
		s.Close()
	})
}

func TestAbilitiesTheStoreBelowLacks(t *testing.T) {
	s := New(new(nothing), Options{})
	defer s.Close()
	_, err := s.Register(t.Context(), "id", time.Second)
	for name, err := range map[string]error{
		"Settle":   s.Settle(t.Context(), nil),
		"Forget":   s.Forget(t.Context(), nil),
		"Register": err,
	} {
		if !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%s = %v, want ErrUnsupported", name, err)
		}
	}
	if p := s.Locate(&sluice.Charge{}); p != (sluice.Place{}) {
		t.Errorf("Locate = %+v, want one place", p)
	}
}
