// Package redis is a [sluice.Store] on Redis or Valkey: one server, Sentinel or
// Cluster. Every call is one atomic script beside the data, on the server's
// clock.
package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
)

// Options say how a Store uses a server. The zero value is ready to use.
type Options struct {
	// Prefix begins every key, so that a server can be shared; "": "rl".
	Prefix string
	// CallersTime decides by this machine's clock, for a server that refuses
	// TIME in scripts. The bound of each limit then grows by its rate times the
	// skew between the clocks of all instances. A store of [Open] finds out by
	// itself whether it must.
	CallersTime bool
}

// A Store keeps its counters on a server. Calls of several keys must be of one
// slot on a cluster (see store/split). It adds no deadline of its own and never
// repeats a call whose outcome is not known. It may be used from many
// goroutines.
type Store struct {
	client rueidis.Client
	script atomic.Pointer[rueidis.Lua]
	prefix string
	calls  sync.Pool // *request

	clock       clock
	callersTime bool

	link    *link  // of a store that Open made
	cluster bool   // keys have slots
	node    string // where they are, as far as is known
}

// New returns a store over a client, which stays the caller's to close.
func New(client rueidis.Client, o Options) *Store {
	if o.Prefix == "" {
		o.Prefix = "rl"
	}
	s := &Store{
		client:  client,
		prefix:  o.Prefix,
		calls:   sync.Pool{New: func() any { return new(request) }},
		cluster: client.Mode() == rueidis.ClientModeCluster,

		callersTime: o.CallersTime,
	}
	s.script.Store(flaggedScript)
	return s
}

// Take implements [sluice.Store] in one round trip; a second one follows only
// if the server did not know the script, or was asked for a calendar window
// while its clock and this machine's are more than a window apart.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) == 0 {
		return dst, nil
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	if err := s.oneSlot(len(charges), func(i int) *sluice.Charge { return &charges[i] }); err != nil {
		return dst, err
	}
	q := s.request()
	defer s.calls.Put(q)
	if err := q.encode(s.prefix, charges); err != nil {
		return dst, err
	}
	r, err := s.run(ctx, q)
	if err != nil {
		return dst, err
	}
	return r.decode(dst, charges, q)
}

// request returns one to be filled in.
func (s *Store) request() *request {
	q := s.calls.Get().(*request)
	q.clock = s.ownTime()
	return q
}

// again is what the script answers, before it changes anything, to a calendar
// whose windows do not reach the server's time.
const again = "again"

// run sends a call and reads its answer.
func (s *Store) run(ctx context.Context, q *request) (reply, error) {
	r, err := s.exec(ctx, q)
	if err == nil && r.text == again {
		q.arguments(r.now)
		r, err = s.exec(ctx, q)
	}
	return r, err
}

func (s *Store) exec(ctx context.Context, q *request) (reply, error) {
	text, err := s.script.Load().Exec(ctx, s.client, q.keys, q.args).ToString()
	if err != nil && (s.takesNoFlags(err) || s.link != nil && s.link.refreshed(ctx, err)) {
		text, err = s.script.Load().Exec(ctx, s.client, q.keys, q.args).ToString()
	}
	switch {
	case err == nil:
		return newReply(text), nil
	case errors.Is(err, ErrAway):
		return reply{}, err
	}
	return reply{}, fmt.Errorf("redis: %w", err)
}
