package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A recorder is a memory store that keeps what it was asked.
type recorder struct {
	*memory.Store

	mu    sync.Mutex
	calls [][]sluice.Charge
	fail  func(call int) error // nil: never
}

func newRecorder() *recorder { return &recorder{Store: memory.New(memory.Options{})} }

// Take implements [sluice.Store].
func (r *recorder) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	r.mu.Lock()
	r.calls = append(r.calls, slices.Clone(charges))
	call := len(r.calls)
	r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(call); err != nil {
			return dst, err
		}
	}
	return r.Store.Take(ctx, dst, charges)
}

// asked returns the keys and amounts of the last calls, and forgets them.
func (r *recorder) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, charges := range r.calls {
		var text strings.Builder
		for _, c := range charges {
			fmt.Fprintf(&text, "%d:%s=%d ", c.Group, c.Key, c.N)
		}
		all = append(all, text.String())
	}
	r.calls = nil
	return all
}

// scripted returns a pick that gives numbers in turn, and 0 after them.
func scripted(numbers ...int) func(int) int {
	return func(n int) int {
		if len(numbers) == 0 {
			return 0
		}
		first := numbers[0]
		numbers = numbers[1:]
		return first % n
	}
}

var hourly = sluice.Limit{Tokens: 40, Per: 1000 * time.Hour, Algorithm: sluice.FixedWindow}

func in(shards int, key string, n int64) sluice.Charge {
	return sluice.Charge{Key: key, Limit: hourly, N: n, Shards: shards}
}

func take(t *testing.T, s sluice.Store, charges ...sluice.Charge) []sluice.Decision {
	t.Helper()
	got, err := s.Take(t.Context(), nil, charges)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantAsked(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.asked()); diff != "" {
		t.Errorf("calls of the store below (-want +got):\n%s", diff)
	}
}

func TestARefusedShardTriesOneOther(t *testing.T) {
	r := newRecorder()
	s := newStore(r, scripted(1, 1, 1, 2))
	take(t, s, in(4, "a", 10)) // all of shard 1
	wantAsked(t, r, "0:a|#1=10 ")
	d := take(t, s, in(4, "a", 4))[0] // shard 1, then two further on
	wantAsked(t, r, "0:a|#1=4 ", "0:a|#3=4 ")
	// Of the two shards asked, 6 of 20 are left.
	if want := int64(12); !d.Allowed || d.Granted != 4 || d.Remaining != want || d.Limit != 40 || d.RetryAfter != 0 {
		t.Errorf("got %+v, want 4 granted of 40, about %d left", d, want)
	}
	take(t, s, in(4, "a", 10)) // shard 2
	r.asked()
	take(t, s, in(4, "a", 10)) // the first
	wantAsked(t, r, "0:a=10 ")
	s.pick = scripted(1, 1)
	d = take(t, s, in(4, "a", 1))[0]
	wantAsked(t, r, "0:a|#1=1 ", "0:a|#3=1 ")
	if !d.Allowed {
		t.Errorf("shard 3 has tokens left: %+v", d)
	}
	s.pick = scripted(1, 0)
	d = take(t, s, in(4, "a", 1))[0]
	wantAsked(t, r, "0:a|#1=1 ", "0:a|#2=1 ")
	if d.Allowed || d.RetryAfter <= 0 || d.Remaining != 0 {
		t.Errorf("both shards are empty, and no third is asked: %+v", d)
	}
}

func TestAPeekAsksAllAtOnce(t *testing.T) {
	r := newRecorder()
	s := newStore(r, scripted(3, 1))
	take(t, s, in(4, "a", 7))
	take(t, s, in(4, "a", 8))
	r.asked()
	d := take(t, s, in(4, "a", 0))[0]
	wantAsked(t, r, "0:a=0 0:a|#1=0 0:a|#2=0 0:a|#3=0 ")
	if !d.Allowed || d.Remaining != 25 || d.Limit != 40 || d.Granted != 0 || d.RetryAfter != 0 || d.ResetAfter <= 0 {
		t.Errorf("peek: %+v, want 25 of 40", d)
	}
}

