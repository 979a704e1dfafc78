package split

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/redis"
	"github.com/sluice-limiter/sluice/store/storetest"
)

func startCluster(t *testing.T) *servers.Cluster {
	t.Helper()
	fleet, err := servers.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	return fleet
}

// open opens a store on a cluster and waits for all of it.
func open(t *testing.T, url, prefix string) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url, redis.OpenOptions{Options: redis.Options{Prefix: prefix}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-ticker.C {
		err := reachAll(s)
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func reachAll(s *redis.Store) error {
	for i := range 50 {
		if _, err := s.Take(context.Background(), nil, []sluice.Charge{{Key: fmt.Sprint("up", i), Limit: byHour}}); err != nil {
			return err
		}
	}
	return nil
}

func TestOnCluster(t *testing.T) {
	fleet := startCluster(t)
	t.Run("contract", func(t *testing.T) {
		stores := 0
		storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
			stores++
			s := New(open(t, fleet.URL(), fmt.Sprint("p", stores)))
			t.Cleanup(s.Close)
			return patient{s}, nil
		}})
	})
	t.Run("groups survive a failover", func(t *testing.T) { groupsSurvive(t, fleet) })
}

// groupsSurvive asks for groups over several slots while a master dies. A call
// is answered whole or is an error, and nothing is over.
func groupsSurvive(t *testing.T, fleet *servers.Cluster) {
	next := open(t, fleet.URL(), "survive")
	s := New(next)
	limit := sluice.Limit{Tokens: 1_000_000, Per: 24 * time.Hour}
	var passed, failed, torn atomic.Int64
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			ticker := time.NewTicker(3 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
				}
				var charges []sluice.Charge
				for key := range 5 {
					charges = append(charges, sluice.Charge{Key: fmt.Sprint("key", key), Limit: limit, N: 1})
				}
				got, err := s.Take(context.Background(), nil, charges)
				if err != nil {
					failed.Add(1)
					continue
				}
				passed.Add(1)
				for _, d := range got {
					if d.Granted != 1 {
						torn.Add(1)
					}
				}
			}
		})
	}
	owner, err := fleet.Owner(next.Locate(&sluice.Charge{Key: "key0", Limit: limit}).Slot)
	if err != nil {
		t.Fatal(err)
	}
	owner.Kill()
	if err := until(15*time.Second, func() error {
		if failed.Load() == 0 {
			return errors.New("no call has failed yet")
		}
		return reachAll(next)
	}); err != nil {
		t.Error(err)
	}
	before := passed.Load()
	if err := until(5*time.Second, func() error {
		if passed.Load() < before+50 {
			return errors.New("too few calls pass")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	close(stop)
	wait.Wait()
	s.Close()
	t.Logf("%d calls passed, %d failed", passed.Load(), failed.Load())
	if torn.Load() > 0 {
		t.Errorf("%d charges of groups that passed were not granted", torn.Load())
	}
}

func until(within time.Duration, ask func() error) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-ticker.C
	}
}
