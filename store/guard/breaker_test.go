package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shifts []string
		s := newSubject(t, Options{OnState: func(node string, from, to State) {
			shifts = append(shifts, fmt.Sprintf("%v > %v", from, to))
		}})
		c := sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}
		s.next.take = broken
		s.one(c)
		s.one(c)
		s.next.take = nil
		s.one(c) // an answer between failures begins the count anew
		s.next.take = broken
		s.one(c)
		s.one(c)
		if len(shifts) > 0 {
			t.Fatalf("two failures, an answer and two failures: %v, want closed", shifts)
		}
		s.one(c)
		calls := s.next.calls.Load()
		time.Sleep(s.o.Probe - time.Millisecond)
		s.one(c)
		if got := s.next.calls.Load(); got != calls {
			t.Errorf("%d calls while open, want none", got-calls)
		}
		time.Sleep(time.Millisecond)
		s.one(c)
		s.one(c)
		if got := s.next.calls.Load(); got != calls+1 {
			t.Errorf("%d calls after the delay, want one probe", got-calls)
		}
		s.next.take = nil
		time.Sleep(s.o.Probe)
		for range 2 {
			if d := s.one(c); d.Source != sluice.SourceStore {
				t.Errorf("Source once the store is back = %v, want store", d.Source)
			}
		}
		want := []string{"closed > open", "open > half_open", "half_open > open", "open > half_open", "half_open > closed"}
		if diff := cmp.Diff(want, shifts); diff != "" {
			t.Errorf("changes of state (-want +got):\n%s", diff)
		}
		if n := s.Stats().Nodes[0]; n.Opened != 1 || n.State != Closed {
			t.Errorf("stats = %+v, want closed, opened once", n)
		}
	})
}

// A breaker that takes more failures than there are opens never: every call is
// tried, and the first answer counts.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Failures: 1000})
		c := sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}
		s.next.take = hangs
		for i := range 100 {
			if _, took := s.take(c); took != s.o.Budget {
				t.Fatalf("call %d took %v, want its budget", i, took)
			}
		}
		s.next.take = nil
		if d := s.one(c); d.Source != sluice.SourceStore {
			t.Errorf("Source once the store is back = %v, want store", d.Source)
		}
		if n := s.Stats().Nodes[0]; n.Opened != 0 {
			t.Errorf("stats = %+v, want never opened", n)
		}
	})
}

// With a breaker that stays closed, what is owed is tried once a delay, not in a
// loop.
func TestFailingSettlementsDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Failures: 1000})
		s.next.take = broken
		s.one(sluice.Charge{Key: "k", Limit: perSecond(100), N: 1})
		calls := s.next.calls.Load()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { s.Run(ctx) })
		time.Sleep(4*s.o.Probe + time.Millisecond)
		synctest.Wait()
		if got := s.next.calls.Load() - calls; got != 4 {
			t.Errorf("%d calls in four delays, want 4", got)
		}
		cancel()
		run.Wait()
	})
}

// While a probe hangs, nobody else waits.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		c := sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}
		s.open()
		s.next.take = hangs
		time.Sleep(s.o.Probe)
		var waited atomic.Int64
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if _, took := s.take(c); took > 0 {
					waited.Add(1)
				}
			})
		}
		calls.Wait()
		if waited.Load() != 1 {
			t.Errorf("%d callers waited for the probe, want 1", waited.Load())
		}
	})
}

// An answer to a call from before the breaker opened closes nothing, and its
// failure is not the probe's.
func TestLateAnswersCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{Budget: time.Minute})
		c := sluice.Charge{Key: "k", Limit: perSecond(100), N: 1}
		var calls sync.WaitGroup
		s.next.take = answersAfter(time.Second)
		calls.Go(func() { s.one(c) })
		synctest.Wait()
		s.open()
		s.next.take = hangs
		time.Sleep(600 * time.Millisecond)
		calls.Go(func() { s.one(c) }) // the probe
		calls.Go(func() { time.Sleep(time.Second) })
		time.Sleep(time.Second)
		if state := s.Stats().Nodes[0].State; state != HalfOpen {
			t.Errorf("state after a late answer = %v, want half-open still", state)
		}
		calls.Wait()
		if state := s.Stats().Nodes[0].State; state != Open {
			t.Errorf("state after the probe = %v, want open", state)
		}
	})
}

// sliced is a store on two nodes, by the first byte of the key.
type sliced struct {
	sluice.Store
	down atomic.Value // of string
}

func (s *sliced) Locate(c *sluice.Charge) sluice.Place { return sluice.Place{Node: c.Key[:1]} }

func (s *sliced) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if charges[0].Key[:1] == s.down.Load() {
		return dst, errBroken
	}
	return s.Store.Take(ctx, dst, charges)
}

func TestNodesFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &sliced{Store: memory.New(memory.Options{})}
		next.down.Store("a")
		s := &subject{Store: New(next, memory.New(memory.Options{}), Options{}), t: t}
		for i := range 10 {
			for node, want := range map[string]sluice.Source{"a": sluice.SourceFallback, "b": sluice.SourceStore} {
				d := s.one(sluice.Charge{Key: node + "/k", Limit: perSecond(100), N: 1})
				if d.Source != want {
					t.Errorf("decision %d on node %s from %v, want %v", i, node, d.Source, want)
				}
			}
		}
		nodes := s.Stats().Nodes
		if len(nodes) != 2 || nodes[0].State != Open || nodes[1].State != Closed {
			t.Errorf("nodes = %+v, want a open, b closed", nodes)
		}
	})
}

// Run finds that a quiet store is back.
func TestRunProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, Options{})
		s.open()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { s.Run(ctx) })
		time.Sleep(1100 * time.Millisecond)
		if state := s.Stats().Nodes[0].State; state != Closed {
			t.Errorf("state a second after the store is back = %v, want closed", state)
		}
		cancel()
		run.Wait() // the bubble fails on anything left behind
	})
}

func TestNames(t *testing.T) {
	for s, want := range map[State]string{Closed: "closed", Open: "open", HalfOpen: "half_open", 7: "state(7)"} {
		if got := s.String(); got != want {
			t.Errorf("State(%d) = %q, want %q", s, got, want)
		}
	}
}
