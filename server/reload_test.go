package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const byPathYAML = `
limits:
  - {name: by-path, key: [path], limit: 3/h}
` + gatewayYAML

// H124: a changed file reaches the limits in force, by whatever way it changes.
func TestReloadOnEveryWayAFileChanges(t *testing.T) {
	dir := t.TempDir()
	content := func(limit int) string {
		return strings.NewReplacer("UPSTREAM", "http://127.0.0.1:1", "3/h", fmt.Sprint(limit, "/h")).Replace(byPathYAML)
	}
	limit := func(s *running) string { return s.get("/").Header.Get("X-RateLimit-Limit") }
	file := filepath.Join(dir, "sluice.yaml")
	write(t, file, content(3))
	s := startFile(t, file)
	want := func(how, limitWant string) {
		t.Helper()
		eventually(t, how+": limit "+limitWant, func() bool { return limit(s) == limitWant })
	}
	want("at start", "3")
	write(t, file, content(4))
	want("written in place", "4")
	replace(t, file, content(5))
	want("replaced by mv", "5")

	// As Kubernetes does: the file is a link through ..data, which is swapped.
	for name, n := range map[string]int{"one": 6, "two": 7} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "sluice.yaml"), content(n))
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("one", "..data")
	link("..data/sluice.yaml", "sluice.yaml")
	want("became a link", "6")
	link("two", "..data")
	want("link swapped", "7")
}

func TestReloadAsked(t *testing.T) {
	s := start(t, byPathYAML)
	s.Reload()
	s.waitLog("configuration reloaded", 1)
	// It is a question, so it is answered although nothing changed.
	s.Reload()
	s.waitLog("configuration reloaded", 2)
}

// H126: an invalid file keeps the old limits, with one line in the log.
func TestInvalidFileKeepsTheOldOne(t *testing.T) {
	s := start(t, byPathYAML)
	wantStatuses(t, "before", s.statuses(2, "/a"), 200, 200)
	s.edit("limit: 3/h", "limt: 3/h")
	s.waitLog("configuration not reloaded", 1)
	wantStatuses(t, "with an invalid file", s.statuses(2, "/a"), 200, 429)
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	s.waitLog("no such file", 1)
	wantStatuses(t, "without a file", s.statuses(1, "/a"), 429)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if got := s.log.count("configuration not reloaded"); got != 2 {
		t.Errorf("%d lines for two invalid states:\n%s", got, s.log)
	}
	if got := s.log.count("limt: unknown field"); got != 1 {
		t.Errorf("the mistake is told %d times, want once:\n%s", got, s.log)
	}
}

// Files that change together, as when a folder is swapped, are one change.
func TestSeveralFilesAreOneChange(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "keys.yaml"), strings.Repeat(fmt.Sprint(len(name)), 64)+": "+name+"\n")
		text := strings.ReplaceAll(byPathYAML, "UPSTREAM", "http://127.0.0.1:1") + "identity: {tenant: {header: X, unknown: ip, keys: keys.yaml}}\n"
		if name == "two" {
			text = strings.ReplaceAll(text, "limit: 3/h", "limit: x")
		}
		write(t, filepath.Join(dir, name, "sluice.yaml"), text+"# "+name+"\n")
	}
	current := filepath.Join(dir, "current")
	if err := os.Symlink("one", current); err != nil {
		t.Fatal(err)
	}
	s := startFile(t, filepath.Join(current, "sluice.yaml"))
	if err := os.Symlink("two", current+".new"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "two", "keys.yaml"), strings.Repeat("4", 64)+": two\n")
	if err := os.Rename(current+".new", current); err != nil {
		t.Fatal(err)
	}
	s.waitLog("configuration not reloaded", 1)
	// A second line would come within the time in which the other file's
	// watcher settles.
	quiet := time.Now().Add(300 * time.Millisecond)
	eventually(t, "quiet", func() bool { return time.Now().After(quiet) })
	if got := s.log.count("configuration not reloaded"); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, s.log)
	}
}

