package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// register registers an instance and wants those alive.
func register(t *testing.T, s *Store, id string, ttl time.Duration, want ...string) {
	t.Helper()
	live, err := s.Register(t.Context(), id, ttl)
	if err != nil {
		t.Fatal(err)
	}
	if len(live) == 0 {
		live = nil
	}
	if diff := cmp.Diff(want, live); diff != "" {
		t.Errorf("Register(%q, %v): live (-want +got):\n%s", id, ttl, diff)
	}
}

func TestRegister(t *testing.T) {
	clock, err := servers.NewClock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := clock.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := New(dial(t, server.Addr), Options{})
	register(t, s, "b", 10*time.Second, "b")
	register(t, s, "a", time.Minute, "a", "b")
	register(t, s, "c\x00}{ \n", 10*time.Second, "a", "b", "c\x00}{ \n")
	register(t, s, "c\x00}{ \n", 0, "a", "b")
	move(t, clock, 9*time.Second)
	register(t, s, "b", 10*time.Second, "a", "b")
	move(t, clock, 30*time.Second)
	register(t, s, "d", time.Second, "a", "d")
	if ttl := pttl(t, server); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the set lives %v, want as long as its last instance", ttl)
	}
	// A clock set back by hours does not keep those from ahead alive.
	move(t, clock, -10*time.Hour)
	register(t, s, "e", time.Second, "e")
	if ttl := pttl(t, server); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the set lives %v after the clock was set back", ttl)
	}
	register(t, s, "e", 0)
	if n, err := server.Do("EXISTS", "rl:instances"); err != nil || n != "0" {
		t.Errorf("EXISTS of a set without instances = %q, %v", n, err)
	}
	if _, err := s.Register(t.Context(), "a", 2*time.Hour); !errors.Is(err, sluice.ErrCharge) {
		t.Errorf("a life of two hours: %v, want ErrCharge", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Register(ctx, "a", time.Second); err == nil {
		t.Error("Register by a caller that left: no error")
	}
}

// The name of the set is no counter's.
func TestInstancesAreNoCounter(t *testing.T) {
	for _, key := range []string{"", "instances", ":instances"} {
		for _, limit := range limits {
			for _, tag := range []string{"", "instances"} {
				c := sluice.Charge{Key: key, Tag: tag, Limit: limit}
				if got := string(appendKey(nil, "rl", &c)); got == "rl:instances" {
					t.Errorf("%+v is kept in %q", c, got)
				}
			}
		}
	}
}

func move(t *testing.T, clock *servers.Clock, by time.Duration) {
	t.Helper()
	if err := clock.Move(by); err != nil {
		t.Fatal(err)
	}
}

func pttl(t *testing.T, server *servers.Redis) time.Duration {
	t.Helper()
	text, err := server.Do("PTTL", "rl:instances")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(fmt.Errorf("PTTL: %w", err))
	}
	return time.Duration(n) * time.Millisecond
}
