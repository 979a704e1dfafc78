package guard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
)

// returned is an instance of a fleet whose breaker has just closed.
func returned(t *testing.T, ids ...string) *subject {
	s := newSubject(t, Options{ID: ids[0]})
	s.fleet.Store(knownFleet(ids[0], ids))
	s.running.Store(true)
	s.away(func() {})
	s.one(sluice.Charge{Key: "probe", Limit: perSecond(100), N: 1})
	if n := s.Stats().Nodes[0]; n.State != Closed {
		t.Fatalf("node = %+v, want closed", n)
	}
	return s
}

// Until the others have settled, the share must suffice as well as the store.
func TestShareAndStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := returned(t, "a", "b")
		c := charge("k", 1, 0, local)
		for i := range 5 {
			if d := s.one(c); !d.Allowed || d.Source != sluice.SourceStore || d.Remaining != int64(9-i) {
				t.Errorf("decision %d = %+v, want the store's", i, d)
			}
		}
		d := s.one(c)
		if d.Allowed || d.Source != sluice.SourceFallback || d.RetryAfter <= 0 {
			t.Errorf("beyond the share: %+v, want a refusal from fallback", d)
		}
		if got := s.inNext(c).Remaining; got != 5 {
			t.Errorf("%d left in the store, want 5", got)
		}
		// What the store refuses is refused, whatever the share has.
		full := charge("full", 10, 0, local)
		if _, err := s.next.Store.Take(t.Context(), nil, []sluice.Charge{full}); err != nil {
			t.Fatal(err)
		}
		full.N = 1
		if d := s.one(full); d.Allowed || d.Source != sluice.SourceStore {
			t.Errorf("a key that is full in the store: %+v, want its refusal", d)
		}
		time.Sleep(s.fleetWait())
		for range 5 {
			if d := s.one(c); !d.Allowed || d.Source != sluice.SourceStore {
				t.Errorf("after the others had time: %+v, want the store's grant", d)
			}
		}
		if s.nodeOf(c).trouble.Load() != 0 {
			t.Error("the node is still in trouble")
		}
	})
}

func (s *subject) nodeOf(c sluice.Charge) *node { return s.node(&c) }

// The store alone decides again within a second of its return, whoever was away:
// a probe's delay, and the time that others are waited for.
func TestAloneAgainWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{ID: "a"})
		s.fleet.Store(knownFleet("a", []string{"a", "b"}))
		s.running.Store(true)
		s.open()
		c := sluice.Charge{Key: "k", Limit: perSecond(10), N: 1}
		start, last := time.Now(), time.Duration(0)
		for time.Since(start) < 3*time.Second {
			if d := s.one(c); d.Source == sluice.SourceFallback {
				last = time.Since(start)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if last < s.o.Probe || last > time.Second {
			t.Errorf("the last decision by local counters was %v after the store's return", last)
		}
	})
}

// Groups that the share refuses are answered here; the others by the store, with
// parts of what the share has.
func TestShareAndStoreByGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := returned(t, "a", "b")
		s.take(charge("used", 5, 0, local))
		part := charge("part", 8, 2, local)
		part.Unit = 1
		got, _ := s.take(
			charge("used", 1, 0, local), charge("other", 1, 0, local), // refused by the share
			charge("free", 2, 1, local), charge("denied", 1, 1, deny), // the store is there: no deny
			part,
			charge("used", 0, 3, local),
		)
		type answer struct {
			allowed   bool
			granted   int64
			remaining int64
			source    sluice.Source
		}
		for i, want := range []answer{
			{false, 0, 0, sluice.SourceFallback},
			{true, 0, 5, sluice.SourceFallback},
			{true, 2, 8, sluice.SourceStore},
			{true, 1, 9, sluice.SourceStore},
			{true, 5, 5, sluice.SourceStore},
			{true, 0, 5, sluice.SourceStore},
		} {
			d := got[i]
			if (answer{d.Allowed, d.Granted, d.Remaining, d.Source}) != want {
				t.Errorf("decision %d = %+v, want %+v", i, d, want)
			}
		}
		if got[0].RetryAfter <= 0 || got[4].RetryAfter <= 0 {
			t.Errorf("a refusal and a part without a wait: %+v", got)
		}
	})
}

// A single instance waits for nobody, nor does one whose Run is not there to
// settle.
func TestNobodyToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := returned(t, "a")
		for range 10 {
			if d := s.one(charge("k", 1, 0, local)); !d.Allowed || d.Source != sluice.SourceStore {
				t.Errorf("single instance: %+v, want the store's grant", d)
			}
		}
		s = newSubject(t, Options{Instances: 5})
		s.away(func() {})
		for range 10 {
			if d := s.one(charge("k", 1, 0, local)); !d.Allowed || d.Source != sluice.SourceStore {
				t.Errorf("without Run: %+v, want the store's grant", d)
			}
		}
	})
}
