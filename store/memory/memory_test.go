package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

func TestStore(t *testing.T) {
	var clock storetest.Clock
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) {
			return memory.New(memory.Options{Now: clock.Now}), nil
		},
		Clock: &clock,
	})
}

func TestStoreOfOneShard(t *testing.T) {
	var clock storetest.Clock
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) {
			return memory.New(memory.Options{MaxKeys: 3000, Now: clock.Now}), nil
		},
		Clock: &clock,
	})
}

func TestStoreInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) { return memory.New(memory.Options{}), nil },
	})
}

// take takes n tokens of a key.
func take(t testing.TB, s *memory.Store, key string, limit sluice.Limit, n int64) sluice.Decision {
	t.Helper()
	decisions, err := s.Take(context.Background(), nil, []sluice.Charge{{Key: key, Limit: limit, N: n}})
	if err != nil {
		t.Fatalf("Take(%.40q, %v, %d) failed: %v", key, limit, n, err)
	}
	return decisions[0]
}

var (
	bucket = sluice.Limit{Tokens: 10, Per: time.Minute}
	window = sluice.Limit{Tokens: 10, Per: time.Minute, Algorithm: sluice.FixedWindow}
)

// The time of a store passes as the monotonic clock's does. A bubble's clock
// stands still but for sleeping.
func TestClockPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		limit := sluice.Limit{Tokens: 10, Per: time.Second, Burst: 1}
		first := take(t, s, "a", limit, 1)
		if got, want := first.At, sluice.Ticks(time.Now()); got != want {
			t.Errorf("At = %d, want the wall clock's time, %d", got, want)
		}
		time.Sleep(100*time.Millisecond - time.Microsecond)
		if d := take(t, s, "a", limit, 1); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Errorf("1 µs early: got %+v, want a refusal with RetryAfter 1 µs", d)
		}
		time.Sleep(time.Microsecond)
		if d := take(t, s, "a", limit, 1); !d.Allowed {
			t.Errorf("after 100 ms: got %+v, want Allowed", d)
		}
	})
}

func TestTimesBefore2026(t *testing.T) {
	for _, year := range []int{1700, 1970, 2025, 2026, 2040, 2200} {
		now := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		s := memory.New(memory.Options{Now: func() time.Time { return now }})
		for _, limit := range []sluice.Limit{bucket, window} {
			for left := int64(9); left >= 0; left-- {
				if d := take(t, s, "a", limit, 1); !d.Allowed || d.Remaining != left {
					t.Fatalf("in %d, %v: got %+v, want Remaining %d", year, limit, d, left)
				}
			}
			if d := take(t, s, "a", limit, 1); d.Allowed {
				t.Errorf("in %d, %v: got %+v, want a refusal", year, limit, d)
			}
		}
	}
}

// A cache that took the empty key for none never evicted it.
func TestBoundCountsTheEmptyKey(t *testing.T) {
	for _, limit := range []sluice.Limit{bucket, window} {
		s := memory.New(memory.Options{MaxKeys: 2})
		for _, key := range []string{"", "one", "two", "three"} {
			take(t, s, key, limit, 1)
		}
		if s.Len() != 2 || s.Stats() != (memory.Stats{Keys: 2, Evicted: 2}) {
			t.Errorf("%v: Len() = %d, Stats() = %+v, want 2 keys, 2 evicted", limit, s.Len(), s.Stats())
		}
	}
}

