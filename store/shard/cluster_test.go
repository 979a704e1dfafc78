package shard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/redis"
	"github.com/sluice-limiter/sluice/store/split"
)

// openCluster returns a store on a real cluster, once it answers for all slots.
func openCluster(t *testing.T, fleet *servers.Cluster) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), fleet.URL(), redis.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-ticker.C {
		for i := range 50 {
			if _, err = s.Take(t.Context(), nil, []sluice.Charge{{Key: fmt.Sprint("up", i), Limit: hourly}}); err != nil {
				break
			}
		}
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestOnCluster: one key, with a tag as a tenant's has and without, is counted on
// all three masters, and exactly.
func TestOnCluster(t *testing.T) {
	fleet, err := servers.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	next := openCluster(t, fleet)
	for _, tag := range []string{"", "tenant-a"} {
		t.Run("tag "+tag, func(t *testing.T) {
			below := split.New(next)
			defer below.Close()
			s := New(below)
			const capacity, shards = 120, 12
			charge := func(n int64) sluice.Charge {
				limit := sluice.Limit{Tokens: capacity, Per: 1000 * time.Hour}
				return sluice.Charge{Key: "everyone" + tag, Tag: tag, Limit: limit, N: n, Shards: shards}
			}
			nodes := make(map[string]int)
			c := charge(1)
			for shard := range shards {
				one := shardOf(&c, shard)
				nodes[s.Locate(&one).Node]++
			}
			if len(nodes) != 3 {
				t.Errorf("%d shards lie on %v, want all three masters", shards, nodes)
			}
			var mu sync.Mutex
			var granted int64
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					for range 400 {
						got, err := s.Take(t.Context(), nil, []sluice.Charge{charge(1)})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						granted += got[0].Granted
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			peek, err := s.Take(t.Context(), nil, []sluice.Charge{charge(0)})
			if err != nil {
				t.Fatal(err)
			}
			if granted > capacity || peek[0].Remaining != capacity-granted {
				t.Errorf("granted %d of %d, and %d are said to be left", granted, capacity, peek[0].Remaining)
			}
			if granted < capacity {
				t.Errorf("granted %d of %d to 1600 calls", granted, capacity)
			}
			for node := range nodes {
				if !holds(t, fleet, node, "everyone"+tag) {
					t.Errorf("%s has none of the counters", node)
				}
			}
			if err := s.Forget(t.Context(), []sluice.Charge{charge(0)}); err != nil {
				t.Fatal(err)
			}
			if d := take(t, s, charge(capacity))[0]; d.Granted != capacity {
				t.Errorf("all at once of a key forgotten: %+v", d)
			}
		})
	}
}

// holds says whether a node keeps a key that has a text in its name.
func holds(t *testing.T, fleet *servers.Cluster, node, text string) bool {
	t.Helper()
	for _, n := range fleet.Nodes {
		if !strings.HasSuffix(node, fmt.Sprint(":", n.Port())) {
			continue
		}
		keys, err := n.Do("KEYS", "*"+text+"*")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(keys, text)
	}
	t.Fatalf("no node %s", node)
	return false
}

// TestOverDenied: a shard's refusal is remembered by itself, so that a key whose
// shards are known to be empty costs no call, and its wait stays truthful.
func TestOverDenied(t *testing.T) {
	for _, limit := range []sluice.Limit{
		{Tokens: 8, Per: 4 * time.Second},
		{Tokens: 8, Per: 4 * time.Second, Algorithm: sluice.FixedWindow},
		{Tokens: 8, Per: 4 * time.Second, Algorithm: sluice.SlidingWindow},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{Store: memory.New(memory.Options{})}
			s := New(denied.New(r, denied.Options{}))
			c := sluice.Charge{Key: "a", Limit: limit, N: 1, Shards: 4}
			for range 200 {
				take(t, s, c)
			}
			r.asked()
			for range 100 {
				if d := take(t, s, c)[0]; d.Allowed || d.Source != sluice.SourceDenied {
					t.Errorf("%v: %+v, want a refusal remembered", limit, d)
				}
			}
			if asked := r.asked(); len(asked) > 0 {
				t.Errorf("%v: calls %q for shards known to be empty", limit, asked)
			}
			for range 20 {
				time.Sleep(300 * time.Millisecond)
				d := take(t, s, c)[0]
				if d.Allowed {
					continue
				}
				time.Sleep(d.RetryAfter)
				if again := take(t, s, c)[0]; !again.Allowed {
					t.Errorf("%v: refused with %+v, and again after the wait with %+v", limit, d, again)
				}
			}
		})
	}
}
