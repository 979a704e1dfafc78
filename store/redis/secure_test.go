package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

// Over TLS a failover is followed as without: the sentinels tell of the new
// master, whose certificate is looked at like the first one's.
func TestSentinelTLS(t *testing.T) {
	t.Parallel()
	fleet, err := servers.StartSentinelTLS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	s := open(t, fleet.URL(), OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	fleet.Master.Kill()
	if err := fleet.Promoted(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("decisions %v after the failover", eventually(t, 5*time.Second, func() error { return take(s, "key") }))

	// The system's authorities did not sign for these servers.
	stranger := open(t, "rediss+sentinel://main@"+fleet.Sentinels[0].Addr, OpenOptions{})
	refused(t, stranger)
	plain := open(t, "redis+sentinel://main@"+fleet.Sentinels[0].Addr, OpenOptions{})
	refused(t, plain)
}

// refused waits until the store has tried to connect and was refused.
func refused(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, 5*time.Second, func() error {
		err := take(s, "key")
		if err == nil {
			t.Fatal("a server that was not to be trusted has decided")
		}
		if errors.Is(err, errConnecting) {
			return err
		}
		return nil
	})
}

func TestClusterTLS(t *testing.T) {
	t.Parallel()
	fleet, err := servers.StartClusterTLS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	s := open(t, fleet.URL(), OpenOptions{})
	eventually(t, 5*time.Second, func() error { return takeAll(s) })
	slot := s.Locate(&manyKeys(0)[0]).Slot
	if err := fleet.Migrate(slot, another(t, fleet, slot)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(context.Background(), nil, manyKeys(0)); err != nil {
		t.Errorf("a key whose slot has moved: %v", err)
	}
	fleet.Nodes[0].Kill()
	if err := fleet.Nodes[3].Promoted(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("decisions %v after the failover", eventually(t, 5*time.Second, func() error { return takeAll(s) }))
	refused(t, open(t, "rediss+cluster://"+fleet.Nodes[1].Addr, OpenOptions{}))
}

// another returns a master that does not answer for a slot.
func another(t *testing.T, fleet *servers.Cluster, slot int) *servers.Redis {
	t.Helper()
	owner, err := fleet.Owner(slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range fleet.Nodes {
		if r != owner && r.IsMaster() {
			return r
		}
	}
	t.Fatal("there is no other master")
	return nil
}

// A store is late to learn that a slot has moved. Until then Locate names the
// former owner and a call takes a redirect more; it is decided once.
func movedSlotCostsARedirect(t *testing.T, fleet *servers.Cluster, s *Store) {
	for round := range 3 {
		charges := manyKeys(0)
		charges[0].Key = fmt.Sprint("moved", round)
		took := func() int64 {
			d, err := s.Take(context.Background(), nil, charges)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			return d[0].Remaining
		}
		before := s.Locate(&charges[0])
		left := took()
		to := another(t, fleet, before.Slot)
		from, err := fleet.Owner(before.Slot)
		if err != nil {
			t.Fatal(err)
		}
		moved := redirects(t, from)
		if err := fleet.Migrate(before.Slot, to); err != nil {
			t.Fatal(err)
		}
		const calls = 20
		for i := range int64(calls) {
			if got := took(); got != left-1-i {
				t.Errorf("round %d: %d left after call %d, want %d: each call decides once", round, got, i+1, left-1-i)
			}
		}
		if n := redirects(t, from) - moved; n > calls {
			t.Errorf("round %d: %d calls were redirected %d times, want once each at most", round, calls, n)
		} else {
			t.Logf("%d of %d calls were redirected", n, calls)
		}
		eventually(t, 2*time.Second, func() error {
			if got := s.Locate(&charges[0]).Node; got != to.Addr {
				return fmt.Errorf("Locate = %s, want %s", got, to.Addr)
			}
			return nil
		})
	}
}

// redirects returns how often a node sent callers elsewhere.
func redirects(t *testing.T, r *servers.Redis) int {
	t.Helper()
	text, err := r.Do("INFO", "errorstats")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "errorstat_MOVED:count=")
	n := 0
	fmt.Sscan(text, &n)
	return n
}
