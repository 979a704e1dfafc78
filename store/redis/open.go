package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/rueidis"
)

// OpenOptions say how a store that [Open] makes uses its servers. The zero
// value is ready to use.
type OpenOptions struct {
	Options
	// Timeout is how long a server may be silent before its connection counts
	// as lost; 0 means 500 ms. It is noticed up to half a second later.
	Timeout time.Duration
	// FlushDelay is how long calls may be held back to be sent together while
	// others are under way; 0 means not at all. 20 microseconds cost a busy
	// program less CPU for about the same throughput.
	FlushDelay time.Duration
	// Budget is the time that a decision may take; a round trip over half of
	// it is warned of. 0 means 5 ms.
	Budget time.Duration
	// Connected, if set, is told of every server that the store has connected
	// to, at the start or again. The store waits for it.
	Connected func(Report)
	// Lost, if set, is told of every server that no longer answers, and why
	// there is none at the start. The store waits for it.
	Lost func(node string, err error)
}

const (
	defaultTimeout = 500 * time.Millisecond
	defaultBudget  = 5 * time.Millisecond
	// pingEvery is how long a connection may be silent before the client asks
	// whether the server is there.
	pingEvery = 250 * time.Millisecond
	// sentinelPingEvery is the same for sentinels. It differs, since a
	// connection's kind is told by it.
	sentinelPingEvery = time.Second
	// refreshEvery is how often the client looks for a changed topology, if
	// nothing tells it before.
	refreshEvery = time.Second
	// maxRedirects bounds how far a call follows a cluster's redirections.
	maxRedirects = 4
)

// Open returns a store on the servers of a URL, which connects by itself, now
// and whenever it must, and never lets a call wait for that: as long as a
// server is away its calls fail at once with an error that wraps [ErrAway].
//
//	redis://[user[:password]@]host[:port][/db]
//	redis+cluster://[user[:password]@]host[:port],host[:port],...
//	redis+sentinel://master@host[:port],host[:port],...[/db]
//
// rediss, rediss+cluster and rediss+sentinel are the same over TLS. These
// parameters may follow a question mark:
//
//	user=NAME                    instead of the one before the @
//	password_file=FILE           the password, read for every new connection
//	password_env=VARIABLE        the same from the environment
//	sentinel_user, sentinel_password_file, sentinel_password_env
//	ca=FILE                      authorities instead of the system's
//	cert=FILE, key=FILE          the client's certificate
//
// An error means that the URL or a file that it names is wrong. Whether the
// servers are there is told later, by the options' functions. ctx bounds
// nothing but this call. The store must be closed.
func Open(ctx context.Context, url string, o OpenOptions) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	l, err := newLink(t, o)
	if err != nil {
		return nil, err
	}
	s := New(l, o.Options)
	s.link, s.node = l, t.name()
	l.prefix = s.prefix
	l.start()
	return s, nil
}

// Close ends the connections of a store that [Open] made, and what looks after
// them; calls under way may fail. For one that [New] made it does nothing.
func (s *Store) Close() {
	if s.link != nil {
		s.link.Close()
	}
}

// option returns how the client is to be made.
func (l *link) option() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:       l.target.addrs,
		SelectDB:          l.target.db,
		TLSConfig:         l.tls,
		ForceSingleClient: l.target.mode == rueidis.ClientModeStandalone,
		DialCtxFn:         l.dial,
		AuthCredentialsFn: l.authenticate,
		ClientName:        "sluice",
		Dialer:            net.Dialer{Timeout: time.Second, KeepAlive: pingEvery},
		ConnWriteTimeout:  l.o.Timeout,
		MaxFlushDelay:     l.o.FlushDelay,
		// One connection to a server: calls meet in it, and it is known
		// whether it stands.
		PipelineMultiplex: -1,
		// A caller's deadline must end the caller's wait and not the
		// connection.
		AlwaysPipelining: true,
		DisableCache:     true,
		DisableRetry:     true,
	}
	o.ClusterOption.ShardsRefreshInterval = refreshEvery
	o.ClusterOption.MaxMovedRedirections = maxRedirects
	if l.target.mode == rueidis.ClientModeSentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet:               l.target.master,
			Dialer:                  net.Dialer{Timeout: time.Second, KeepAlive: sentinelPingEvery},
			TLSConfig:               l.tls,
			ClientName:              "sluice",
			TopologyRefreshInterval: refreshEvery,
		}
	}
	return o
}

// tlsConfig reads the files that a target names. The client's certificate is
// read anew for every connection.
func tlsConfig(t *target) (*tls.Config, error) {
	if !t.tls {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("redis: ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("redis: ca: %s holds no certificate", t.ca)
		}
	}
	if t.cert == "" {
		return c, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, fmt.Errorf("redis: cert and key: %w", err)
	}
	c.GetClientCertificate = load
	return c, nil
}

// A wire is a connection that ends with the link.
type wire struct {
	net.Conn
	sentinel bool
	stop     func() bool
}

// dial opens a connection, for the client. A call never waits for one: it fails,
// and the keeper opens it.
func (l *link) dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if ctx.Value(callKey{}) != nil && l.refuse(addr) {
		return nil, fmt.Errorf("%w to %s: %w", ErrAway, addr, errReconnect)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	stop := context.AfterFunc(l.ctx, cancel)
	defer stop()
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = d.DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, sentinel: d.KeepAlive == sentinelPingEvery}
	w.stop = context.AfterFunc(l.ctx, func() { conn.Close() })
	return w, nil
}

// Close implements [net.Conn].
func (w *wire) Close() error {
	w.stop()
	return w.Conn.Close()
}

// RemoteAddr implements [net.Conn], and tells authenticate what is there.
func (w *wire) RemoteAddr() net.Addr { return peer{w.Conn.RemoteAddr(), w.sentinel} }

type peer struct {
	net.Addr
	sentinel bool
}

// authenticate reads the credentials for a new connection.
func (l *link) authenticate(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	of := &l.target.login
	if p, ok := c.Address.(peer); ok && p.sentinel {
		of = &l.target.guide
	}
	user, password, err := of.read()
	return rueidis.AuthCredentials{Username: user, Password: password}, err
}

// ErrAway reports that a server is not connected; the call was not sent.
var ErrAway = errors.New("redis: not connected")

var (
	errConnecting = errors.New("still connecting")
	errReconnect  = errors.New("the connection was lost")
	errReplica    = errors.New("the server is a replica")
	errClosed     = errors.New("the store is closed")
)
