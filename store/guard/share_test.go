package guard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
)

// cutOff is a fleet of instances of which none reaches the store.
type cutOff []*subject

func newCutOff(t *testing.T, n int) cutOff {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("instance-%03d", i))
	}
	var fleet cutOff
	for i := range n {
		s := newSubject(t, Options{ID: ids[i], Probe: 1000 * time.Hour})
		s.fleet.Store(knownFleet(ids[i], ids))
		s.open()
		fleet = append(fleet, s)
	}
	return fleet
}

// drain takes all that every instance gives now, one token at a time.
func (f cutOff) drain(c sluice.Charge) (granted int64) {
	for _, s := range f {
		for s.one(c).Granted > 0 {
			granted++
		}
	}
	return granted
}

// J136, J137: the shares of any number of instances are together the limit.
func TestWindowSharesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := 1; n <= 30; n++ {
			fleet := newCutOff(t, n)
			for _, tokens := range []int64{1, 3, 7, 30, 100} {
				for _, algorithm := range []sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow} {
					limit := sluice.Limit{Tokens: tokens, Per: time.Minute, Algorithm: algorithm}
					time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(4 * time.Minute)))
					got := fleet.drain(sluice.Charge{Key: fmt.Sprint(tokens, algorithm), Limit: limit, N: 1})
					if got != tokens {
						t.Errorf("%d instances admit %d of %v in a window", n, got, limit)
					}
				}
			}
		}
	})
}

// Each instance has its turn when there are fewer tokens than instances.
func TestTurnsRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newCutOff(t, 5)
		c := sluice.Charge{Key: "k", Limit: sluice.Limit{Tokens: 2, Per: time.Minute, Algorithm: sluice.FixedWindow}, N: 1}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		had := make([]int, 5)
		for range 10 {
			for i, s := range fleet {
				d := s.one(c)
				if d.Allowed {
					had[i]++
				} else if d.RetryAfter <= 0 || d.RetryAfter > 5*time.Minute || d.Remaining != 0 {
					t.Errorf("refusal of a turn: %+v", d)
				}
			}
			time.Sleep(time.Minute)
		}
		for i, n := range had {
			if n != 4 {
				t.Errorf("instance %d had %d turns in 10 windows of 2 tokens for 5, want 4", i, n)
			}
		}
	})
}

func TestWaitForATurnIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newCutOff(t, 7)
		for _, limit := range []sluice.Limit{
			{Tokens: 2, Per: time.Minute, Algorithm: sluice.FixedWindow},
			{Tokens: 3, Per: time.Minute, Algorithm: sluice.SlidingWindow},
			{Tokens: 2, Per: time.Minute, Algorithm: sluice.SlidingLog},
			{Tokens: 100, Per: time.Minute, Burst: 3},
			{Tokens: 3, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarDay, Zone: "Europe/Berlin"}},
		} {
			c := sluice.Charge{Key: limit.String(), Limit: limit, N: 1}
			for _, s := range fleet {
				for range 3 {
					d := s.one(c)
					if d.Allowed {
						continue
					}
					time.Sleep(d.RetryAfter)
					if d := s.one(c); !d.Allowed {
						t.Errorf("%v: refused after the wait: %+v", limit, d)
					}
				}
			}
		}
	})
}

// Buckets and logs that leave less than one token: each slot has one.
func TestSlotSharesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []sluice.Limit{
			{Tokens: 1, Per: time.Second},
			{Tokens: 5, Per: time.Minute, Burst: 2},
			{Tokens: 100, Per: 10 * time.Second, Burst: 3},
			{Tokens: 3, Per: time.Minute, Algorithm: sluice.SlidingLog},
		} {
			for _, n := range []int{2, 4, 5, 9, 30} {
				if limit.Capacity() >= int64(n) {
					continue
				}
				fleet := newCutOff(t, n)
				c := sluice.Charge{Key: fmt.Sprint(n), Limit: limit, N: 1}
				slot := limit.Per / time.Duration(limit.Tokens)
				time.Sleep(time.Until(time.Now().Truncate(slot).Add(slot)))
				granted := int64(0)
				for range 60 {
					got := fleet.drain(c)
					if got > 1 {
						t.Errorf("%d instances admit %d of %v in a slot, want at most 1", n, got, limit)
					}
					granted += got
					time.Sleep(slot)
				}
				if granted != 60 {
					t.Errorf("%d instances admit %d of %v in 60 slots, want 60", n, granted, limit)
				}
			}
		}
	})
}

