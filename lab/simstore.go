package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A simStore is a model of Redis: its answers are the specification's, at its own
// time, one call after the other.
type simStore struct {
	epoch time.Time // at which the simulation began, by its clock

	mu     sync.Mutex
	states map[simKey]*sluice.State
	lives  map[string]time.Time // ends of the instances' lives
	calls  int64
	away   []span // outages
	wrong  wrong
}

type simKey struct {
	key  string
	kind sluice.Kind
}

// A span is a part of the run.
type span struct{ from, to time.Duration }

// wrong is what a planted fault does.
type wrong struct {
	callersClock bool // decides by the time of whoever asks
	freeClaims   bool // grants tokens in advance without debiting them
	twiceBack    bool // credits twice what comes back
	wholeShares  bool // instances lease as if each were alone
}

func newSimStore(w wrong, away ...span) *simStore {
	return &simStore{
		epoch:  time.Now(),
		states: make(map[simKey]*sluice.State),
		lives:  make(map[string]time.Time),
		away:   away,
		wrong:  w,
	}
}

// afterEpoch moves the year 2000 behind the epoch of ticks.
const afterEpoch = 27 * 365 * 24 * time.Hour

// now is the store's time; skew is how far the asker's clock is ahead of it.
func (s *simStore) now(skew time.Duration) int64 {
	at := time.Now().Add(afterEpoch)
	if s.wrong.callersClock {
		at = at.Add(skew)
	}
	return sluice.Ticks(at)
}

func (s *simStore) state(c *sluice.Charge) *sluice.State {
	k := simKey{c.Key, c.Limit.Kind()}
	st := s.states[k]
	if st == nil {
		st = new(sluice.State)
		s.states[k] = st
	}
	return st
}

func (s *simStore) take(dst []sluice.Decision, charges []sluice.Charge, skew time.Duration) ([]sluice.Decision, error) {
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	meters, states := make([]sluice.Meter, len(charges)), make([]*sluice.State, len(charges))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for i := range charges {
		m, err := charges[i].Limit.Meter()
		if err != nil {
			return dst, err
		}
		meters[i], states[i] = m, s.state(&charges[i])
		if s.wrong.freeClaims && isClaim(&charges[i]) {
			states[i] = new(sluice.State)
		}
	}
	return sluice.Decide(dst, charges, meters, states, s.now(skew)), nil
}

// isClaim tells a lease's claim from a caller's charge.
func isClaim(c *sluice.Charge) bool { return c.Unit == 1 && c.N > 1 && c.OnFailure == sluice.FailDeny }

func (s *simStore) settle(settlements []sluice.Settlement, skew time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for i := range settlements {
		m, err := settlements[i].Charge.Limit.Meter()
		if err != nil {
			return err
		}
		sluice.Correct(s.state(&settlements[i].Charge), &settlements[i], &m, s.now(skew))
		if s.wrong.twiceBack {
			sluice.Correct(s.state(&settlements[i].Charge), &settlements[i], &m, s.now(skew))
		}
	}
	return nil
}

func (s *simStore) register(id string, ttl time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.lives[id] = now.Add(ttl)
	var live []string
	for id, end := range s.lives {
		if end.After(now) {
			live = append(live, id)
		} else {
			delete(s.lives, id)
		}
	}
	slices.Sort(live)
	return live
}

// outage returns the outage of now, if there is one.
func (s *simStore) outage() (span, bool) {
	now := time.Since(s.epoch)
	for _, o := range s.away {
		if now >= o.from && now < o.to {
			return o, true
		}
	}
	return span{}, false
}

// A wire leads from one instance to the store. It loses nothing, but calls end
// with an error while the store is away: the first after the client's time out,
// then at once.
type wire struct {
	store *simStore
	skew  time.Duration

	mu   sync.Mutex
	rand *rand.Rand
	dead bool // whoever was here has crashed
}

var errAway = errors.New("the store is away")

// noticed is how long a silent connection counts as standing.
const noticed = 500 * time.Millisecond

// cross is one way over the network: 0.1 ms and a tail, as within a data centre.
func (w *wire) cross() error {
	w.mu.Lock()
	delay := 100*time.Microsecond + time.Duration(w.rand.ExpFloat64()*float64(50*time.Microsecond))
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return errAway
	}
	time.Sleep(delay)
	o, away := w.store.outage()
	if !away {
		return nil
	}
	time.Sleep(o.from + noticed - time.Since(w.store.epoch))
	return errAway
}

// cut ends all that goes over the wire.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

// Take implements [sluice.Store].
func (w *wire) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if err := w.cross(); err != nil {
		return dst, err
	}
	first := len(dst)
	dst, err := w.store.take(dst, charges, w.skew)
	if err != nil {
		return dst, err
	}
	if err := w.cross(); err != nil {
		return dst[:first], err
	}
	return dst, nil
}

// Settle implements [sluice.Settler].
func (w *wire) Settle(_ context.Context, settlements []sluice.Settlement) error {
	if err := w.cross(); err != nil {
		return err
	}
	if err := w.store.settle(settlements, w.skew); err != nil {
		return err
	}
	return w.cross()
}

// Register implements [sluice.Registrar].
func (w *wire) Register(_ context.Context, id string, ttl time.Duration) ([]string, error) {
	if err := w.cross(); err != nil {
		return nil, err
	}
	live := w.store.register(id, ttl)
	return live, w.cross()
}