// A keys file that a reload names first is watched from then on: where it is
// there, and where it is not there yet.
func TestKeysFileNamedByAReload(t *testing.T) {
	s := start(t, `
limits: [{name: by-tenant, key: [tenant], limit: 100000/h}]
identity: {tenant: {header: X-Api-Key, unknown: "401"}}
`+gatewayYAML)
	keys := filepath.Join(filepath.Dir(s.file), "keys.yaml")
	line := func(key, name string) string {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:]) + ": " + name + "\n"
	}
	known := func(key string) bool {
		return s.get("/", "X-Api-Key: "+key).StatusCode == 200
	}
	if known("k1") {
		t.Error("a key that nobody named is known")
	}
	s.edit("header: X-Api-Key,", "header: X-Api-Key, keys: keys.yaml,")
	s.waitLog("keys.yaml: no such file", 1)
	write(t, keys, line("k1", "shop-a"))
	eventually(t, "the keys file is there", func() bool { return known("k1") })
	replace(t, keys, line("k1", "shop-a")+line("k2", "shop-b"))
	eventually(t, "a key more", func() bool { return known("k2") })
	// Another file in place of the first.
	write(t, filepath.Join(filepath.Dir(keys), "other.yaml"), line("k3", "shop-c"))
	s.edit("keys.yaml", "other.yaml")
	eventually(t, "the other file", func() bool { return known("k3") })
	write(t, filepath.Join(filepath.Dir(keys), "other.yaml"), line("k4", "shop-d"))
	eventually(t, "the other file changed", func() bool { return known("k4") })
}

// What changed between the reading of a file and the beginning of its watch is
// asked for.
func TestWatchAsksWhetherNewFilesChanged(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	f := &follower{changed: make(chan struct{}, 1), stops: make(map[string]context.CancelFunc)}
	defer f.running.Wait()
	defer stop()
	for _, name := range []string{"first.yaml", "second.yaml"} {
		f.sources = append(f.sources, source{path: filepath.Join(dir, name)})
		f.watch(ctx)
		if len(f.changed) != 1 {
			t.Errorf("%s: not asked", name)
		}
		for len(f.changed) > 0 {
			<-f.changed
		}
	}
	f.watch(ctx)
	if len(f.changed) != 0 {
		t.Error("asked although no file is new")
	}
}

// A file that changes between its reading and the start is not missed.
func TestChangeBeforeServe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	text := strings.ReplaceAll(byPathYAML, "UPSTREAM", "http://127.0.0.1:1")
	write(t, file, text)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.ReplaceAll(text, "3/h", "9/h"))
	s := serveConfig(t, c)
	eventually(t, "limit 9", func() bool { return s.get("/").Header.Get("X-RateLimit-Limit") == "9" })
}

// H123, H125: counters belong to limits, not to the configuration in force.
func TestReloadKeepsCounters(t *testing.T) {
	s := start(t, byPathYAML)
	wantStatuses(t, "before", s.statuses(2, "/a"), 200, 200)
	for n := range 5 {
		s.Reload()
		s.waitLog("configuration reloaded", n+1)
	}
	wantStatuses(t, "after", s.statuses(2, "/a"), 200, 429)
	// Another limit beside it takes nothing from it.
	s.edit("limits:", "limits:\n  - {name: other, key: [method], limit: 100/h}")
	s.waitLog("limits=2", 1)
	wantStatuses(t, "beside another", s.statuses(1, "/a"), 429)
	wantStatuses(t, "another path", s.statuses(4, "/b"), 200, 200, 200, 429)
}

