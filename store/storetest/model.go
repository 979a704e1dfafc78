package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-limiter/sluice"
)

// A model is the contract in its plainest form: a map of states under a lock,
// decided by the specification.
type model struct {
	now func() int64

	mu     sync.Mutex
	states map[counter]*sluice.State
}

// A counter is what states are kept by.
type counter struct {
	key  string
	kind sluice.Kind
}

func newModel(now func() int64) *model {
	return &model{now: now, states: make(map[counter]*sluice.State)}
}

// state returns the state of a charge. One that stays unused means the same as
// one that is not there.
func (m *model) state(c *sluice.Charge) *sluice.State {
	id := counter{c.Key, c.Limit.Kind()}
	if m.states[id] == nil {
		m.states[id] = new(sluice.State)
	}
	return m.states[id]
}

// Take implements [sluice.Store].
func (m *model) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	meters := make([]sluice.Meter, len(charges))
	states := make([]*sluice.State, len(charges))
	for i := range charges {
		meters[i], _ = charges[i].Limit.Meter() // checked before
		states[i] = m.state(&charges[i])
	}
	return sluice.Decide(dst, charges, meters, states, m.now()), nil
}

// Settle implements [sluice.Settler].
func (m *model) Settle(_ context.Context, settlements []sluice.Settlement) error {
	meters := make([]sluice.Meter, len(settlements))
	for i := range settlements {
		meter, err := settlements[i].Charge.Limit.Meter()
		if err != nil {
			return fmt.Errorf("settlement %d: %w", i, err)
		}
		meters[i] = meter
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range settlements {
		sluice.Correct(m.state(&settlements[i].Charge), &settlements[i], &meters[i], m.now())
	}
	return nil
}

// Forget implements [sluice.Forgetter].
func (m *model) Forget(_ context.Context, charges []sluice.Charge) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range charges {
		delete(m.states, counter{charges[i].Key, charges[i].Limit.Kind()})
	}
	return nil
}
