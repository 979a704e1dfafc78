package lease

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
)

// A limit that was reached lets through what it has again also where nothing is
// leased any more: the share has become too small, or demand has.
func TestScarcityEndsWithoutLeases(t *testing.T) {
	for _, tt := range []struct {
		name  string
		live  int64
		apart time.Duration
	}{
		{"more instances than tokens to lease", 100, 200 * time.Microsecond},
		{"little demand", 1, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var live atomic.Int64
				live.Store(1)
				s := New(newTruth(), Options{Fleet: func() (int, time.Duration) { return int(live.Load()), time.Hour }})
				run(t, s)
				c := sluice.Charge{Key: "k", N: 1, Tolerance: 10_000, Limit: sluice.Limit{Tokens: 10_000, Per: time.Second, Burst: 2000}}
				ask(t, s, c, 40_000, 50*time.Microsecond)
				if s.Stats().Refused == 0 || s.Stats().Leased == 0 {
					t.Fatalf("the limit was not reached: %+v", s.Stats())
				}
				live.Store(tt.live)
				time.Sleep(2 * time.Second)
				ask(t, s, c, 100, tt.apart)
				if passed := ask(t, s, c, 1000, tt.apart); passed != 1000 {
					t.Errorf("%d of 1000 passed at half the rate", passed)
				}
			})
		})
	}
}

// What a reset or another instance makes free is seen within about a second, also
// of a window that lasts for hours.
func TestScarcityIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		c := sluice.Charge{Key: "k", N: 1, Tolerance: 100_000, Limit: sluice.Limit{Tokens: 1000, Per: time.Hour, Algorithm: sluice.FixedWindow}}
		if passed := ask(t, s, c, 3000, time.Millisecond); passed != 1000 {
			t.Fatalf("%d of 1000 passed", passed)
		}
		if err := below.Store.Forget(t.Context(), []sluice.Charge{c}); err != nil {
			t.Fatal(err)
		}
		if passed := ask(t, s, c, 1200, time.Millisecond); passed == 0 {
			t.Error("nothing passes in the second after the key was reset elsewhere")
		}
	})
}

// Groups that stand apart stay apart when what was between them is spent here.
func TestGroupsStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newTruth(), Options{})
		run(t, s)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		full := sluice.Charge{Key: "full", Limit: sluice.Limit{Tokens: 1, Per: time.Hour}, N: 1}
		take(t, s, full)
		free, leased := full, hot
		free.Key, leased.Group = "free", 1
		got := take(t, s, full, leased, free)
		granted := []int64{got[0].Granted, got[1].Granted, got[2].Granted}
		if diff := cmp.Diff([]int64{0, 1, 1}, granted); diff != "" || got[1].Source != sluice.SourceLease {
			t.Errorf("granted (-want +got):\n%s%+v", diff, got)
		}
	})
}

// While a limit has just been changed nothing is claimed: what was held by the old
// one is on its way back.
func TestChangedLimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newTruth(), Options{})
		run(t, s)
		ask(t, s, hot, 1000, 100*time.Microsecond)
		claims := s.Stats().Claims
		other := hot
		other.Limit.Burst = 50_000
		ask(t, s, other, 700, 900*time.Microsecond)
		if n := s.Stats().Claims - claims; n != 0 {
			t.Errorf("%d claims within the lease time", n)
		}
		ask(t, s, other, 1000, 900*time.Microsecond)
		if s.Stats().Claims == claims {
			t.Error("no claims after the lease time")
		}
	})
}
