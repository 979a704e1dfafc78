package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/redis"
)

// A local is a redis-server of an experiment's own, with a client.
type local struct {
	*servers.Redis
	client rueidis.Client
	store  *redis.Store // the counters of Sluice there, without layers
}

func startLocal(ctx context.Context) (*local, error) {
	server, err := servers.StartRedis(ctx)
	if err != nil {
		return nil, err
	}
	client, err := dialRedis(server.Addr)
	if err != nil {
		server.Close()
		return nil, err
	}
	return &local{server, client, redis.New(client, redis.Options{})}, nil
}

func (l *local) close() {
	l.client.Close()
	l.Close()
}

// dialRedis connects once: an experiment's calls do not pass each other.
func dialRedis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
	})
}

// take asks for one token of a key and says whether it passed.
func take(ctx context.Context, store sluice.Store, key string, limit sluice.Limit) (bool, error) {
	d, err := store.Take(ctx, nil, []sluice.Charge{{Key: key, Limit: limit, N: 1}})
	if err != nil {
		return false, err
	}
	return d[0].Allowed, nil
}

// allAlgorithms are those of Sluice, the exact one first.
var allAlgorithms = [...]sluice.Algorithm{sluice.SlidingLog, sluice.SlidingWindow, sluice.TokenBucket, sluice.FixedWindow}

// errRefused reports a call that had to pass: what was measured is not what was
// meant.
func errRefused(key string) error { return fmt.Errorf("%s was refused: nothing should be", key) }

// millis returns a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
