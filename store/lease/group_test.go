package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A group passes whole or not at all: where the store refuses its part, what was
// reserved goes back.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newTruth()
		s := New(below, Options{})
		run(t, s)
		exact := sluice.Charge{Key: "exact", Limit: sluice.Limit{Tokens: 3, Per: time.Hour}, N: 1}
		alone := hot
		alone.Group = 1
		ask(t, s, hot, 1000, 100*time.Microsecond)
		for i := range 10 {
			held := s.Stats().Held
			got := take(t, s, hot, exact, alone)
			pass := i < 3
			if got[0].Source != sluice.SourceLease || !got[0].Allowed || got[1].Allowed != pass || !got[2].Allowed ||
				(got[0].Granted == 1) != pass || (got[1].Granted == 1) != pass || got[2].Granted != 1 {
				t.Fatalf("call %d: %+v", i, got)
			}
			want := held - 1
			if pass {
				want--
			}
			if now := s.Stats().Held; now != want {
				t.Errorf("call %d: %d held, want %d", i, now, want)
			}
		}
		// The same key twice counts twice; an error returns all.
		held := s.Stats().Held
		if got := take(t, s, hot, hot); !got[0].Allowed || !got[1].Allowed || s.Stats().Held != held-2 {
			t.Errorf("twice: %+v, %d of %d held", got, s.Stats().Held, held)
		}
		failing := New(failingStore{below}, Options{})
		failing.active.Store(true)
		e := failing.entry(&hot, 0)
		e.grant.Store(&grant{until: time.Hour})
		e.left.Store(100)
		if _, err := failing.Take(t.Context(), nil, []sluice.Charge{hot, exact}); err == nil {
			t.Error("no error")
		}
		if e.left.Load() != 100 || e.reserved.Load() != 0 {
			t.Errorf("%d left, %d reserved, want 100, 0", e.left.Load(), e.reserved.Load())
		}
	})
}
