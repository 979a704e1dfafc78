package lab

import (
	"context"
	"os"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

// A deed is what is done to a single server.
type deed func(context.Context, *servers.Redis) error

// single stages a fault of one server.
func single(breaks, mends deed) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		server, err := servers.StartRedis(ctx)
		if err != nil {
			return nil, err
		}
		return singleStage(server, breaks, mends), nil
	}
}

func singleStage(server *servers.Redis, breaks, mends deed) *stage {
	return &stage{
		url:     "redis://" + server.Addr,
		nodes:   []*servers.Redis{server},
		breaks:  func(ctx context.Context) error { return breaks(ctx, server) },
		mends:   func(ctx context.Context) error { return mends(ctx, server) },
		cleanup: []func(){server.Close},
	}
}

// send is the deed of one command.
func send(words ...string) deed {
	return func(_ context.Context, r *servers.Redis) error { return command(r, words...) }
}

// killed is the fault of a server that ends and comes back with nothing.
func killed(name string) fault {
	kill := func(_ context.Context, r *servers.Redis) error { r.Kill(); return nil }
	restart := func(ctx context.Context, r *servers.Redis) error { return r.Restart(ctx) }
	return fault{name: name, forgets: true, stage: single(kill, restart)}
}

// stopped is the fault of a server that stands still: connections to it are
// accepted, and nothing is answered until it goes on.
func stopped(name string) fault {
	pause := func(_ context.Context, r *servers.Redis) error { return r.Pause() }
	resume := func(_ context.Context, r *servers.Redis) error { return r.Resume() }
	return fault{name: name, stage: single(pause, resume)}
}

func singleFaults() []fault {
	killAndRestart := func(ctx context.Context, r *servers.Redis) error { r.Kill(); return r.Restart(ctx) }
	return []fault{
		{name: "none", stage: single(send("PING"), send("PING"))},
		killed("kill -9, back empty"),
		stopped("SIGSTOP: accepts, never answers"),
		{name: "restarted at once, empty", forgets: true, stage: single(killAndRestart, send("PING"))},
		{name: "scripts flushed in a loop", stage: single(flushScripts, send("PING"))},
		{name: "memory full, noeviction", stage: single(send("CONFIG", "SET", "maxmemory", "1mb"), send("CONFIG", "SET", "maxmemory", "0"))},
		{name: "master turned replica", stage: single(send("REPLICAOF", "127.0.0.1", "1"), send("REPLICAOF", "NO", "ONE"))},
	}
}

// flushScripts makes the server forget its scripts for as long as the fault
// lasts.
func flushScripts(ctx context.Context, r *servers.Redis) error {
	ctx, cancel := context.WithTimeout(ctx, broken)
	defer cancel()
	for ctx.Err() == nil {
		if err := command(r, "SCRIPT", "FLUSH"); err != nil {
			return err
		}
	}
	return nil
}

// clockFaults are none where libfaketime is not installed: the rest is still
// worth measuring.
func clockFaults() []fault {
	if !servers.HasClock() {
		return nil
	}
	return []fault{{name: "clock an hour forward, then back", forgets: true, stage: underClock}}
}

// underClock stages a server whose clock jumps.
func underClock(ctx context.Context) (*stage, error) {
	dir, err := os.MkdirTemp("", "sluice-lab-")
	if err != nil {
		return nil, err
	}
	clock, err := servers.NewClock(dir)
	var server *servers.Redis
	if err == nil {
		server, err = clock.StartRedis(ctx)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	move := func(d time.Duration) deed {
		return func(context.Context, *servers.Redis) error { return clock.Move(d) }
	}
	s := singleStage(server, move(time.Hour), move(0))
	s.cleanup = append(s.cleanup, func() { os.RemoveAll(dir) })
	return s, nil
}