// H127: under load every request meets one whole configuration, and none is lost
// or let through twice.
func TestReloadUnderLoad(t *testing.T) {
	s := start(t, `
limits:
  - {name: by-path, key: [path, tenant], limit: 50/h}
identity: {tenant: {header: X-Api-Key, unknown: ip}}
`+gatewayYAML)
	stop, reloading := make(chan struct{}), sync.WaitGroup{}
	reloading.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			s.Reload()
			before := s.log.count("configuration reloaded")
			eventually(t, "reload", func() bool { return s.log.count("configuration reloaded") > before || closed(stop) })
		}
	})
	var allowed, refused, other atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 50 {
				q, _ := http.NewRequest("GET", s.url+"/a", nil)
				q.Header.Set("X-Api-Key", "made-up")
				res, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				switch res.StatusCode {
				case 200:
					allowed.Add(1)
				case 429:
					refused.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	reloading.Wait()
	if allowed.Load() != 50 || refused.Load() != 150 || other.Load() != 0 {
		t.Errorf("%d allowed, %d refused, %d other, want 50, 150, 0", allowed.Load(), refused.Load(), other.Load())
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	s := start(t, byPathYAML)
	s.edit("limits:", "prefix: other\nmax_keys: 7\ninstances: 3\nbudget: 1s\nadmin: {listen: '127.0.0.1:1'}\nlimits:")
	s.edit("listen: 127.0.0.1:0", "listen: ':2'\n  max_header: 1KiB\n  idle_timeout: 1s\n  read_header_timeout: 1s\n  dial_timeout: 1s\n  upstream_timeout: 1s\n  max_body: 5")
	s.waitLog("upstream_timeout]", 1)
	want := `only_after_a_restart="[prefix max_keys budget instances admin gateway.listen gateway.max_header gateway.read_header_timeout gateway.idle_timeout gateway.dial_timeout gateway.upstream_timeout]"`
	if s.log.count(want) != 1 {
		t.Errorf("no %s in\n%s", want, s.log)
	}
	// They are told again as long as they differ from what runs.
	before := s.log.count(want)
	s.Reload()
	s.waitLog(want, before+1)

	// What does not need it is in force: the bound of bodies.
	res, err := http.Post(s.url, "text/plain", strings.NewReader("123456"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("status %d, want 413", res.StatusCode)
	}
}

func TestGatewayThatVanishesFromTheFile(t *testing.T) {
	s := start(t, byPathYAML)
	data, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, s.file, strings.Split(string(data), "gateway:")[0])
	s.waitLog("only_after_a_restart=[gateway]", 1)
	wantStatuses(t, "still", s.statuses(1, "/"), 200)
}

func TestFixed(t *testing.T) {
	with := func(change func(*Config)) *Config {
		c, err := decode(t, leastYAML+"gateway: {listen: ':1', routes: []}\n")
		if err != nil {
			t.Fatal(err)
		}
		change(c)
		return c
	}
	nothing := func(*Config) {}
	for want, change := range map[string]func(*Config){
		"":            nothing,
		"store":       func(c *Config) { c.Store = "x" },
		"gateway":     func(c *Config) { c.Gateway = nil },
		"gateway.tls": func(c *Config) { c.Gateway.TLS.pair = &tls.Certificate{} },
	} {
		for _, pair := range [][2]*Config{{with(change), with(nothing)}, {with(nothing), with(change)}} {
			if got := strings.Join(fix(pair[0], pair[1]), " "); got != want {
				t.Errorf("fix = %q, want %q", got, want)
			}
			if (pair[0].Gateway == nil) != (pair[1].Gateway == nil) {
				t.Errorf("%s: a gateway came or went", want)
			}
		}
	}
}

// E78: a reload leaves nothing behind, also where the files to watch change.
func TestReloadsLeakNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, "keys-"+name+".yaml"), strings.Repeat("1", 64)+": shop-"+name+"\n")
	}
	s := start(t, byPathYAML+"identity: {tenant: {header: X, unknown: ip, keys: "+dir+"/keys-a.yaml}}\n")
	read := func() (goroutines, files int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		s.transport.CloseIdleConnections()
		return runtime.NumGoroutine(), descriptors(t)
	}
	var goroutines, files int
	for n := range 100 {
		if n == 4 {
			s.get("/")
			goroutines, files = read()
		}
		if n%2 == 0 {
			s.edit("keys-a", "keys-b")
		} else {
			s.edit("keys-b", "keys-a")
		}
		s.Reload() // not to wait for the watcher
		s.waitLog("configuration reloaded", n+1)
		if n%10 == 0 {
			s.get("/")
		}
	}
	eventually(t, fmt.Sprintf("back to %d goroutines and %d descriptors", goroutines, files), func() bool {
		g, f := read()
		return g <= goroutines+3 && f <= files+3
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no list of open descriptors on this system")
	}
	return len(entries)
}