// A cost over a shard's part is asked of as many shards as hold it.
func TestCostOverAPart(t *testing.T) {
	r := newRecorder()
	s := newStore(r, scripted(3))
	d := take(t, s, in(4, "a", 25))[0]
	wantAsked(t, r, "0:a|#3=9 0:a=8 0:a|#1=8 ")
	if d.Granted != 25 || !d.Allowed || d.RetryAfter != 0 {
		t.Errorf("got %+v, want 25 granted", d)
	}
	if d := take(t, s, in(4, "a", 0))[0]; d.Remaining != 15 {
		t.Errorf("%d are left of 40 after 25", d.Remaining)
	}
	r.asked()
	if d := take(t, s, in(4, "a", 40))[0]; d.Allowed || d.RetryAfter <= 0 || d.Granted != 0 || d.Remaining != 15 {
		t.Errorf("all at once: %+v, want a refusal with 15 left", d)
	}
	wantAsked(t, r, "0:a=10 0:a|#1=10 0:a|#2=10 0:a|#3=10 ")
	if d := take(t, s, in(4, "full", 40))[0]; !d.Allowed || d.Remaining != 0 {
		t.Errorf("all of a limit not used: %+v", d)
	}
	if d := take(t, s, in(3, "odd", 40))[0]; !d.Allowed || d.Granted != 40 {
		t.Errorf("all of a limit that 3 does not divide: %+v", d)
	}
	r.asked()
	unit := in(4, "parts", 37)
	unit.Unit = 12
	if d := take(t, s, unit)[0]; d.Granted != 12 || d.RetryAfter <= 0 {
		t.Errorf("up to 37 by 12: %+v, want one unit, as the shards asked hold no more", d)
	}
	wantAsked(t, r, "0:parts=18 0:parts|#1=18 ")
	if _, err := s.Take(t.Context(), nil, []sluice.Charge{in(4, "a", 41)}); !errors.Is(err, sluice.ErrCost) {
		t.Errorf("a cost over the whole limit: %v, want ErrCost", err)
	}
}

func TestGroups(t *testing.T) {
	plain := func(key string, n int64) sluice.Charge { return in(1, key, n) }
	grouped := func(group int, c sluice.Charge) sluice.Charge { c.Group = group; return c }
	for _, tt := range []struct {
		name    string
		before  []sluice.Charge
		pick    []int
		charges []sluice.Charge
		asked   []string
		granted []int64
	}{
		{
			"a shard refuses, the group moves",
			[]sluice.Charge{plain("a|#1", 10)},
			[]int{1},
			[]sluice.Charge{plain("p", 2), in(4, "a", 3)},
			[]string{"0:p=2 0:a|#1=3 ", "0:p=2 0:a|#2=3 "},
			[]int64{2, 3},
		},
		{
			"another charge refuses, nothing moves",
			[]sluice.Charge{plain("a|#1", 10), plain("p", 39)},
			[]int{1},
			[]sluice.Charge{plain("p", 2), in(4, "a", 3)},
			[]string{"0:p=2 0:a|#1=3 "},
			[]int64{0, 0},
		},
		{
			"only the one refused moves",
			[]sluice.Charge{plain("a|#1", 10)},
			[]int{1, 2},
			[]sluice.Charge{in(4, "a", 3), in(4, "b", 3)},
			[]string{"0:a|#1=3 0:b|#2=3 ", "0:a|#2=3 0:b|#2=3 "},
			[]int64{3, 3},
		},
		{
			"other groups are not asked again",
			[]sluice.Charge{plain("a|#1", 10)},
			[]int{1, 1},
			[]sluice.Charge{grouped(7, plain("p", 1)), grouped(8, in(4, "a", 3)), grouped(7, in(4, "b", 4))},
			[]string{"0:p=1 1:a|#1=3 2:b|#1=4 ", "1:a|#2=3 "},
			[]int64{1, 3, 4},
		},
		{
			"refused twice",
			[]sluice.Charge{plain("a|#1", 10), plain("a|#2", 9)},
			[]int{1},
			[]sluice.Charge{plain("p", 2), in(4, "a", 3)},
			[]string{"0:p=2 0:a|#1=3 ", "0:p=2 0:a|#2=3 "},
			[]int64{0, 0},
		},
		{
			"one key twice takes shards of its own", nil,
			[]int{1, 3},
			[]sluice.Charge{in(4, "a", 10), in(4, "a", 10)},
			[]string{"0:a|#1=10 0:a|#2=10 "},
			[]int64{10, 10},
		},
		{
			"one key in two groups",
			[]sluice.Charge{plain("a|#1", 5)},
			[]int{1, 1},
			[]sluice.Charge{in(4, "a", 5), grouped(1, in(4, "a", 0)), grouped(2, in(4, "a", 5))},
			[]string{"0:a|#1=5 1:a=0 1:a|#1=0 1:a|#2=0 1:a|#3=0 2:a|#1=5 ", "2:a|#2=5 "},
			[]int64{5, 0, 5},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder()
			for _, c := range tt.before {
				c.Limit = hourly.Part(1, 4)
				if c.Key == "p" {
					c.Limit = hourly
				}
				take(t, r.Store, c)
			}
			s := newStore(r, scripted(tt.pick...))
			kept := sluice.Decision{Remaining: 4711}
			got, err := s.Take(t.Context(), []sluice.Decision{kept}, tt.charges)
			if err != nil || len(got) != len(tt.charges)+1 || got[0] != kept {
				t.Fatalf("Take = %+v, %v", got, err)
			}
			wantAsked(t, r, tt.asked...)
			for i, want := range tt.granted {
				if d := got[i+1]; d.Granted != want || d.Limit != 40 {
					t.Errorf("charge %d: %+v, want %d granted of 40", i, d, want)
				}
			}
		})
	}
}

