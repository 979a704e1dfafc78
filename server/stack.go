package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/lease"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/redis"
	"github.com/sluice-limiter/sluice/store/shard"
	"github.com/sluice-limiter/sluice/store/split"
)

// A Stack is a store and the layers over it, as a server has them:
//
//	shard      keys spread over several counters
//	denied     refusals that are still true
//	lease      tokens claimed in advance, for limits with a tolerance
//	split      on a cluster: one call for each slot
//	guard      budget, breakers, local counters
//	coalesce   shared round trips
//	metrics    each call of the store
//	redis      the truth
//
// In memory it is the store alone: shards and leases help nothing there. Each
// decision as a whole is measured by the edge. Its life is NewStack, Run, Close.
type Stack struct {
	// Top is what is to be asked.
	Top sluice.Store

	memory   *memory.Store
	redis    *redis.Store // nil: in memory
	coalesce *coalesce.Store
	guard    *guard.Store
	split    *split.Store // nil: all keys are in one place
	lease    *lease.Store
	denied   *denied.Store
	lost     lost
}

// NewStack makes the stack of a configuration. A store that is away is no
// error: it is connected to as soon as it is there. log is told what becomes of
// it; m measures.
func NewStack(ctx context.Context, c *Config, m *metrics.Metrics, log *slog.Logger) (*Stack, error) {
	s := &Stack{memory: memory.New(memory.Options{MaxKeys: c.MaxKeys})}
	if c.Store == "memory" {
		s.Top = s.memory
		m.Watch(metrics.Layers{Memory: s.memoryStats})
		return s, nil
	}
	var err error
	s.redis, err = redis.Open(ctx, c.Store, redis.OpenOptions{
		Options: redis.Options{Prefix: c.Prefix},
		Budget:  c.Budget,
		Connected: func(r redis.Report) {
			s.lost.set(r.Node, false)
			connected(log, r)
		},
		Lost: func(node string, err error) {
			s.lost.set(node, true)
			log.Warn("store does not answer: limits go by their failure modes", slog.String("node", node), slog.Any("error", err))
		},
	})
	if err != nil {
		return nil, err
	}
	measured := m.Store(s.redis)
	s.coalesce = coalesce.New(measured, coalesce.Options{})
	s.guard = guard.New(s.coalesce, s.memory, guard.Options{
		Budget:    c.Budget,
		Instances: c.Instances,
		Registrar: measured,
		OnState: func(node string, from, to guard.State) {
			log.Warn("breaker of the store changed", slog.String("node", node), slog.String("from", from.String()), slog.String("to", to.String()))
		},
		OnBeat: newBeats(log, c.Instances).note,
	})
	top := sluice.Store(s.guard)
	if strings.Contains(c.Store, "+cluster:") {
		s.split = split.New(top)
		top = s.split
	}
	s.lease = lease.New(top, lease.Options{Fleet: s.guard.Fleet})
	s.denied = denied.New(s.lease, denied.Options{})
	s.Top = shard.New(s.denied)
	m.Watch(s.layers())
	return s, nil
}

// Run keeps what the stack does beside answering: heartbeats, probes, the
// settling of what was admitted in memory, and leases. It returns when ctx ends
// and what was leased has been given back.
func (s *Stack) Run(ctx context.Context) {
	if s.guard == nil {
		<-ctx.Done()
		return
	}
	// This instance says that it is gone once it holds nothing any more.
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var guarded sync.WaitGroup
	guarded.Go(func() { s.guard.Run(beating) })
	s.lease.Run(ctx)
	stop()
	guarded.Wait()
}

// Close ends the stack from the top down, so that nothing is asked of a layer
// that is closed. Nobody may ask the stack any more, and Run must have
// returned.
func (s *Stack) Close() {
	if s.redis == nil {
		return
	}
	if s.split != nil {
		s.split.Close()
	}
	s.redis.Close() // calls under way fail, so that nobody waits for them
	s.coalesce.Close()
}

// Degraded returns the names of the nodes that do not answer or are not asked,
// sorted; "store" for one without a name.
func (s *Stack) Degraded() []string {
	if s.guard == nil {
		return nil
	}
	names := s.lost.names()
	for _, n := range s.guard.Stats().Nodes {
		if n.State != guard.Closed {
			names = append(names, cmp.Or(n.Name, "store"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lost holds the nodes that are not connected.
type lost struct {
	mu    sync.Mutex
	nodes map[string]bool
}

func (l *lost) set(node string, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = make(map[string]bool)
	}
	if lost {
		l.nodes[node] = true
	} else {
		delete(l.nodes, node)
	}
}

func (l *lost) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.nodes))
}

// connected says what a server that was connected to is able to do.
func connected(log *slog.Logger, r redis.Report) {
	log.Info("store connected", slog.String("node", r.Node), slog.String("server", r.Server),
		slog.String("version", r.Version), slog.Duration("round_trip", r.RoundTrip))
	for _, warning := range r.Warnings {
		log.Warn("store", slog.String("node", r.Node), slog.String("warning", warning))
	}
}

// beats tells of changes in the number of instances, rather than of every
// heartbeat.
type beats struct {
	log *slog.Logger

	mu     sync.Mutex
	live   int
	failed bool
}

func newBeats(log *slog.Logger, configured int) *beats { return &beats{log: log, live: configured} }

func (b *beats) note(live int, err error) {
	b.mu.Lock()
	was, failed := b.live, b.failed
	if err == nil {
		b.live = live
	}
	b.failed = err != nil
	b.mu.Unlock()
	switch {
	case err != nil && !failed && !errors.Is(err, context.Canceled):
		b.log.Warn("instances could not be counted: the last number known stays", slog.Int("instances", was), slog.Any("error", err))
	case err == nil && live != was:
		b.log.Info("instances alive", slog.Int("instances", live), slog.Int("before", was))
	}
}
