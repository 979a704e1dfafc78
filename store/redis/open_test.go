package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/storetest"
)

var perHour = sluice.Limit{Tokens: 1000, Per: time.Hour}

// open opens a store that is closed with the test.
func open(t *testing.T, url string, o OpenOptions) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// eventually asks until the answer is nil, at most for a while.
func eventually(t *testing.T, within time.Duration, ask func() error) time.Duration {
	t.Helper()
	start := time.Now()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		took := time.Since(start)
		if err == nil {
			return took
		}
		if took > within {
			t.Fatalf("still after %v: %v", took, err)
		}
		<-ticker.C
	}
}

// take takes one token of a key.
func take(s *Store, key string) error {
	_, err := s.Take(context.Background(), nil, []sluice.Charge{{Key: key, Limit: perHour, N: 1}})
	return err
}

func TestOpenContract(t *testing.T) {
	t.Parallel()
	server := start(t)
	stores := 0
	storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
		stores++
		s := open(t, "redis://"+server.Addr+"/3", OpenOptions{Options: Options{Prefix: fmt.Sprint("p", stores)}})
		eventually(t, 5*time.Second, func() error { return take(s, "up") })
		return s, nil
	}})
}

func start(t *testing.T, args ...string) *servers.Redis {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func TestOpenWhileTheServerIsAway(t *testing.T) {
	server := start(t)
	server.Kill()
	var lost told
	s := open(t, "redis://"+server.Addr, OpenOptions{Lost: lost.lost})
	for range 20 {
		begin := time.Now()
		if err := take(s, "key"); !errors.Is(err, ErrAway) {
			t.Fatalf("Take = %v, want ErrAway", err)
		}
		if took := time.Since(begin); took > 300*time.Millisecond {
			t.Errorf("a call to a server that is away took %v", took)
		}
	}
	eventually(t, 2*time.Second, func() error {
		if got := lost.String(); !strings.Contains(got, server.Addr) {
			return fmt.Errorf("Lost was told %q, want the address", got)
		}
		return nil
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %v", eventually(t, 2*time.Second, func() error { return take(s, "key") }))
}

// told collects what a store tells.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, time.Now().Format("05.000000 ")+line)
}

func (l *told) lost(node string, err error) { l.add("lost " + node + ": " + err.Error()) }

func (l *told) connected(r Report) { l.add(fmt.Sprintf("connected %+v", r)) }

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func TestServerRestarts(t *testing.T) {
	server := start(t)
	s := open(t, "redis://"+server.Addr, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	for range 3 {
		server.Kill()
		for range 50 {
			begin := time.Now()
			if err := take(s, "key"); err == nil {
				t.Fatal("a call to a dead server is answered")
			}
			if took := time.Since(begin); took > 300*time.Millisecond {
				t.Errorf("a call to a dead server took %v", took)
			}
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := eventually(t, 2*time.Second, func() error { return take(s, "key") })
		t.Logf("back after %v", took)
	}
}

// A server that accepts and never answers is noticed within about a second, and
// from then on nobody waits for it.
func TestServerPaused(t *testing.T) {
	server := start(t)
	var log told
	s := open(t, "redis://"+server.Addr, OpenOptions{Connected: log.connected, Lost: log.lost})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if err := take(s, "key"); err == nil {
				t.Error("a call to a paused server is answered")
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	t.Logf("noticed after %v", took)
	if took > 2*time.Second {
		t.Errorf("a paused server was noticed after %v, want about a second", took)
	}
	for begin := time.Now(); time.Since(begin) < time.Second; {
		one := time.Now()
		if err := take(s, "key"); err == nil {
			t.Fatal("a call to a paused server is answered")
		}
		if took := time.Since(one); took > 300*time.Millisecond {
			t.Errorf("a call to a server known to be away took %v", took)
		}
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %v", eventually(t, 2*time.Second, func() error { return take(s, "key") }))
	eventually(t, time.Second, func() error {
		if got := log.String(); strings.Count(got, "connected") != 2 || strings.Count(got, "lost") != 1 {
			return fmt.Errorf("told %q", got)
		}
		return nil
	})
}

// A deadline ends the caller's wait and leaves the connection alone.
func TestDeadlineKeepsConnection(t *testing.T) {
	server := start(t)
	s := open(t, "redis://"+server.Addr, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	before := connections(t, server)
	for range 5 {
		if _, err := server.Do("CLIENT", "PAUSE", "40", "ALL"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := s.Take(ctx, nil, []sluice.Charge{{Key: "key", Limit: perHour, N: 1}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Take = %v, want the deadline's error", err)
		}
		eventually(t, time.Second, func() error { return take(s, "key") })
	}
	if after := connections(t, server); after > before+7 {
		// Each Do makes one.
		t.Errorf("%d connections were made before and %d after, want none anew", before, after)
	}
}

func connections(t *testing.T, server *servers.Redis) int {
	t.Helper()
	text, err := server.Do("INFO", "stats")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "total_connections_received:")
	n := 0
	fmt.Sscan(text, &n)
	return n
}

func TestCloseEndsEverything(t *testing.T) {
	server := start(t)
	paused := start(t)
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for _, url := range []string{
		"redis://" + server.Addr,
		"redis://" + paused.Addr,
		"redis+cluster://" + server.Addr, // no cluster
		"redis+cluster://" + paused.Addr,
		"redis+sentinel://main@" + server.Addr, // no sentinel
		"redis+sentinel://main@" + paused.Addr,
		"redis://127.0.0.1:1",
	} {
		for _, wait := range []time.Duration{0, 30 * time.Millisecond} {
			s, err := Open(t.Context(), url, OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			timer := time.After(wait)
			for done := false; !done; {
				take(s, "key")
				select {
				case <-timer:
					done = true
				default:
					runtime.Gosched()
				}
			}
			begin := time.Now()
			s.Close()
			if took := time.Since(begin); took > time.Second {
				t.Errorf("%s: Close took %v", url, took)
			}
			if err := take(s, "key"); !errors.Is(err, ErrAway) {
				t.Errorf("%s: Take after Close = %v, want ErrAway", url, err)
			}
			s.Close()
		}
	}
	eventually(t, 8*time.Second, func() error {
		if n := runtime.NumGoroutine(); n > before {
			buf := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, want %d: %s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return nil
	})
}

// A single server that became a replica decides nothing, and is used again once
// it is a master.
func TestMasterTurnedReplica(t *testing.T) {
	server, other := start(t), start(t)
	s := open(t, "redis://"+server.Addr, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	if _, err := server.Do("REPLICAOF", "127.0.0.1", fmt.Sprint(other.Port())); err != nil {
		t.Fatal(err)
	}
	if err := take(s, "key"); err == nil {
		t.Error("a replica took a token")
	}
	peek := []sluice.Charge{{Key: "key", Limit: perHour}}
	eventually(t, 2*time.Second, func() error {
		if _, err := s.Take(t.Context(), nil, peek); !errors.Is(err, errReplica) {
			return fmt.Errorf("peek at a replica = %v, want an error", err)
		}
		return nil
	})
	if _, err := server.Do("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %v", eventually(t, 3*time.Second, func() error { return take(s, "key") }))
}

func TestPasswords(t *testing.T) {
	const secret, next = "first-s3cret", "second-s3cret"
	server := start(t, "--requirepass", secret)
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong-s3cret")
	var log told
	s := open(t, "redis://"+server.Addr+"?password_file="+file, OpenOptions{Connected: log.connected, Lost: log.lost})
	err := errors.New("none")
	eventually(t, 2*time.Second, func() error {
		if err = take(s, "key"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			return fmt.Errorf("a wrong password = %w", err)
		}
		return nil
	})
	write(secret)
	eventually(t, 2*time.Second, func() error { return take(s, "key") })

	// Rotation: existing connections go on, new ones read the new password.
	direct := open(t, "redis://:"+secret+"@"+server.Addr, OpenOptions{})
	eventually(t, 2*time.Second, func() error { return take(direct, "key") })
	client := direct.link.session.Load().client
	if err := client.Do(t.Context(), client.B().Arbitrary("CONFIG", "SET", "requirepass", next).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	write(next)
	if err := take(s, "key"); err != nil {
		t.Errorf("after the password was changed: %v", err)
	}
	if err := client.Do(t.Context(), client.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, func() error { return take(s, "key") })
	t.Setenv("SLUICE_TEST_PASSWORD", next)
	env := open(t, "redis://"+server.Addr+"?password_env=SLUICE_TEST_PASSWORD", OpenOptions{})
	eventually(t, 2*time.Second, func() error { return take(env, "key") })
	for _, text := range []string{err.Error(), log.String(), fmt.Sprintf("%v %+v %#v %+v", s, s, direct, *direct.link.target)} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("a password is told in %q", text)
		}
	}
}

func TestTLS(t *testing.T) {
	server, err := servers.StartRedisTLS(t.Context(), "--tls-auth-clients", "yes",
		"--user", "app", "on", ">pass/wo:rd@", "~rl:*", "+@all", "--user", "default", "off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	files := "cert=" + server.Cert + "&key=" + server.Key
	login := "app:pass%2Fwo:rd%40@"
	good := open(t, "rediss://"+login+server.Addr+"?ca="+server.CA+"&"+files, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(good, "key") })
	byName := open(t, fmt.Sprintf("rediss://%slocalhost:%d?ca=%s&%s", login, server.Port(), server.CA, files), OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(byName, "key") })
	other := open(t, "rediss://"+login+server.Addr+"?ca="+server.CA+"&"+files, OpenOptions{Options: Options{Prefix: "other"}})
	for _, tt := range []struct {
		name string
		s    *Store
		want string
	}{
		{"an unknown authority", open(t, "rediss://"+login+server.Addr+"?"+files, OpenOptions{}), "certificate"},
		{"another name", open(t, fmt.Sprintf("rediss://%s127.0.0.2:%d?ca=%s&%s", login, server.Port(), server.CA, files), OpenOptions{}), ""},
		{"no client certificate", open(t, "rediss://"+login+server.Addr+"?ca="+server.CA, OpenOptions{}), ""},
		{"no TLS", open(t, "redis://"+login+server.Addr, OpenOptions{}), ""},
		{"a wrong password", open(t, "rediss://app:wrong@"+server.Addr+"?ca="+server.CA+"&"+files, OpenOptions{}), "WRONGPASS"},
		{"keys not allowed", other, "NOPERM"},
	} {
		eventually(t, 3*time.Second, func() error {
			err := take(tt.s, "key")
			if err == nil || errors.Is(err, errConnecting) || !strings.Contains(err.Error(), tt.want) {
				return fmt.Errorf("%s: Take = %v, want %q", tt.name, err, tt.want)
			}
			return nil
		})
	}
}