func TestSenseless(t *testing.T) {
	year := sluice.Charge{Key: "a", Limit: sluice.Limit{Tokens: 3, Per: sluice.MaxPer}, N: 1, Shards: 2}
	s := New(memory.New(memory.Options{}))
	for name, tt := range map[string]struct {
		charges []sluice.Charge
		want    error
	}{
		"more shards than tokens":          {[]sluice.Charge{in(41, "a", 1)}, sluice.ErrCharge},
		"a part that fills for too long":   {[]sluice.Charge{year}, sluice.ErrCharge},
		"one key in two numbers of shards": {[]sluice.Charge{in(4, "a", 1), in(3, "a", 1)}, sluice.ErrCharge},
		"one key with and without shards":  {[]sluice.Charge{in(0, "a", 1), in(3, "a", 1)}, sluice.ErrCharge},
		"one key too often":                {[]sluice.Charge{in(3, "a", 1), in(3, "a", 1), in(3, "a", 1), in(3, "a", 1)}, sluice.ErrCost},
		"a negative amount":                {[]sluice.Charge{in(4, "a", -1)}, sluice.ErrCharge},
	} {
		dst := []sluice.Decision{{Remaining: 17}}
		if got, err := s.Take(t.Context(), dst, tt.charges); !errors.Is(err, tt.want) || len(got) != 1 {
			t.Errorf("%s: %v, %v, want dst as it was and %v", name, got, err, tt.want)
		}
	}
	for _, charges := range [][]sluice.Charge{{in(41, "a", 1)}, {year}} {
		if err := s.Forget(t.Context(), charges); !errors.Is(err, sluice.ErrCharge) {
			t.Errorf("Forget(%+v) = %v, want ErrCharge", charges, err)
		}
		if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: charges[0]}}); !errors.Is(err, sluice.ErrCharge) {
			t.Errorf("Settle(%+v) = %v, want ErrCharge", charges, err)
		}
	}
}

var errAway = errors.New("away")

