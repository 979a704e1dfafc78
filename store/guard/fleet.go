package guard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A fleet is the instances among which limits are divided, and the place of this
// one. It does not change.
type fleet struct {
	live  int64
	rank  int64
	known bool // from a heartbeat
}

// unknownFleet is the fleet before the first heartbeat: the ranks of the others
// are not known, so this instance's comes from its id alone and may be taken.
func unknownFleet(id string, instances int) *fleet {
	return &fleet{live: int64(instances), rank: int64(hash(id) % uint64(instances))}
}

func knownFleet(id string, live []string) *fleet {
	rank, ok := slices.BinarySearch(live, id)
	if !ok {
		return unknownFleet(id, max(1, len(live)))
	}
	return &fleet{live: int64(len(live)), rank: int64(rank), known: true}
}

// Run sends heartbeats, probes nodes that nobody asks, and settles what was
// granted locally, until ctx ends; it then says that this instance is gone. All
// that it starts has ended when it returns. Without it the store works, on the
// configured number of instances; debts are settled when their keys are next
// asked for.
func (s *Store) Run(ctx context.Context) {
	var parts sync.WaitGroup
	if s.registrar != nil {
		parts.Go(func() { s.beat(ctx) })
	}
	parts.Go(func() { s.mend(ctx) })
	s.running.Store(true)
	defer s.running.Store(false)
	parts.Wait()
	s.settling.Wait()
	s.settleLast(context.WithoutCancel(ctx))
}

// settleLast settles what is still owed when the instance ends, as far as the
// nodes answer: nobody will do it later.
func (s *Store) settleLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, n := range s.allNodes() {
		if n.pending.Load() > 0 {
			s.settleAll(ctx, n)
		}
	}
}

// beatTimeout bounds one heartbeat.
const beatTimeout = time.Second

// beat sends heartbeats. Until it hears of any instance, and while those that it
// hears of change, it listens more often, so that a fleet that starts knows itself
// soon.
func (s *Store) beat(ctx context.Context) {
	r := newRoster(s.o.ID, s.o.Instances, s.o.TTL)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			s.register(context.WithoutCancel(ctx), r, 0)
			return
		}
		known := len(r.seen)
		s.register(ctx, r, s.o.TTL)
		wait := s.o.TTL / 3
		if len(r.seen) != known || len(r.seen) == 0 {
			wait /= 10
		}
		timer.Reset(max(wait, time.Millisecond))
	}
}

// register sends one heartbeat. If it fails, the instances last known count on.
func (s *Store) register(ctx context.Context, r *roster, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(beatTimeout, s.o.TTL/3))
	defer cancel()
	sent := time.Now()
	live, err := s.registrar.Register(ctx, s.o.ID, ttl)
	switch {
	case ttl == 0:
		return
	case err != nil:
		r.fail()
	default:
		now := time.Now()
		s.fleet.Store(r.note(live, now))
		s.visible.note(sent, now, s.o.TTL)
	}
	if s.o.OnBeat != nil {
		s.o.OnBeat(int(s.fleet.Load().live), err)
	}
}

// mend probes and settles when it is time for either.
func (s *Store) mend(ctx context.Context) {
	timer := time.NewTimer(s.o.Probe)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		wait := s.o.Probe
		for _, n := range s.allNodes() {
			s.probe(ctx, n)
			if n.pending.Load() > 0 {
				s.settleAll(ctx, n)
			}
			if n.state() != Closed {
				wait = min(wait, n.untilProbe())
			}
		}
		timer.Reset(wait)
	}
}

// probe asks a node whose breaker lets a probe through.
func (s *Store) probe(ctx context.Context, n *node) {
	if n.state() == Closed {
		return
	}
	p, ok := s.enter(n)
	if !ok {
		return
	}
	b := s.budgets.start(ctx, p.began, s.o.Budget)
	err := s.peek(b, n)
	s.budgets.stop(b)
	if err != nil {
		s.fail(n, p)
	} else {
		s.succeed(n, p)
	}
}

// Fleet returns how many instances live, this one too, and for how long all
// others can have heard of it without a break; 0 while its heartbeats may have
// run out. It does not block.
func (s *Store) Fleet() (live int, visible time.Duration) {
	return int(s.fleet.Load().live), s.visible.at(time.Now(), s.o.TTL)
}

// A visibility is since when this instance's heartbeats have been in the store.
type visibility struct {
	mu    sync.Mutex
	since time.Time // the first of an unbroken row had been read
	last  time.Time // the latest was sent, if there was one
}

// note notes a heartbeat by when it was sent and when its answer came.
func (v *visibility) note(sent, answered time.Time, ttl time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.IsZero() || answered.Sub(v.last) >= ttl {
		v.since = answered
	}
	v.last = sent
}

func (v *visibility) at(now time.Time, ttl time.Duration) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.IsZero() || now.Sub(v.last) >= ttl {
		return 0
	}
	return now.Sub(v.since)
}
