package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// A load takes single tokens of many keys, one caller after the other, until it
// is stopped.
type load struct {
	stop    chan struct{}
	wait    sync.WaitGroup
	ok      atomic.Int64
	failed  atomic.Int64
	slowest atomic.Int64
	mu      sync.Mutex
	errs    map[string]int
}

func startLoad(store sluice.Store, callers int, charge func(i int) []sluice.Charge) *load {
	l := &load{stop: make(chan struct{}), errs: map[string]int{}}
	for c := range callers {
		l.wait.Go(func() {
			ticker := time.NewTicker(2 * time.Millisecond)
			defer ticker.Stop()
			for i := c; ; i += callers {
				select {
				case <-l.stop:
					return
				case <-ticker.C:
				}
				begin := time.Now()
				_, err := store.Take(context.Background(), nil, charge(i))
				if took := int64(time.Since(begin)); took > l.slowest.Load() {
					l.slowest.Store(took)
				}
				if err == nil {
					l.ok.Add(1)
					continue
				}
				l.failed.Add(1)
				l.mu.Lock()
				l.errs[err.Error()]++
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) end() {
	close(l.stop)
	l.wait.Wait()
}

func (l *load) String() string {
	return fmt.Sprintf("%d calls passed, %d failed, slowest %v, %v", l.ok.Load(), l.failed.Load(), time.Duration(l.slowest.Load()), l.errs)
}

func manyKeys(i int) []sluice.Charge {
	return []sluice.Charge{{Key: fmt.Sprint("key", i%200), Limit: perHour, N: 1}}
}

func takeAll(s *Store) error {
	var errs []error
	for i := range 200 {
		if _, err := s.Take(context.Background(), nil, manyKeys(i)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	fleet, err := servers.StartSentinel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	s := open(t, fleet.URL(), OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	if got := s.Locate(&sluice.Charge{Key: "key"}); got != (sluice.Place{Node: "main"}) {
		t.Errorf("Locate = %+v, want the master's name", got)
	}
	l := startLoad(s, 4, manyKeys)
	fleet.Master.Kill()
	eventually(t, time.Second, func() error {
		if take(s, "key") == nil {
			return errors.New("a dead master answers")
		}
		return nil
	})
	promoted := eventually(t, 15*time.Second, func() error {
		answer, err := fleet.Replica.Do("ROLE")
		if err == nil && !strings.HasPrefix(answer, "master") {
			err = errors.New("the replica is not promoted")
		}
		return err
	})
	back := eventually(t, 3*time.Second, func() error { return take(s, "key") })
	l.end()
	t.Logf("promoted after %v, decisions %v later; %v", promoted, back, l)
	if slowest := time.Duration(l.slowest.Load()); slowest > 2*time.Second {
		t.Errorf("a call took %v", slowest)
	}
}

// A master that is told to hand over lives on as a replica: connections to it
// stand, and decide nothing any more.
func TestSentinelHandOver(t *testing.T) {
	t.Parallel()
	fleet, err := servers.StartSentinel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	s := open(t, fleet.URL(), OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	l := startLoad(s, 4, manyKeys)
	if answer, err := fleet.Sentinels[0].Do("SENTINEL", "FAILOVER", "main"); err != nil || answer != "OK" {
		t.Fatal(answer, err)
	}
	took := eventually(t, 15*time.Second, func() error {
		answer, err := fleet.Replica.Do("INFO", "commandstats")
		if err == nil && !strings.Contains(answer, "cmdstat_evalsha") {
			err = errors.New("the new master decides nothing yet")
		}
		return err
	})
	before := l.ok.Load()
	eventually(t, 2*time.Second, func() error {
		if l.ok.Load() < before+200 {
			return errors.New("too few calls")
		}
		return nil
	})
	l.end()
	t.Logf("handed over after %v; %v", took, l)
	if failed := l.failed.Load(); failed > l.ok.Load()/10 {
		t.Errorf("more than a tenth of the calls failed: %v", l)
	}
	if slowest := time.Duration(l.slowest.Load()); slowest > 2*time.Second {
		t.Errorf("a call took %v", slowest)
	}
}

// The sentinels and the servers that they watch have passwords of their own.
func TestSentinelPasswords(t *testing.T) {
	t.Parallel()
	fleet, err := servers.StartSentinel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	guides := fleet.Sentinels[:1] // others are found
	for _, r := range guides {
		if _, err := r.Do("ACL", "SETUSER", "default", "resetpass", ">guide-s3cret"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fleet.Master.Do("ACL", "SETUSER", "app", "on", ">app-s3cret", "~rl:*", "+@all"); err != nil {
		t.Fatal(err)
	}
	app, guide := secretFile(t, "app-s3cret"), secretFile(t, "guide-s3cret")
	url := "redis+sentinel://main@" + guides[0].Addr + "?user=app&password_file=" + app
	s := open(t, url+"&sentinel_password_file="+guide, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	wrong := open(t, url+"&sentinel_password_file="+app, OpenOptions{})
	eventually(t, 5*time.Second, func() error {
		if err := take(wrong, "key"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "s3cret") {
			return fmt.Errorf("a wrong password for the sentinel: %w", err)
		}
		return nil
	})
}

func secretFile(t *testing.T, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func startCluster(t *testing.T) *servers.Cluster {
	t.Helper()
	fleet, err := servers.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	return fleet
}

func TestCluster(t *testing.T) {
	t.Parallel()
	fleet := startCluster(t)
	var log told
	s := open(t, fleet.URL(), OpenOptions{Connected: log.connected, Lost: log.lost})
	eventually(t, 5*time.Second, func() error { return takeAll(s) })
	t.Run("slots as the server computes them", func(t *testing.T) { slotsAgree(t, fleet, s) })
	t.Run("several slots are an error", func(t *testing.T) { severalSlots(t, s) })
	t.Run("a probe of each master", func(t *testing.T) {
		reports, err := s.Probe(t.Context())
		if err != nil || len(reports) != 3 {
			t.Fatalf("Probe = %+v, %v, want 3 reports", reports, err)
		}
		for _, r := range reports {
			if !r.TimeInScripts || !r.Scripts || r.Version == "" || r.RoundTrip == 0 || r.Eviction != "noeviction" {
				t.Errorf("report %+v", r)
			}
		}
	})
	t.Run("a moved slot costs a redirect", func(t *testing.T) { movedSlotCostsARedirect(t, fleet, s) })
	t.Run("a slot moves", func(t *testing.T) { slotMoves(t, fleet, s) })
	t.Run("a master hands over", func(t *testing.T) { masterHandsOver(t, fleet, s) })
	t.Run("a master dies", func(t *testing.T) { masterDies(t, fleet, s) })
	t.Log(log.String())
	t.Run("no connection is left", func(t *testing.T) { nothingLeft(t, fleet, s) })
}

func nothingLeft(t *testing.T, fleet *servers.Cluster, s *Store) {
	s.Close()
	for _, r := range fleet.Nodes {
		if r.PID() == 0 {
			continue
		}
		eventually(t, time.Second, func() error {
			list, err := r.Do("CLIENT", "LIST")
			if err == nil && strings.Contains(list, "name=sluice") {
				err = fmt.Errorf("a connection is left: %s", list)
			}
			return err
		})
	}
}

func slotsAgree(t *testing.T, fleet *servers.Cluster, s *Store) {
	for _, c := range []sluice.Charge{
		{Key: "plain", Limit: perHour},
		{Key: "", Limit: perHour},
		{Key: "a{b}c", Limit: perHour},
		{Key: "a{}c", Limit: perHour},
		{Key: "a{}{c}", Limit: perHour},
		{Key: "a{c", Limit: perHour},
		{Key: "x", Tag: "tenant", Limit: perHour},
		{Key: "x", Tag: "te}n%an{t", Limit: perHour},
		{Key: "x", Limit: sluice.Limit{Tokens: 1, Per: time.Minute, Algorithm: sluice.SlidingLog}},
		{Key: "x", Limit: sluice.Limit{Tokens: 1, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarDay, Zone: "America/Argentina/Buenos_Aires"}}},
	} {
		text, err := fleet.Nodes[0].Do("CLUSTER", "KEYSLOT", string(appendKey(nil, s.prefix, &c)))
		if err != nil {
			t.Fatal(err)
		}
		place := s.Locate(&c)
		if fmt.Sprint(place.Slot) != text {
			t.Errorf("Locate(%+v) = slot %d, the server says %s", c, place.Slot, text)
		}
		if owner, err := fleet.Owner(place.Slot); err != nil || owner.Addr != place.Node {
			t.Errorf("Locate(%+v) = node %s, want %v, %v", c, place.Node, owner, err)
		}
	}
}

func severalSlots(t *testing.T, s *Store) {
	a, b := sluice.Charge{Key: "a", Limit: perHour, N: 1}, sluice.Charge{Key: "b", Limit: perHour, N: 1}
	if _, err := s.Take(t.Context(), nil, []sluice.Charge{a, b}); !errors.Is(err, ErrSlots) {
		t.Errorf("Take of two slots = %v, want ErrSlots", err)
	}
	err := s.Settle(t.Context(), []sluice.Settlement{{Charge: a}, {Charge: b}})
	if !errors.Is(err, ErrSlots) {
		t.Errorf("Settle of two slots = %v, want ErrSlots", err)
	}
	if err := s.Forget(t.Context(), []sluice.Charge{a, b}); err != nil {
		t.Errorf("Forget of two slots = %v, want none", err)
	}
	a.Tag, b.Tag = "same", "same"
	if _, err := s.Take(t.Context(), nil, []sluice.Charge{a, b}); err != nil {
		t.Errorf("Take of two keys with one tag = %v", err)
	}
}

func slotMoves(t *testing.T, fleet *servers.Cluster, s *Store) {
	tagged := func(i int) []sluice.Charge {
		return []sluice.Charge{
			{Key: fmt.Sprint("key", i%50), Tag: "moves", Limit: perHour, N: 1},
			{Key: fmt.Sprint("other", i%50), Tag: "moves", Limit: perHour, N: 1, Group: 1},
		}
	}
	slot := s.Locate(&tagged(0)[0]).Slot
	l := startLoad(s, 4, tagged)
	for round := range 4 {
		eventually(t, time.Second, func() error {
			if l.ok.Load() < int64(100*(round+1)) {
				return errors.New("too few calls")
			}
			return nil
		})
		if err := fleet.Migrate(slot, fleet.Nodes[round%3]); err != nil {
			t.Fatal(err)
		}
	}
	want := fleet.Nodes[0].Addr
	eventually(t, 3*time.Second, func() error {
		if got := s.Locate(&tagged(0)[0]).Node; got != want {
			return fmt.Errorf("Locate = %s, want %s", got, want)
		}
		return nil
	})
	before := l.failed.Load()
	took := l.ok.Load()
	eventually(t, time.Second, func() error {
		if l.ok.Load() < took+200 {
			return errors.New("too few calls")
		}
		return nil
	})
	l.end()
	t.Log(l)
	if l.failed.Load() > before {
		t.Errorf("calls fail after a slot has moved: %v", l)
	}
	if before > l.ok.Load()/10 {
		t.Errorf("more than a tenth of the calls failed: %v", l)
	}
}

func masterHandsOver(t *testing.T, fleet *servers.Cluster, s *Store) {
	l := startLoad(s, 4, manyKeys)
	if answer, err := fleet.Nodes[5].Do("CLUSTER", "FAILOVER"); err != nil || answer != "OK" {
		t.Fatal(answer, err)
	}
	took := eventually(t, 10*time.Second, func() error {
		owner, err := fleet.Owner(16383)
		if err == nil && owner != fleet.Nodes[5] {
			err = errors.New("the master has not handed over")
		}
		return err
	})
	back := eventually(t, 3*time.Second, func() error { return takeAll(s) })
	l.end()
	t.Logf("handed over after %v, all decisions %v later; %v", took, back, l)
}

func masterDies(t *testing.T, fleet *servers.Cluster, s *Store) {
	l := startLoad(s, 4, manyKeys)
	fleet.Nodes[1].Kill()
	promoted := eventually(t, 15*time.Second, func() error {
		owner, err := fleet.Owner(8191)
		if err == nil && owner != fleet.Nodes[4] {
			err = errors.New("the replica is not promoted")
		}
		return err
	})
	back := eventually(t, 4*time.Second, func() error { return takeAll(s) })
	l.end()
	t.Logf("promoted after %v, all decisions %v later; %v", promoted, back, l)
	if slowest := time.Duration(l.slowest.Load()); slowest > 2*time.Second {
		t.Errorf("a call took %v", slowest)
	}
}