// The shares of a bucket hold its bound in any window, and lose to rounding less
// than a token of burst for each instance and nothing of the rate.
func TestBucketSharesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := sluice.Limit{Tokens: 100, Per: time.Second, Burst: 50}
		for n := 1; n <= 30; n++ {
			fleet := newCutOff(t, n)
			c := sluice.Charge{Key: "k", Limit: limit, N: 1}
			if got := fleet.drain(c); got > 50 || got < 50-int64(n)+1 {
				t.Errorf("%d instances admit %d at once of a burst of 50", n, got)
			}
			granted := int64(0)
			for range 300 {
				time.Sleep(10 * time.Millisecond)
				granted += fleet.drain(c)
			}
			if granted > 300 || granted < 300-int64(n) {
				t.Errorf("%d instances admit %d in 3s of 100/s", n, granted)
			}
		}
	})
}

// Every share of a valid limit is valid, and n of them are at most the limit.
func TestSharesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := sluice.Limit{
			Tokens:    rapid.Int64Range(1, 1<<rapid.IntRange(1, 32).Draw(t, "size")).Draw(t, "tokens"),
			Per:       time.Duration(rapid.Int64Range(1000, int64(sluice.MaxPer/time.Microsecond)).Draw(t, "per")) * time.Microsecond,
			Algorithm: sluice.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")),
		}
		if limit.Algorithm == sluice.TokenBucket {
			limit.Burst = rapid.Int64Range(0, 1<<20).Draw(t, "burst")
		}
		if limit.Validate() != nil {
			t.Skip("not a limit")
		}
		n := rapid.Int64Range(1, 1000).Draw(t, "instances")
		now := rapid.Int64Range(0, 1<<50).Draw(t, "now")
		key := rapid.Uint64().Draw(t, "key")
		burst := int64(0)
		for _, rank := range []int64{0, n / 2, n - 1} {
			f := &fleet{live: n, rank: rank}
			sh := f.share(&limit, key, now, 0)
			if sh.limit.Tokens == 0 {
				if sh.wait <= 0 {
					t.Fatalf("no share of %v and no wait", limit)
				}
				continue
			}
			if err := sh.limit.Validate(); err != nil {
				t.Fatalf("share of %v for %d of %d: %v", limit, rank, n, err)
			}
			if sh.limit.Kind() != limit.Kind() {
				t.Fatalf("share of %v is of another kind: %v", limit, sh.limit)
			}
			if sh.wait == 0 {
				burst += sh.limit.Capacity()
			}
			if rate, most := sh.limit.EffectiveRate(), float64(limit.Tokens)/limit.Per.Seconds()/float64(n); sh.limit.Capacity() > 1 &&
				limit.Algorithm == sluice.TokenBucket && rate > most*1.000001 {
				t.Fatalf("share of %v for %d instances refills at %v, want at most %v", limit, n, rate, most)
			}
		}
		if burst > limit.Capacity() && n >= 3 {
			t.Fatalf("3 shares of %v for %d instances hold %d", limit, n, burst)
		}
	})
}

// Ranks before a heartbeat come from the id, within the number configured.
func TestUnknownFleet(t *testing.T) {
	for n := 1; n < 20; n++ {
		if f := unknownFleet("some id", n); f.live != int64(n) || f.rank < 0 || f.rank >= f.live || f.known {
			t.Errorf("unknownFleet(%d) = %+v", n, f)
		}
	}
	if f := knownFleet("c", []string{"a", "b"}); f.live != 2 || f.rank >= 2 {
		t.Errorf("a fleet without this instance = %+v", f)
	}
}

// What was used is kept while the number of instances changes.
func TestSharesKeepWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []sluice.Limit{
			{Tokens: 60, Per: time.Hour},
			{Tokens: 60, Per: time.Hour, Algorithm: sluice.FixedWindow},
			{Tokens: 60, Per: time.Hour, Algorithm: sluice.SlidingLog},
		} {
			s := newSubject(t, Options{ID: "a", Probe: 1000 * time.Hour})
			s.fleet.Store(knownFleet("a", []string{"a", "b", "c"}))
			s.open()
			c := sluice.Charge{Key: "k", Limit: limit, N: 1}
			if got := (cutOff{s}).drain(c); got != 20 {
				t.Errorf("%v: a third is %d", limit, got)
			}
			s.fleet.Store(knownFleet("a", []string{"a", "b"}))
			got := (cutOff{s}).drain(c)
			want := int64(10)
			if limit.Algorithm == sluice.TokenBucket {
				want = 0 // its debt is the time to fill, the same for every share
			}
			if got != want {
				t.Errorf("%v: %d more as a half, want %d", limit, got, want)
			}
		}
	})
}

func BenchmarkShare(b *testing.B) {
	f := &fleet{live: 5, rank: 3}
	limit := sluice.Limit{Tokens: 100, Per: time.Second}
	now := sluice.Ticks(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		f.share(&limit, 12345, now, now)
	}
}
