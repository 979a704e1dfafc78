package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/sluice-limiter/sluice"
)

// A State says how the breaker of a node stands.
type State uint8

// The states of a breaker; the zero value is closed.
const (
	Closed   State = iota // calls go to the node
	Open                  // no call does
	HalfOpen              // one does, to see whether it answers
)

var stateNames = [...]string{"closed", "open", "half_open"}

// String returns the state as metrics name it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// inARow is how many failures open a breaker by default. They must follow each other: calls
// that were under way together and fail together count once, so that one pause
// of this process or of the server, at any load, opens nothing. While a server
// hangs each caller so waits at most that many budgets and the rest of one.
const inARow = 3

// A node is what fails as one. While it answers, a call reads two integers of
// it and takes no lock; the breaker is asked only in trouble.
type node struct {
	name   string
	sample sluice.Charge // a key of the node, to probe with

	// trouble is when calls began to fail, in Unix nanoseconds; 0 while the
	// breaker is closed, the last call was answered and nobody is waited for.
	trouble atomic.Int64
	// until is when the others of the fleet have settled, too, after the breaker
	// closed, in Unix nanoseconds; 0: nobody is waited for.
	until   atomic.Int64
	pending atomic.Int64 // debts not settled yet
	failed  atomic.Int64
	opened  atomic.Int64

	mu      sync.Mutex
	breaker circuitbreaker.CircuitBreaker[any]
	last    time.Time // of the last failure that counted
}

// A permit lets one call go to a node, and must be handed in by succeed or fail.
type permit struct {
	began time.Time
	probe bool
}

func newNode(name string, o *Options, sample *sluice.Charge) *node {
	return &node{
		name:   name,
		sample: sluice.Charge{Key: clone(sample.Key), Tag: clone(sample.Tag), Limit: sample.Limit},
		breaker: circuitbreaker.NewBuilder[any]().
			WithFailureThreshold(uint(o.Failures)).
			WithSuccessThreshold(1). // and so one probe at a time
			WithDelay(o.Probe).      // no jitter: instances that see an outage begin together see it end together
			Build(),
	}
}

// enter asks for a permit.
func (s *Store) enter(n *node) (permit, bool) {
	p := permit{began: time.Now()}
	if n.trouble.Load() == 0 {
		return p, true
	}
	ok := true
	s.shift(n, func() {
		ok = n.breaker.TryAcquirePermit()
		p.probe = n.breaker.IsHalfOpen()
	})
	return p, ok
}

// succeed hands a permit in after an answer.
func (s *Store) succeed(n *node, p permit) {
	if n.trouble.Load() == 0 {
		return
	}
	s.shift(n, func() {
		// The answer to a call from before the breaker opened says nothing.
		if p.probe || n.breaker.IsClosed() {
			n.breaker.RecordSuccess()
		}
		if p.probe && n.breaker.IsClosed() {
			n.until.Store(s.waitFrom(Closed))
		}
		if n.breaker.IsClosed() && !n.waitsForFleet(time.Now()) {
			n.until.Store(0)
			n.trouble.Store(0)
		}
	})
}

// waitsForFleet says whether others are still to settle at a time.
func (n *node) waitsForFleet(now time.Time) bool { return now.UnixNano() < n.until.Load() }

// fail hands a permit in after none.
func (s *Store) fail(n *node, p permit) {
	n.failed.Add(1)
	now := time.Now()
	s.shift(n, func() {
		n.trouble.CompareAndSwap(0, now.UnixNano())
		switch {
		case p.probe:
			n.breaker.RecordFailure()
		case n.breaker.IsClosed() && !p.began.Before(n.last):
			n.last = now
			n.breaker.RecordFailure()
		}
	})
}

// shift makes a step of the node's breaker and tells of a change of state.
func (s *Store) shift(n *node, step func()) {
	n.mu.Lock()
	from := n.stateLocked()
	step()
	to := n.stateLocked()
	if to != Closed {
		n.until.Store(0)
	}
	n.mu.Unlock()
	if from == to {
		return
	}
	if from == Closed {
		n.opened.Add(1)
	}
	if s.o.OnState != nil {
		s.o.OnState(n.name, from, to)
	}
	if to == Closed && n.pending.Load() > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// waitFrom returns until when the others of the fleet are waited for after a
// change of state, in Unix nanoseconds. Until they have settled the store does
// not know what they have admitted, and might give it away again (see both).
func (s *Store) waitFrom(to State) int64 {
	if to != Closed || s.settler == nil || !s.running.Load() || s.fleet.Load().live < 2 {
		return 0
	}
	return time.Now().Add(s.fleetWait()).UnixNano()
}

// fleetWait is how far apart the instances may see a recovery: each probes once
// in the delay, its connections take up to about as long to come back, and a busy
// machine adds half as much. With the usual delay all is as before within a second.
func (s *Store) fleetWait() time.Duration { return 5*s.o.Probe/2 + 4*s.o.Budget }

// stateLocked returns the breaker's state. mu must be held.
func (n *node) stateLocked() State {
	switch n.breaker.State() {
	case circuitbreaker.OpenState:
		return Open
	case circuitbreaker.HalfOpenState:
		return HalfOpen
	}
	return Closed
}

func (n *node) state() State {
	if n.trouble.Load() == 0 {
		return Closed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stateLocked()
}

// untilProbe returns how long no call goes to the node; at least a millisecond.
func (n *node) untilProbe() time.Duration {
	return max(time.Millisecond, n.breaker.RemainingDelay())
}

// node returns the node that decides a call, which its first charge names.
func (s *Store) node(c *sluice.Charge) *node {
	name := ""
	if s.locator != nil {
		name = s.locator.Locate(c).Node
	}
	if n := (*s.nodes.Load())[name]; n != nil {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.nodes.Load()
	if n := old[name]; n != nil {
		return n
	}
	nodes := make(map[string]*node, len(old)+1)
	maps.Copy(nodes, old)
	n := newNode(clone(name), &s.o, c)
	nodes[n.name] = n
	s.nodes.Store(&nodes)
	return n
}

// allNodes returns the nodes met so far by name.
func (s *Store) allNodes() []*node {
	return slices.SortedFunc(maps.Values(*s.nodes.Load()), func(a, b *node) int { return strings.Compare(a.name, b.name) })
}
