package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

func startServer(t *testing.T) *servers.Redis {
	t.Helper()
	server, err := servers.StartRedis(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func TestCrowdCountsDecisions(t *testing.T) {
	half := func(key string) (bool, error) { return key == "yes", nil }
	keys := func(*rand.Rand) func() string {
		n := 0
		return func() string {
			n++
			return [...]string{"yes", "no"}[n%2]
		}
	}
	got, err := crowd(3, time.Nanosecond, keys, half)
	if err != nil {
		t.Fatal(err)
	}
	if got.decisions != 3*16 || got.allowed != 3*8 || got.elapsed <= 0 {
		t.Errorf("crowd = %+v, want 16 decisions of each of 3 callers, half of them allowed", got)
	}
	broken := errors.New("broken")
	if _, err := crowd(3, time.Nanosecond, hotKey, func(string) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("crowd = %v, want %v", err, broken)
	}
}

func TestRoundsThatMeasureSomethingElseFail(t *testing.T) {
	for _, tt := range []struct {
		allowed int64
		all     bool
		want    bool
	}{{10, true, true}, {9, true, false}, {0, false, true}, {1, false, false}} {
		err := tally{decisions: 10, allowed: tt.allowed}.passed(tt.all)
		if (err == nil) != tt.want {
			t.Errorf("%d of 10 allowed, all should be: %v: %v", tt.allowed, tt.all, err)
		}
	}
}

func TestFigures(t *testing.T) {
	round := tally{decisions: 500, elapsed: 2 * time.Second, allocs: 1.5}
	if got := perSecond(round); got != 250 {
		t.Errorf("perSecond = %g, want 250", got)
	}
	if got := micros(round); got != 4000 {
		t.Errorf("micros = %g, want 4000", got)
	}
	if got := perDecision(round); got != 1.5 {
		t.Errorf("perDecision = %g, want 1.5", got)
	}
}

// TestRedisSides lets every limiter decide as rows rely on: an interface that
// changed would else show only in a long run.
func TestRedisSides(t *testing.T) {
	server := startServer(t)
	for name, side := range map[string]redisSide{
		"coalesced": coalesced, "remembered": remembered, "stack": stack,
		"incr": incr, "incr default": incrDefault, "redis_rate": redisRate, "ulule": ululeRedis,
	} {
		for _, limit := range []sluice.Limit{wide, lasting, refusing} {
			if answer, err := server.Do("FLUSHALL"); err != nil || answer != "OK" {
				t.Fatal(answer, err)
			}
			l, err := side(server.Addr, limit)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range 3 {
				want := i == 0 || limit != refusing || strings.HasPrefix(name, "incr")
				if got, err := l.take("key"); err != nil || got != want {
					t.Errorf("%s of %v: call %d allowed %v, %v, want %v", name, limit, i+1, got, err, want)
				}
			}
			l.close()
		}
	}
}

func TestFallbackIsAnError(t *testing.T) {
	take := takeOn(fallen{}, wide)
	if _, err := take("key"); !errors.Is(err, errFallback) {
		t.Errorf("a decision of the fallback = %v, want %v", err, errFallback)
	}
}

// fallen is a store that is away.
type fallen struct{}

func (fallen) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	return append(dst, sluice.Decision{Allowed: true, Source: sluice.SourceFallback}), nil
}

func TestScriptsAreCounted(t *testing.T) {
	server := startServer(t)
	l, err := coalesced(server.Addr, wide)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if _, err := l.take("first"); err != nil { // also loads the script
		t.Fatal(err)
	}
	before, err := scripts(server)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := l.take("key"); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := scripts(server); err != nil || after-before != 5 {
		t.Errorf("scripts for 5 calls = %d, %v, want 5", after-before, err)
	}
	if _, err := countScripts("cmdstat_evalsha:calls=x,usec=1\r\n"); err == nil {
		t.Error("a count that is no number is not noticed")
	}
}

func TestMemoryOfAKey(t *testing.T) {
	limit := sluice.Limit{Tokens: 3, Per: time.Hour}
	for name, usual := range map[string]commands{
		"hash": hash, "counters": counters(3, 3), "sorted set": sortedSet(3),
	} {
		got, err := weighRedis(limit, usual)
		if err != nil || got.ours < 40 || got.ours > 100 || got.theirs <= got.ours || !got.paired {
			t.Errorf("%s: weighRedis = %+v, %v, want ours below theirs", name, got, err)
		}
	}
	more := func(string) (bool, error) { return true, nil }
	if err := use(more, "key", 2); err == nil {
		t.Error("a limit that is not used up is not noticed")
	}
}
