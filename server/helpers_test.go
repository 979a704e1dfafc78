package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what should happen at once.
const patience = 10 * time.Second

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

// count returns how many lines hold a text.
func (b *book) count(text string) int {
	n := 0
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts a file in the place of another, as an editor does.
func replace(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// decode reads a configuration from a folder of its own.
func decode(t testing.TB, text string) (*Config, error) {
	t.Helper()
	d := decoder{dir: t.TempDir()}
	return d.parse("sluice.yaml", []byte(text))
}

// A running is a server that serves.
type running struct {
	*Server
	t    testing.TB
	file string
	log  *book
	url  string
	end  context.CancelFunc
	done chan struct{}
	err  error // once done
}

// start serves a configuration, in which UPSTREAM stands for the address of one
// that answers 200 and DIR for the folder of the file. More files are given by
// their names and contents.
func start(t testing.TB, text string, files ...string) *running {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "upstream")
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	fill := strings.NewReplacer("UPSTREAM", upstream.URL, "DIR", dir)
	file := filepath.Join(dir, "sluice.yaml")
	write(t, file, fill.Replace(text))
	for i := 0; i+1 < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return startFile(t, file)
}

func startFile(t testing.TB, file string) *running {
	t.Helper()
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return serveConfig(t, c)
}

func serveConfig(t testing.TB, c *Config) *running {
	t.Helper()
	r := &running{t: t, file: c.Path, log: &book{}, done: make(chan struct{})}
	var err error
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if r.Server, err = New(c, log); err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.Addr("gateway")
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	go func() {
		defer close(r.done)
		r.err = r.Serve(ctx)
	}()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// stop ends the server and returns what Serve did.
func (r *running) stop() error {
	r.end()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		r.t.Errorf("Serve did not return within %v", patience)
		return nil
	}
}

// edit changes the file by replacing a text in it.
func (r *running) edit(old, new string) {
	r.t.Helper()
	data, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		r.t.Fatalf("no %q in %s", old, data)
	}
	replace(r.t, r.file, strings.Replace(string(data), old, new, 1))
}

// get sends a request with headers, "Name: value", and returns the answer, its
// body read.
func (r *running) get(path string, headers ...string) *http.Response {
	r.t.Helper()
	res, _ := r.body(path, headers...)
	return res
}

func (r *running) body(path string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequest("GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		q.Header.Add(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(body)
}

// statuses sends a request several times.
func (r *running) statuses(n int, path string, headers ...string) []int {
	r.t.Helper()
	var all []int
	for range n {
		all = append(all, r.get(path, headers...).StatusCode)
	}
	return all
}

// eventually waits until a condition holds.
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

func (r *running) waitLog(text string, n int) {
	r.t.Helper()
	eventually(r.t, text+" in the log", func() bool { return r.log.count(text) >= n })
}

// pair makes a certificate of a name, for this machine, and its key.
func pair(t testing.TB, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}

// wideYAML is a limit that no test meets.
const wideYAML = `limits: [{name: a, key: [], limit: 1000/s}]
`