// The first call's error is the caller's; a second call that fails leaves what
// the first one said.
func TestErrors(t *testing.T) {
	r := newRecorder()
	s := newStore(r, scripted(1, 0, 1))
	take(t, s, in(4, "a", 10))
	r.asked()
	r.fail = func(call int) error {
		if call == 2 {
			return errAway
		}
		return nil
	}
	s.pick = scripted(1)
	if d := take(t, s, in(4, "a", 1))[0]; d.Allowed || d.RetryAfter <= 0 {
		t.Errorf("the second try failed: %+v, want the first one's refusal", d)
	}
	r.asked()
	r.fail = func(int) error { return errAway }
	if _, err := s.Take(t.Context(), nil, []sluice.Charge{in(4, "a", 1)}); !errors.Is(err, errAway) {
		t.Errorf("Take = %v, want the store's error", err)
	}
}

// still answers every charge and can do nothing else.
type still struct{}

func (still) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for range charges {
		dst = append(dst, sluice.Decision{Allowed: true})
	}
	return dst, nil
}

func TestWithoutShardsNothingIsAllocated(t *testing.T) {
	s := New(still{})
	ctx := context.Background()
	charges := []sluice.Charge{in(0, "a", 1), in(1, "b", 1)}
	dst := make([]sluice.Decision, 0, 2)
	var err error
	if n := testing.AllocsPerRun(200, func() { dst, err = s.Take(ctx, dst[:0], charges) }); n != 0 || err != nil {
		t.Errorf("a call without shards allocates %v times, error %v, want 0 and none", n, err)
	}
}

func TestAbilitiesOfTheStoreBelow(t *testing.T) {
	s := New(still{})
	c := in(4, "a", 1)
	for name, err := range map[string]error{
		"forget": s.Forget(t.Context(), []sluice.Charge{c}),
		"settle": s.Settle(t.Context(), []sluice.Settlement{{Charge: c}}),
		"register": func() error {
			_, err := s.Register(t.Context(), "id", time.Second)
			return err
		}(),
	} {
		if !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
	if p := s.Locate(&c); p != (sluice.Place{}) {
		t.Errorf("Locate = %+v, want nowhere", p)
	}
	able := New(placed{})
	if p := able.Locate(&c); p.Slot != 3 {
		t.Errorf("Locate = %+v, want the place below", p)
	}
	if live, err := able.Register(t.Context(), "id", time.Second); err != nil || len(live) != 1 {
		t.Errorf("Register = %v, %v, want the instances below", live, err)
	}
}

type placed struct{ still }

func (placed) Locate(*sluice.Charge) sluice.Place { return sluice.Place{Slot: 3} }

func (placed) Register(_ context.Context, id string, _ time.Duration) ([]string, error) {
	return []string{id}, nil
}

func TestForgetAllShards(t *testing.T) {
	s := New(memory.New(memory.Options{}))
	take(t, s, in(4, "a", 40), in(0, "b", 5))
	if err := s.Forget(t.Context(), []sluice.Charge{in(0, "b", 0), in(4, "a", 0)}); err != nil {
		t.Fatal(err)
	}
	for i, d := range take(t, s, in(4, "a", 0), in(0, "b", 0)) {
		if d.Remaining != 40 {
			t.Errorf("charge %d: %d are left of 40 after all was forgotten", i, d.Remaining)
		}
	}
}

// What is given back goes where it came from; what is charged is divided.
func TestSettle(t *testing.T) {
	for _, limit := range []sluice.Limit{hourly, {Tokens: 40, Per: 1000 * time.Hour}} {
		for _, n := range []int64{1, 7, 25, 36} {
			s := newStore(memory.New(memory.Options{}), rand.IntN)
			c := sluice.Charge{Key: "a", Limit: limit, N: n, Shards: 4}
			d := take(t, s, c)[0]
			back := sluice.Settlement{Charge: c, From: d}
			back.Charge.N = -(n + 1) // more than was granted is not given back
			other := in(0, "b", 3)
			if err := s.Settle(t.Context(), []sluice.Settlement{back, {Charge: other}}); err != nil {
				t.Fatal(err)
			}
			peek := c
			peek.N = 0
			// A bucket's give-back to several shards may leave a token of each.
			left, lost := take(t, s, peek)[0].Remaining, int64(0)
			if limit.Algorithm == sluice.TokenBucket && n > 10 {
				lost = 3
			}
			if left > 40 || left < 40-lost {
				t.Errorf("%v: %d are left of 40 after %d were given back", limit, left, n)
			}
			c.N = n
			if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: c}}); err != nil {
				t.Fatal(err)
			}
			if now := take(t, s, peek)[0].Remaining; now != left-n {
				t.Errorf("%v: %d are left of %d after %d were charged", limit, now, left, n)
			}
			c.N = 1000
			if err := s.Settle(t.Context(), []sluice.Settlement{{Charge: c}}); err != nil {
				t.Fatal(err)
			}
			if d := take(t, s, peek, other); d[0].Remaining != 0 || d[1].Remaining != 34 {
				t.Errorf("%v: %d and %d are left, want 0 and 34", limit, d[0].Remaining, d[1].Remaining)
			}
		}
	}
}

