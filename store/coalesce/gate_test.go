package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A gate is a store in memory whose calls wait until they are let through. It
// writes down what reaches it.
type gate struct {
	*memory.Store
	pass, back chan struct{} // let a call through, or a settlement; nil: all pass

	mu       sync.Mutex
	err      error // that all calls end with
	short    bool  // the last charge is not answered
	calls    [][]sluice.Charge
	settled  []sluice.Settlement
	inFlight map[string]int // calls that have items of a key
	most     int            // of those at once, of any key
	wide     int            // calls at once
	now      int
}

func newGate() *gate {
	return &gate{Store: memory.New(memory.Options{}), pass: make(chan struct{}), inFlight: make(map[string]int)}
}

// firsts returns the keys that the items of a call begin with, each once. Tests
// that ask begin a call with a key in upper case.
func firsts(charges []sluice.Charge) map[string]bool {
	keys := make(map[string]bool)
	for i := range charges {
		if k := charges[i].Key; k != "" && k[0] <= 'Z' {
			keys[k] = true
		}
	}
	return keys
}

func (g *gate) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	keys := firsts(charges)
	g.mu.Lock()
	g.calls = append(g.calls, append([]sluice.Charge(nil), charges...))
	for k := range keys {
		g.inFlight[k]++
		g.most = max(g.most, g.inFlight[k])
	}
	g.now++
	g.wide = max(g.wide, g.now)
	g.mu.Unlock()
	if g.pass != nil {
		<-g.pass
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for k := range keys {
		g.inFlight[k]--
	}
	g.now--
	if g.err != nil {
		return dst, g.err
	}
	dst, err := g.Store.Take(ctx, dst, charges)
	if g.short {
		dst = dst[:len(dst)-1]
	}
	return dst, err
}

func (g *gate) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	g.mu.Lock()
	g.settled = append(g.settled, settlements...)
	g.mu.Unlock()
	if g.back != nil {
		<-g.back
	}
	return g.Store.Settle(ctx, settlements)
}

// let lets up to n calls through, one by one, and says how many there were.
func (g *gate) let(n int) int {
	for i := range n {
		select {
		case g.pass <- struct{}{}:
			synctest.Wait()
		default:
			return i
		}
	}
	return n
}

// A caller is one call of the store under test.
type caller struct {
	charges []sluice.Charge
	cancel  context.CancelFunc
	done    bool
	got     []sluice.Decision
	err     error
}

// call starts a call and returns when it waits or has ended.
func call(s sluice.Store, charges ...sluice.Charge) *caller {
	c := &caller{charges: charges}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer cancel()
		c.got, c.err = s.Take(ctx, nil, charges)
		c.done = true
	}()
	synctest.Wait()
	return c
}

// leave ends a caller's context.
func (c *caller) leave() {
	c.cancel()
	synctest.Wait()
}

func (c *caller) granted() int64 {
	if !c.done || c.err != nil {
		return -1
	}
	return c.got[0].Granted
}

// wantGranted checks what callers were granted; -1 stands for no answer.
func wantGranted(t *testing.T, callers []*caller, want ...int64) {
	t.Helper()
	var got []int64
	for _, c := range callers {
		got = append(got, c.granted())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("granted %v, want %v", got, want)
	}
}

var hour = sluice.Limit{Tokens: 10, Per: time.Hour, Algorithm: sluice.FixedWindow}

func one(key string, n int64) sluice.Charge { return sluice.Charge{Key: key, Limit: hour, N: n} }

// bubble runs a test of a store over a gate in fake time; no goroutine may be
// left of it.
func bubble(t *testing.T, o Options, test func(t *testing.T, s *Store, below *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		below := newGate()
		s := New(below, o)
		test(t, s, below)
		go s.Close()
		synctest.Wait()
		for below.let(1) > 0 {
		}
		if _, err := s.Take(t.Context(), nil, []sluice.Charge{one("A", 1)}); !errors.Is(err, ErrClosed) {
			t.Errorf("Take after Close: %v, want ErrClosed", err)
		}
		for _, l := range s.lanes {
			if l.inFlight != 0 || len(l.keys) != 0 || len(l.open) != 0 || l.ready.first != nil {
				t.Errorf("a lane is left with %d calls, %d keys, %d open items", l.inFlight, len(l.keys), len(l.open))
			}
		}
	})
}

// used returns the tokens of a key that were taken from the store below.
func (g *gate) used(key string) int64 {
	d, err := g.Store.Take(context.Background(), nil, []sluice.Charge{one(key, 0)})
	if err != nil {
		panic(err)
	}
	return d[0].Limit - d[0].Remaining
}
