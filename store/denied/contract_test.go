package denied

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// A monotonic clock follows another one's steps forward, and stands still when
// that is set back, as this process's clock does when a server's is.
type monotonic struct {
	now func() time.Time

	mu     sync.Mutex
	last   time.Time
	passed time.Duration
}

func newMonotonic(now func() time.Time) *monotonic {
	return &monotonic{now: now, last: now()}
}

func (m *monotonic) since() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.passed += max(0, now.Sub(m.last))
	m.last = now
	return m.passed
}

// Histories are compared in TestSameAnswersAsWithout, which knows what a
// remembered answer leaves open.
var except = map[string]string{
	"a random history gives the specification's answers":             "a remembered answer says so in Source, and Remaining as it was",
	"a random history of a moment gives the specification's answers": "beside a known refusal nothing is said of keys that were not asked",
}

func TestContract(t *testing.T) {
	clock := new(storetest.Clock)
	storetest.Run(t, storetest.Harness{
		Clock: clock,
		New: func() (sluice.Store, error) {
			next := memory.New(memory.Options{Now: clock.Now})
			return newStore(next, Options{}, newMonotonic(clock.Now).since), nil
		},
		Except: except,
	})
}

func TestContractInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) {
			return New(memory.New(memory.Options{}), Options{}), nil
		},
		Except: except,
	})
}

// A counter counts the calls and the charges that reach a store.
type counter struct {
	*memory.Store
	mu             sync.Mutex
	calls, charges int
}

func (c *counter) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	c.mu.Lock()
	c.calls++
	c.charges += len(charges)
	c.mu.Unlock()
	return c.Store.Take(ctx, dst, charges)
}
