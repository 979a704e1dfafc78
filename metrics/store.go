package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-limiter/sluice"
)

// An operation is a method of a store that can fail.
type operation uint8

const (
	take operation = iota
	settle
	forget
	register
	operations
)

var operationNames = [operations]string{"take", "settle", "forget", "register"}

// instruments measure the calls at one height of the stack.
type instruments struct {
	classifier
	latency prometheus.Histogram
	errors  [operations][kinds]prometheus.Counter
}

// A Store measures the calls of another and changes nothing about them. It has
// all abilities of a store and forwards them; one that the store below lacks
// returns an error that wraps [sluice.ErrUnsupported]. It may be used from many
// goroutines. Make one with [Metrics.Decisions] or [Metrics.Store].
type Store struct {
	next      sluice.Store
	settler   sluice.Settler
	forgetter sluice.Forgetter
	locator   sluice.Locator
	registrar sluice.Registrar

	start time.Time
	to    *instruments
}

// Decisions returns a store that measures the whole stack, as
// sluice_decision_*: it stands on top. It is for programs without an edge that
// is given [Metrics.Latency]: with both, each decision counts twice.
func (m *Metrics) Decisions(next sluice.Store) *Store {
	return m.measure(next, "decision",
		"Calls of the whole store that ended with an error instead of an answer, by operation and kind.")
}

// Store returns a store that measures the truth below the layers, as
// sluice_store_*: it stands just above store/redis, or store/memory.
func (m *Metrics) Store(next sluice.Store) *Store {
	return m.measure(next, "store",
		"Calls to the store (Redis) that ended with an error, by operation and kind.")
}

func (m *Metrics) measure(next sluice.Store, part, errs string) *Store {
	s := &Store{next: next, start: m.start, to: m.instruments(part, errs)}
	s.settler, _ = next.(sluice.Settler)
	s.forgetter, _ = next.(sluice.Forgetter)
	s.locator, _ = next.(sluice.Locator)
	s.registrar, _ = next.(sluice.Registrar)
	return s
}

// instruments returns those of a part, which several stores may share.
func (m *Metrics) instruments(part, errs string) *instruments {
	m.mu.Lock()
	defer m.mu.Unlock()
	if made := m.calls[part]; made != nil {
		return made
	}
	made := &instruments{classifier: classifier{m.o.Away}, latency: m.histogram(part)}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_" + part + "_errors_total",
		Help: errs + " " + kindsHelp,
	}, []string{"operation", "kind"})
	for o := range made.errors {
		for k := range made.errors[o] {
			// All are there from the start, so that the first error is seen
			// as a step from zero.
			made.errors[o][k] = vec.WithLabelValues(operationNames[o], kindNames[k])
		}
	}
	m.registry.MustRegister(vec)
	m.calls[part] = made
	return made
}

// Take implements [sluice.Store]. It reads the clock twice and allocates
// nothing.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	// The time since a fixed start is one reading of the monotonic clock,
	// where time.Now would read the wall clock too.
	before := time.Since(s.start)
	dst, err := s.next.Take(ctx, dst, charges)
	s.to.latency.Observe((time.Since(s.start) - before).Seconds())
	return dst, s.count(take, err)
}

// count counts an error, if it is one, and returns it.
func (s *Store) count(o operation, err error) error {
	if err != nil && !errors.Is(err, sluice.ErrUnsupported) {
		s.to.errors[o][s.to.kindOf(err)].Inc()
	}
	return err
}

// Settle implements [sluice.Settler] by the store below.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if s.settler == nil {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	return s.count(settle, s.settler.Settle(ctx, settlements))
}

// Forget implements [sluice.Forgetter] by the store below.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	if s.forgetter == nil {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	return s.count(forget, s.forgetter.Forget(ctx, charges))
}

// Locate implements [sluice.Locator] by the store below; one that is no Locator
// keeps all keys in one place, the zero one.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if s.locator == nil {
		return sluice.Place{}
	}
	return s.locator.Locate(c)
}

// Register implements [sluice.Registrar] by the store below.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	if s.registrar == nil {
		return nil, fmt.Errorf("register: %w", sluice.ErrUnsupported)
	}
	live, err := s.registrar.Register(ctx, id, ttl)
	return live, s.count(register, err)
}
