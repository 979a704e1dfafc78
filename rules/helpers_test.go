package rules

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// patience is how long a test waits for what should happen at once.
const patience = 15 * time.Second

// shared is the server of all tests that do not harm it; each has a database of
// its own.
var shared struct {
	once   sync.Once
	server *servers.Postgres
	err    error
	n      atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Close()
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *servers.Postgres {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = servers.StartPostgres(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// ownServer is for a test that stops it.
func ownServer(t testing.TB) *servers.Postgres {
	t.Helper()
	p, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// tableSQL is the table as the product promises to take it.
const tableSQL = `CREATE TABLE rate_limit_rule (
  id BIGSERIAL PRIMARY KEY, tenant_id VARCHAR(64) NOT NULL, route_id VARCHAR(64) NOT NULL,
  capacity INT NOT NULL CHECK (capacity > 0), refill_per_second INT NOT NULL CHECK (refill_per_second > 0),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(), UNIQUE (tenant_id, route_id))`

// A db is a database and a connection of its owner.
type db struct {
	t    testing.TB
	url  string
	name string
	conn *pgx.Conn
}

func newDB(t testing.TB, p *servers.Postgres) *db {
	t.Helper()
	name := fmt.Sprintf("test%d", shared.n.Add(1))
	root := connectTo(t, p.URL("postgres"))
	if _, err := root.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	_ = root.Close(context.Background())
	return &db{t: t, url: p.URL(name), name: name, conn: connectTo(t, p.URL(name))}
}

// migrated has a table with all columns and the triggers.
func migrated(t testing.TB) *db {
	t.Helper()
	d := newDB(t, sharedServer(t))
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	return d
}

func connectTo(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (d *db) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.conn.Exec(context.Background(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// add puts a row in.
func (d *db) add(tenant, route string, capacity int) {
	d.t.Helper()
	d.exec("INSERT INTO rate_limit_rule (tenant_id, route_id, capacity, refill_per_second) VALUES ($1, $2, $3, 1)", tenant, route, capacity)
}

// as returns the URL of the database for another user.
func (d *db) as(user, password string) string {
	u, err := url.Parse(d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// limits are what the rows of the tests override.
const limitsYAML = `limits:
  - {name: tenant-route, key: [tenant, route], limit: 1/s}
  - {name: login, key: [ip], limit: 5/15m, algorithm: sliding_log}
`

func setOf(t testing.TB, text string) *policy.Set {
	t.Helper()
	doc, err := strictyaml.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	limits := policy.DecodeLimits(doc.Root().Mapping("limits").Get("limits"))
	if err := doc.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// An instance follows a table.
type instance struct {
	t     testing.TB
	table *Table
	log   *book
	stop  func()

	mu        sync.Mutex
	set       *policy.Set
	published int
}

func (i *instance) current() *policy.Set {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.set
}

func (i *instance) publish(s *policy.Set) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = s
	i.published++
}

func (i *instance) publications() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.published
}

// load makes an instance that has loaded and does not run yet.
func load(t testing.TB, url string, tune func(*TableOptions)) *instance {
	t.Helper()
	i := &instance{t: t, log: &book{}, set: setOf(t, limitsYAML)}
	o := TableOptions{
		URL: url, Poll: time.Hour, Current: i.current, Publish: i.publish,
		Log: slog.New(slog.NewTextHandler(i.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if tune != nil {
		tune(&o)
	}
	var err error
	if i.table, err = NewTable(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	i.table.Load(ctx)
	return i
}

// follow makes an instance that runs until the test ends.
func follow(t testing.TB, url string, tune func(*TableOptions)) *instance {
	t.Helper()
	i := load(t, url, tune)
	i.run()
	return i
}

func (i *instance) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.table.Run(ctx)
	}()
	i.stop = sync.OnceFunc(func() { cancel(); <-done })
	i.t.Cleanup(i.stop)
}

// capacity returns what applies to a request of a tenant on a route.
func (i *instance) capacity(tenant, route string) int64 {
	for r := range i.current().Rows() {
		if r.Tenant == tenant && r.Route == route {
			return r.Capacity
		}
	}
	return 0
}

func (i *instance) wants(tenant, route string, capacity int64) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("capacity %d for %s on %s", capacity, tenant, route), func() bool {
		return i.capacity(tenant, route) == capacity
	})
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond) // a real server must act
	}
}

// A book is a log that tests read.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *book) count(text string) int { return strings.Count(b.String(), text) }

// A proxy stands between an instance and its server.
type proxy struct {
	addr   string
	target string
	l      net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	deaf  bool // takes connections and hands nothing on
	bytes atomic.Int64
	all   sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, l: l, conns: map[net.Conn]bool{}}
	p.all.Go(p.accept)
	t.Cleanup(func() { l.Close(); p.cut(); p.all.Wait() })
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.all.Go(func() { p.copy(server, client) })
		p.all.Go(func() { p.copy(client, server) })
	}
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 1<<15)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.isDeaf() {
			p.bytes.Add(int64(n))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

func (p *proxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// through returns a URL that leads through the proxy.
func (p *proxy) through(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.Host = p.addr
	return u.String()
}