func TestBoundIsExact(t *testing.T) {
	for _, max := range []int{1, 2, 63, 64, 1000, 20_000} {
		var clock storetest.Clock
		s := memory.New(memory.Options{MaxKeys: max, Now: clock.Now})
		fill := func(from, to int) {
			for i := from; i < to; i++ {
				limit := bucket
				if i%3 == 0 {
					limit = window
				}
				take(t, s, fmt.Sprint(i), limit, 1)
			}
		}
		fill(0, max)
		if s.Stats() != (memory.Stats{Keys: max}) {
			t.Errorf("MaxKeys %d, as many keys: %+v, want all kept", max, s.Stats())
		}
		fill(max, max+100)
		if s.Stats() != (memory.Stats{Keys: max, Evicted: 100}) {
			t.Errorf("MaxKeys %d, 100 more: %+v, want 100 evicted", max, s.Stats())
		}
		clock.Advance(2 * time.Minute)
		fill(max+100, max+200)
		if got, want := s.Stats().Evicted, int64(100+100-min(100, max)); got != want || s.Len() > max {
			t.Errorf("MaxKeys %d, 100 more when all were full: %+v, want %d evicted", max, s.Stats(), want)
		}
	}
}

// A call may be larger than the store: it is decided as any other.
func TestCallLargerThanTheStore(t *testing.T) {
	s := memory.New(memory.Options{MaxKeys: 1})
	charges := []sluice.Charge{
		{Key: "a", Limit: bucket, N: 6},
		{Key: "b", Limit: window, N: 6},
		{Key: "c", Limit: bucket, N: 6},
		{Key: "a", Limit: bucket, N: 6, Group: 1},
	}
	decisions, err := s.Take(t.Context(), nil, charges)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{6, 6, 6, 0} {
		if decisions[i].Granted != want {
			t.Errorf("charge %d: got %+v, want Granted %d", i, decisions[i], want)
		}
	}
	if s.Len() != 1 {
		t.Errorf("Len() = %d, want 1", s.Len())
	}
}

func TestPeeksAndRefusalsKeepNothing(t *testing.T) {
	s := memory.New(memory.Options{})
	for _, limit := range []sluice.Limit{bucket, window} {
		take(t, s, "a", limit, 0)
		if _, err := s.Take(t.Context(), nil, []sluice.Charge{{Key: "a", Limit: limit, N: 11}}); !errors.Is(err, sluice.ErrCost) {
			t.Errorf("Take of 11 of %v = %v, want ErrCost", limit, err)
		}
		take(t, s, "exhausted", limit, 10)
		_, err := s.Take(t.Context(), nil, []sluice.Charge{{Key: "a", Limit: limit, N: 1}, {Key: "exhausted", Limit: limit, N: 1}, {Key: "b", Limit: limit}})
		if err != nil {
			t.Error(err)
		}
		give := sluice.Settlement{Charge: sluice.Charge{Key: "c", Limit: limit, N: -3}}
		if err := s.Settle(t.Context(), []sluice.Settlement{give}); err != nil {
			t.Error(err)
		}
	}
	if s.Len() != 2 {
		t.Errorf("Len() = %d, want 2: the exhausted bucket and window", s.Len())
	}
}

// A per-key map that never shrinks was a leak: a million one-off keys here are
// kept no longer than they matter.
func TestOneOffKeysAreSwept(t *testing.T) {
	for _, limit := range []sluice.Limit{
		{Tokens: 10, Per: time.Second},
		{Tokens: 10, Per: time.Second, Algorithm: sluice.SlidingWindow},
	} {
		var clock storetest.Clock
		s := memory.New(memory.Options{Now: clock.Now})
		most := 0
		for i := range 100_000 {
			take(t, s, fmt.Sprint(i), limit, 1)
			clock.Advance(time.Millisecond) // a thousand new keys a second
			most = max(most, s.Len())
		}
		// A key is full after 2 s at most and swept after 2 s more; a shard's
		// hand takes a while to come round.
		if most > 12_000 {
			t.Errorf("%v: %d keys were kept at once, want at most 12,000", limit, most)
		}
		if s.Stats().Evicted != 0 {
			t.Errorf("%v: %+v, want nothing evicted", limit, s.Stats())
		}
	}
}

