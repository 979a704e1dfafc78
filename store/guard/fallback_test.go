package guard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-limiter/sluice"
)

func charge(key string, n int64, group int, mode sluice.FailureMode) sluice.Charge {
	return sluice.Charge{Key: key, Limit: sluice.Limit{Tokens: 10, Per: time.Hour}, N: n, Group: group, OnFailure: mode}
}

const (
	local = sluice.FailLocal
	allow = sluice.FailAllow
	deny  = sluice.FailDeny
)

// F91, F92: each limit says what happens while the store is away.
func TestModes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		charges []sluice.Charge
		want    []sluice.Decision
		left    int64 // of local key "l", 5 being this instance's share
	}{
		{
			"local",
			[]sluice.Charge{charge("l", 2, 0, local)},
			[]sluice.Decision{{Allowed: true, Granted: 2, Limit: 5, Remaining: 3}},
			3,
		},
		{
			"allow",
			[]sluice.Charge{charge("a", 2, 0, allow)},
			[]sluice.Decision{{Allowed: true, Granted: 2, Limit: 10, Remaining: 8}},
			5,
		},
		{
			"deny",
			[]sluice.Charge{charge("d", 2, 0, deny)},
			[]sluice.Decision{{Limit: 10, RetryAfter: 200 * time.Millisecond}},
			5,
		},
		{
			"deny holds a group back",
			[]sluice.Charge{charge("l", 2, 0, local), charge("a", 1, 0, allow), charge("d", 1, 0, deny)},
			[]sluice.Decision{
				{Allowed: true, Limit: 5, Remaining: 5},
				{Allowed: true, Limit: 10, Remaining: 10},
				{Limit: 10, RetryAfter: 200 * time.Millisecond},
			},
			5,
		},
		{
			"groups are on their own",
			[]sluice.Charge{charge("d", 1, 0, deny), charge("l", 1, 1, local)},
			[]sluice.Decision{
				{Limit: 10, RetryAfter: 200 * time.Millisecond},
				{Allowed: true, Granted: 1, Limit: 5, Remaining: 4},
			},
			4,
		},
		{
			"peeks",
			[]sluice.Charge{charge("l", 0, 0, local), charge("a", 0, 0, allow), charge("d", 0, 0, deny)},
			[]sluice.Decision{
				{Allowed: true, Limit: 5, Remaining: 5},
				{Allowed: true, Limit: 10, Remaining: 10},
				{Allowed: true, Limit: 10},
			},
			5,
		},
		{
			"a peek on deny holds nobody back",
			[]sluice.Charge{charge("d", 0, 0, deny), charge("l", 1, 0, local)},
			[]sluice.Decision{
				{Allowed: true, Limit: 10},
				{Allowed: true, Granted: 1, Limit: 5, Remaining: 4},
			},
			4,
		},
		{
			"a refused local charge holds allow back",
			[]sluice.Charge{charge("l", 6, 0, local), charge("a", 1, 0, allow)},
			[]sluice.Decision{
				{Limit: 5, Remaining: 5, RetryAfter: 200 * time.Millisecond}, // over the share: only the store can
				{Allowed: true, Limit: 10, Remaining: 10},
			},
			5,
		},
		{
			"a key twice, over the share",
			[]sluice.Charge{charge("l", 3, 0, local), charge("l", 3, 0, local)},
			[]sluice.Decision{
				{Allowed: true, Limit: 5, Remaining: 5},
				{Limit: 5, Remaining: 5, RetryAfter: 200 * time.Millisecond},
			},
			5,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSubject(t, Options{Instances: 2})
				s.open()
				time.Sleep(s.o.Probe - 200*time.Millisecond)
				got, _ := s.take(tt.charges...)
				for i := range tt.want {
					tt.want[i].Source = sluice.SourceFallback
				}
				if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(sluice.Decision{}, "At", "ResetAfter")); diff != "" {
					t.Errorf("decisions (-want +got):\n%s", diff)
				}
				if d := s.one(charge("l", 0, 0, local)); d.Remaining != tt.left {
					t.Errorf("%d tokens left, want %d", d.Remaining, tt.left)
				}
			})
		})
	}
}

// Parts: every charge of a group gets the same number of units.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Instances: 2})
		s.open()
		a, l := charge("a", 8, 0, allow), charge("l", 8, 0, local)
		a.Unit, l.Unit = 2, 1
		got, _ := s.take(a, l)
		if got[0].Granted != 8 || got[1].Granted != 4 || got[1].RetryAfter <= 0 {
			t.Errorf("parts = %+v, want 4 units of each", got)
		}
		a, l = charge("a", 8, 0, allow), charge("l2", 8, 0, local)
		a.Unit, l.Unit = 1, 1
		got, _ = s.take(a, l)
		if got[0].Granted != 5 || got[1].Granted != 5 || got[0].RetryAfter <= 0 || got[1].RetryAfter <= 0 {
			t.Errorf("parts = %+v, want 5 units of each", got)
		}
	})
}

// What a refused group tells of a local charge that would not pass alone.
func TestRefusedGroupTellsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Probe: 1000 * time.Hour})
		s.open()
		bucket := charge("l", 10, 0, local)
		window := charge("w", 10, 0, local)
		window.Limit.Algorithm = sluice.FixedWindow
		s.take(bucket, window)
		bucket.N, window.N = 1, 1
		got, _ := s.take(bucket, window, charge("d", 1, 0, deny))
		if want := 6 * time.Minute; got[0].Allowed || got[0].RetryAfter != want {
			t.Errorf("bucket: %+v, want RetryAfter %v", got[0], want)
		}
		if got[1].Allowed || got[1].RetryAfter <= 0 || got[1].RetryAfter > time.Hour {
			t.Errorf("window: %+v", got[1])
		}
	})
}

func TestFallbackErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Instances: 2})
		s.open()
		dst := []sluice.Decision{{Limit: 99}}
		bad := []sluice.Charge{charge("l", 1, 0, local), charge("x", -1, 1, allow)}
		got, err := s.Take(t.Context(), dst, bad)
		if !errors.Is(err, sluice.ErrCharge) || len(got) != 1 {
			t.Errorf("a charge without sense: %v, %v", got, err)
		}
		if d := s.one(charge("l", 0, 0, local)); d.Remaining != 5 {
			t.Error("a call without sense left a trace")
		}
		if got, err := s.Take(t.Context(), dst, nil); err != nil || len(got) != 1 {
			t.Errorf("no charges: %v, %v", got, err)
		}
	})
}

// A deny waits for the next probe, and at least a millisecond.
func TestDenyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		s.next.take = broken
		for i := range inARow {
			want := time.Millisecond // the next call goes to the store
			if i == inARow-1 {
				want = s.o.Probe
			}
			if d := s.one(charge("d", 1, 0, deny)); d.RetryAfter != want {
				t.Errorf("failure %d: RetryAfter = %v, want %v", i+1, d.RetryAfter, want)
			}
		}
		s.next.take = nil
		time.Sleep(s.o.Probe)
		if d := s.one(charge("d", 1, 0, deny)); !d.Allowed {
			t.Errorf("refused after the wait: %+v", d)
		}
		if got := s.Stats().Fallbacks; got != [3]int64{0, 0, 3} {
			t.Errorf("fallbacks by mode = %v, want 3 of deny", got)
		}
	})
}
