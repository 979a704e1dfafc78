package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// Case 62: a server that refuses TIME in scripts is found out, and decides by
// the callers' clocks, under the same contract.
func TestTimeRefusedInScripts(t *testing.T) {
	t.Parallel()
	server := start(t, "--user", "default", "on", "nopass", "~*", "&*", "+@all", "-time")
	stores := 0
	storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
		stores++
		s := open(t, "redis://"+server.Addr, OpenOptions{Options: Options{Prefix: fmt.Sprint("p", stores)}})
		eventually(t, 5*time.Second, func() error { return take(s, "up") })
		return s, nil
	}})
	s := open(t, "redis://"+server.Addr, OpenOptions{})
	eventually(t, 5*time.Second, func() error {
		_, err := s.Register(context.Background(), "me", time.Minute)
		return err
	})
	if live, err := s.Register(context.Background(), "you", time.Minute); err != nil || len(live) != 2 {
		t.Errorf("instances %q, %v, want 2", live, err)
	}
}

// A key whose end was taken away gets one again; what is no number at all is
// written over.
func TestKeysAreRepaired(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := New(dial(t, server.Addr), Options{})
	for _, damage := range [][]string{{"PERSIST", "rl:b:k"}, {"SET", "rl:b:k", "1e3"}, {"SET", "rl:b:k", "what"}} {
		if err := take(s, "k"); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Do(damage...); err != nil {
			t.Fatal(err)
		}
		if err := take(s, "k"); err != nil {
			t.Errorf("%q: %v", damage, err)
		}
		if ttl, err := server.Do("PTTL", "rl:b:k"); err != nil || ttl == "-1" {
			t.Errorf("%q: TTL %s, %v", damage, ttl, err)
		}
	}
}
