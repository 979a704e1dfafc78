package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Sentinel is a master with a replica, watched by three sentinels.
type Sentinel struct {
	// Name is the master's name.
	Name string
	// Master and Replica are the servers as they were at the start.
	Master, Replica *Redis
	// Sentinels agree by two when the master is down.
	Sentinels []*Redis
	// Authority signed the servers' certificates; nil: they do not speak TLS.
	Authority *Authority
}

// StartSentinel starts a master with a replica and three sentinels, which take
// half a second of silence for the master's end.
func StartSentinel(ctx context.Context) (*Sentinel, error) {
	return (&Sentinel{Name: "main"}).begin(ctx)
}

// StartSentinelTLS does the same with servers and sentinels that speak TLS only.
func StartSentinelTLS(ctx context.Context) (*Sentinel, error) {
	a, err := tempAuthority()
	if err != nil {
		return nil, err
	}
	return (&Sentinel{Name: "main", Authority: a}).begin(ctx)
}

func (s *Sentinel) begin(ctx context.Context) (*Sentinel, error) {
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if s.Master, err = startNode(ctx, s.Authority, "--repl-diskless-sync-delay", "0"); err != nil {
		return err
	}
	if s.Replica, err = startNode(ctx, s.Authority, "--replicaof", "127.0.0.1", strconv.Itoa(s.Master.Port())); err != nil {
		return err
	}
	// A sentinel looks for replicas when it starts, and then rarely.
	if err := poll(ctx, func() error { return inStep(s.Replica) }); err != nil {
		return err
	}
	for range 3 {
		r, err := s.startSentinel(ctx)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, r)
	}
	return poll(ctx, s.complete)
}

// startSentinel starts one sentinel, whose configuration must be a file.
func (s *Sentinel) startSentinel(ctx context.Context) (*Redis, error) {
	r, err := newRedis(nil)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.Dir, "sentinel.conf")
	text := s.ports(r) + fmt.Sprintf(`bind 127.0.0.1
dir %s
sentinel monitor %[2]s 127.0.0.1 %[3]d 2
sentinel down-after-milliseconds %[2]s 500
sentinel failover-timeout %[2]s 3000
sentinel parallel-syncs %[2]s 1
`, r.Dir, s.Name, s.Master.Port())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Close()
		return nil, err
	}
	r.args = []string{file, "--sentinel"}
	return r, r.begin(ctx)
}

// ports returns the lines of a sentinel's configuration that say how it speaks.
func (s *Sentinel) ports(r *Redis) string {
	if s.Authority == nil {
		return fmt.Sprintf("port %d\n", r.Port())
	}
	r.tls = s.Authority.client
	var b strings.Builder
	fmt.Fprintf(&b, "port 0\ntls-port %d\ntls-auth-clients no\ntls-replication yes\n", r.Port())
	for name, file := range s.Authority.files() {
		fmt.Fprintf(&b, "%s %s\n", name, file)
	}
	return b.String()
}

// complete says whether every sentinel knows the replica, which is in step, and
// the other sentinels.
func (s *Sentinel) complete() error {
	for _, r := range s.Sentinels {
		answer, err := r.Do("SENTINEL", "MASTER", s.Name)
		if err != nil {
			return err
		}
		for _, want := range []string{"num-slaves\n1", "num-other-sentinels\n2"} {
			if !strings.Contains(answer, want) {
				return errors.New("a sentinel does not know the others yet")
			}
		}
	}
	return inStep(s.Replica)
}

// Promoted waits until a sentinel names the former replica as the master, at most
// fifteen seconds. Sentinels notice up to a second late that it has become one,
// and nobody may take it for the master before.
func (s *Sentinel) Promoted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	want := fmt.Sprintf("127.0.0.1\n%d", s.Replica.Port())
	return poll(ctx, func() error {
		for _, r := range s.Sentinels {
			if answer, err := r.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name); err == nil && answer == want {
				return nil
			}
		}
		return errors.New("no sentinel names another master")
	})
}

// inStep says whether a replica has its master's data.
func inStep(r *Redis) error {
	answer, err := r.Do("INFO", "replication")
	if err == nil && !strings.Contains(answer, "master_link_status:up") {
		err = errors.New("the replica is not in step yet")
	}
	return err
}

// URL names the sentinels as the store's option does.
func (s *Sentinel) URL() string {
	return s.Authority.url("+sentinel://" + s.Name + "@" + addresses(s.Sentinels))
}

func addresses(servers []*Redis) string {
	list := make([]string, len(servers))
	for i, r := range servers {
		list[i] = r.Addr
	}
	return strings.Join(list, ",")
}

// Close ends all servers.
func (s *Sentinel) Close() {
	for _, r := range append(s.Sentinels, s.Master, s.Replica) {
		if r != nil {
			r.Close()
		}
	}
	s.Authority.close()
}