// What shards granted that the limit does not have any more is not given back to
// its one counter, which would take it for recent.
func TestSettleAfterTheShardsAreGone(t *testing.T) {
	s := newStore(memory.New(memory.Options{}), rand.IntN)
	c := sluice.Charge{Key: "a", Limit: hourly, N: 5, Shards: 4}
	d := take(t, s, c)[0]
	c.Shards = 0
	take(t, s, c)
	left := take(t, s, sluice.Charge{Key: "a", Limit: hourly})[0].Remaining
	back := sluice.Settlement{Charge: c, From: d}
	back.Charge.N = -5
	if err := s.Settle(t.Context(), []sluice.Settlement{back}); err != nil {
		t.Fatal(err)
	}
	if now := take(t, s, sluice.Charge{Key: "a", Limit: hourly})[0].Remaining; now != left {
		t.Errorf("%d are left, want %d", now, left)
	}
}

// Keys of different charges never share a shard.
func TestKeysAreInjective(t *testing.T) {
	seen := make(map[string]string)
	for _, key := range []string{"", "a", "a|#1", "a|#1|#1", "a|#0", "|#", "|#1", "a|", "a|#"} {
		for shard := range 3 {
			c := in(3, key, 1)
			got := shardOf(&c, shard)
			name := fmt.Sprintf("%q %d", key, shard)
			if other, ok := seen[got.Key]; ok {
				t.Errorf("%s and %s have one key, %q", name, other, got.Key)
			}
			seen[got.Key] = name
		}
	}
	for _, tt := range []struct{ key, tag, wantKey, wantTag string }{
		{"a", "", "a|#2", ""},
		{"a", "shop", "a|#2", "shop|#2"},
		{"{a}b", "", "{a}b|#2", "{a}b|#2"}, // else the cluster would take a for the tag
	} {
		c := sluice.Charge{Key: tt.key, Tag: tt.tag, Limit: hourly, Shards: 3}
		if got := shardOf(&c, 2); got.Key != tt.wantKey || got.Tag != tt.wantTag || got.Shards != 0 {
			t.Errorf("shard 2 of %q %q = %+v, want %q %q", tt.key, tt.tag, got, tt.wantKey, tt.wantTag)
		}
	}
}

// A key that gets shards keeps what it used, in the first of them.
func TestShardsKeepWhatWasUsed(t *testing.T) {
	s := New(memory.New(memory.Options{}))
	take(t, s, in(0, "a", 8))
	if d := take(t, s, in(4, "a", 0))[0]; d.Remaining != 32 {
		t.Errorf("%d are left of 40 after 8 were taken without shards", d.Remaining)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	s := New(memory.New(memory.Options{}))
	var granted atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				got, err := s.Take(context.Background(), nil, []sluice.Charge{in(8, "a", 1)})
				if err != nil {
					t.Error(err)
					return
				}
				granted.Add(got[0].Granted)
			}
		})
	}
	wait.Wait()
	// A call asks two of eight shards: 1600 calls find all there is.
	if n := granted.Load(); n != 40 {
		t.Errorf("%d granted of 40", n)
	}
}
