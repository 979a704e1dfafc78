package servers_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

func TestSentinelStarts(t *testing.T) {
	start := time.Now()
	s, err := servers.StartSentinel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Logf("up after %v", time.Since(start))
}

func TestClusterStarts(t *testing.T) {
	start := time.Now()
	c, err := servers.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Logf("up after %v", time.Since(start))
	for slot, want := range map[int]*servers.Redis{0: c.Nodes[0], 16383: c.Nodes[2]} {
		if got, err := c.Owner(slot); err != nil || got != want {
			t.Errorf("Owner(%d) = %v, %v, want %v", slot, got, err, want.Addr)
		}
	}
	if err := c.Migrate(0, c.Nodes[1]); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Owner(0); err != nil || got != c.Nodes[1] {
		t.Errorf("Owner(0) after it was moved = %v, %v", got, err)
	}
}

func TestSecureStarts(t *testing.T) {
	s, err := servers.StartRedisTLS(t.Context(), "--user", "app", "on", ">word", "~*", "+@all", "--tls-auth-clients", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if answer, err := s.Do("ACL", "LIST"); err != nil || !strings.Contains(answer, "user app on") {
		t.Errorf("ACL LIST = %q, %v", answer, err)
	}
}

func TestPostgresStarts(t *testing.T) {
	start := time.Now()
	p, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	t.Logf("up after %v", time.Since(start))
	p.Kill()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.PID() == 0 {
		t.Error("PID = 0 after Restart")
	}
}

// A failover is done over TLS as well: the sentinels reach the servers, the
// replica its master, and the cluster's nodes each other.
func TestSecureFleets(t *testing.T) {
	s, err := servers.StartSentinelTLS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := servers.StartClusterTLS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.Master.Kill()
	c.Nodes[0].Kill()
	for name, replica := range map[string]*servers.Redis{"Sentinel": s.Replica, "Cluster": c.Nodes[3]} {
		if err := replica.Promoted(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range []*servers.Redis{s.Replica, s.Sentinels[0], c.Nodes[1]} {
		if conn, err := net.Dial("tcp", r.Addr); err == nil {
			// What is no greeting of TLS ends the connection.
			conn.SetDeadline(time.Now().Add(5 * time.Second))
			conn.Write([]byte("PING\r\n"))
			if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "PONG") {
				t.Errorf("%s answers without TLS", r.Addr)
			}
			conn.Close()
		}
	}
	if err := c.Migrate(16383, c.Nodes[1]); err != nil {
		t.Fatal(err)
	}
}