// Whoever rotates fresh keys must not make the store forget an exhausted one.
func TestRotatingKeysRefillNothing(t *testing.T) {
	for _, max := range []int{100, 1000, 9000} {
		for _, limit := range []sluice.Limit{bucket, window} {
			s := memory.New(memory.Options{MaxKeys: max})
			exhausted := func(i int) string { return fmt.Sprint("exhausted ", i) }
			long := limit
			long.Per = time.Hour
			for i := range 10 {
				take(t, s, exhausted(i), long, 10)
			}
			for i := range 3*max + 1000 {
				take(t, s, fmt.Sprint("fresh ", i), limit, 1)
			}
			for i := range 10 {
				if d := take(t, s, exhausted(i), long, 1); d.Allowed {
					t.Errorf("MaxKeys %d: fresh keys made place of exhausted key %d: %+v", max, i, d)
				}
			}
		}
	}
}

// Short keys are kept in another way than long ones; none is lost or mixed up,
// also not by a garbage collection.
func TestKeysOfEveryLength(t *testing.T) {
	s := memory.New(memory.Options{})
	long := strings.Repeat("x", 64<<10)
	lengths := []int{len(long) - 1}
	for n := range 100 {
		lengths = append(lengths, n)
	}
	for round := range int64(3) {
		for _, n := range lengths {
			for _, last := range []string{"a", "b"} {
				if d := take(t, s, long[:n]+last, bucket, 1); d.Remaining != 9-round {
					t.Fatalf("key of %d bytes and %q: got %+v, want Remaining %d", n, last, d, 9-round)
				}
			}
		}
		runtime.GC()
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	s := memory.New(memory.Options{})
	var dst [8]sluice.Decision
	run := func(name string, charges []sluice.Charge) {
		t.Helper()
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := s.Take(context.Background(), dst[:0], charges); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	sliding := window
	sliding.Algorithm = sluice.SlidingWindow
	run("a bucket", []sluice.Charge{{Key: "a", Limit: bucket, N: 1}})
	run("a window", []sluice.Charge{{Key: "a", Limit: window, N: 1}})
	run("a peek", []sluice.Charge{{Key: "a", Limit: bucket}})
	run("a part", []sluice.Charge{{Key: "a", Limit: bucket, N: 8, Unit: 2}})
	var eight []sluice.Charge
	for i := range 8 {
		limit := []sluice.Limit{bucket, window, sliding}[i%3]
		eight = append(eight, sluice.Charge{Key: fmt.Sprint(i), Limit: limit, N: 1, Group: i / 3})
	}
	run("eight charges", eight)
}

// Evicting, sweeping, forgetting and growing tables all the while, no key that
// is charged all the time is granted more than its bound.
func TestChurnKeepsHotKeysExact(t *testing.T) {
	s := memory.New(memory.Options{MaxKeys: 300})
	limit := sluice.Limit{Tokens: 1, Per: time.Hour, Burst: 500}
	fresh := sluice.Limit{Tokens: 1000, Per: time.Second}
	const hot, rounds = 5, 3000
	var granted [hot]atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range rounds {
				key := i % hot
				charges := []sluice.Charge{{Key: fmt.Sprint("hot ", key), Limit: limit, N: 1}}
				if g%2 == 1 {
					charges = append(charges, sluice.Charge{Key: fmt.Sprint("beside ", g, i), Limit: fresh, N: 1})
				}
				decisions, err := s.Take(context.Background(), nil, charges)
				if err != nil {
					t.Error(err)
					return
				}
				granted[key].Add(decisions[0].Granted)
			}
		})
		wg.Go(func() {
			for i := range rounds {
				charges := []sluice.Charge{{Key: fmt.Sprint("fresh ", g, i), Limit: fresh, N: 1}}
				if _, err := s.Take(context.Background(), nil, charges); err != nil {
					t.Error(err)
				}
				if i%16 == 0 {
					if err := s.Forget(context.Background(), charges); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range granted {
		if n := granted[i].Load(); n != limit.Burst {
			t.Errorf("hot key %d was granted %d, want %d", i, n, limit.Burst)
		}
	}
	if s.Len() > 300 {
		t.Errorf("Len() = %d, want at most 300", s.Len())
	}
}
