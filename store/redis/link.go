package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A link is the client of a store that [Open] made. It stands before there is a
// connection, answers at once while a server is away, and leaves connecting to
// its keeper. Do and B are all that a store uses of it; the rest is that of a
// client that is never connected.
type link struct {
	rueidis.Client
	target *target
	o      OpenOptions
	prefix string
	tls    *tls.Config

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	wait   sync.WaitGroup
	wake   chan struct{} // the keeper is to look now
	stale  atomic.Bool   // the client is to be made anew

	session atomic.Pointer[session]
	lost    atomic.Pointer[error] // why there is no session
	calls   context.Context       // for calls that have no end of their own
	looked  atomic.Pointer[chan struct{}]

	callersTime atomic.Bool // a server refuses TIME in scripts
}

// A session is a client that has connected, and what is known of its servers.
type session struct {
	client   rueidis.Client
	topology atomic.Pointer[topology]
}

// A node is a server, or with Sentinel whichever is the master.
type node struct {
	name string
	err  atomic.Pointer[error] // why it is away; nil: it is not
}

// fail notes that a node is away, and says whether that is new.
func (n *node) fail(err error) bool { return n.err.CompareAndSwap(nil, &err) }

// away returns the error for a call to a node that is away; nil if it is not.
func (n *node) away() error {
	if err := n.err.Load(); err != nil {
		return fmt.Errorf("%w to %s: %w", ErrAway, n.name, *err)
	}
	return nil
}

// callKey marks the contexts of calls, so that none of them ever dials.
type callKey struct{}

func newLink(t *target, o OpenOptions) (*link, error) {
	l := &link{target: t, o: o, wake: make(chan struct{}, 1)}
	var err error
	if l.tls, err = tlsConfig(t); err != nil {
		return nil, err
	}
	l.lost.Store(&errConnecting)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.calls = context.WithValue(context.Background(), callKey{}, true)
	l.Client, err = unconnected()
	return l, err
}

// unconnected returns a client that never connects, for its builder of commands.
func unconnected() (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"none:0"},
		ForceSingleClient: true,
		DisableCache:      true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errConnecting
		},
	})
	if client == nil {
		return nil, err
	}
	return client, nil
}

// B returns a builder of commands.
func (l *link) B() rueidis.Builder {
	if s := l.session.Load(); s != nil {
		return s.client.B()
	}
	return l.Client.B()
}

// Mode returns what the servers are together.
func (l *link) Mode() rueidis.ClientMode { return l.target.mode }

// slotless is set in the slot of a command that was built for one server.
const slotless = 1 << 15

// Do sends a command, if its server is there.
func (l *link) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	s := l.session.Load()
	if s == nil {
		return rueidis.NewErrorResult(l.away())
	}
	slot := cmd.Slot()
	if slot&slotless != 0 && l.target.mode == rueidis.ClientModeCluster {
		// It was built before there was a connection.
		return rueidis.NewErrorResult(l.away())
	}
	n := s.node(slot)
	if n != nil {
		if err := n.away(); err != nil {
			return rueidis.NewErrorResult(err)
		}
	}
	marked := l.calls
	if ctx.Done() != nil {
		marked = context.WithValue(ctx, callKey{}, true)
	}
	result := s.client.Do(marked, cmd)
	if err := result.Error(); err != nil {
		l.notice(ctx, n, err)
	}
	return result
}

func (l *link) away() error { return fmt.Errorf("%w: %w", ErrAway, *l.lost.Load()) }

// notice learns from a call's error. A caller's end proves nothing.
func (l *link) notice(ctx context.Context, n *node, err error) {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		switch {
		case isReplica(answer):
			if l.stale.CompareAndSwap(false, true) {
				l.look()
			}
		case answer.IsLoading() && n != nil:
			l.fail(n, err)
		case answer.IsClusterDown():
			l.look()
		}
		return
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || n == nil:
	case errors.Is(err, errReconnect):
		// Noted for the address that was dialed, which may be another: the
		// client can be late to learn who answers for a slot.
		if n.err.Load() == nil && l.stale.CompareAndSwap(false, true) {
			l.look()
		}
	default:
		l.fail(n, err)
	}
}

// refreshTime bounds how long a call waits for the keeper to find who decides.
const refreshTime = 20 * time.Millisecond

// refreshed says whether a call may be made once more: it was certainly not
// executed, and the keeper has looked at the servers since.
func (l *link) refreshed(ctx context.Context, err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok || !isReplica(answer) && !answer.IsTryAgain() {
		return false
	}
	looked := *l.looked.Load()
	l.look()
	timer := time.NewTimer(refreshTime)
	defer timer.Stop()
	select {
	case <-looked:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// isReplica says whether a server answered that it is none that decides.
// Servers before version 7 wrap what a script met.
func isReplica(answer *rueidis.RedisError) bool {
	return strings.Contains(answer.Error(), "READONLY")
}

// refuse says whether a call may not open a connection to an address, and takes
// the server for away.
func (l *link) refuse(addr string) bool {
	s := l.session.Load()
	if s == nil {
		return true
	}
	n := s.at(addr)
	if n == nil {
		return false // a node of the cluster that nobody has met yet
	}
	l.fail(n, errReconnect)
	return true
}

// fail notes that a node is away and lets the keeper bring it back.
func (l *link) fail(n *node, err error) {
	if n.fail(err) {
		l.look()
	}
}

// look lets the keeper look at once.
func (l *link) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close ends everything.
func (l *link) Close() {
	l.cancel()
	l.wait.Wait()
	l.lost.Store(&errClosed)
	if s := l.session.Swap(nil); s != nil {
		s.client.Close()
	}
	l.Client.Close()
}
