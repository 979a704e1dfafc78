package servers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// slots is how many slots a cluster has.
const slots = 16384

// A Cluster is three masters, each with a replica.
type Cluster struct {
	// Nodes holds the masters, then the replicas in the masters' order, as they
	// were at the start.
	Nodes []*Redis
	// Authority signed the servers' certificates; nil: they do not speak TLS.
	Authority *Authority
}

// StartCluster starts a cluster that takes half a second of silence for a
// node's end.
func StartCluster(ctx context.Context) (*Cluster, error) { return new(Cluster).begin(ctx) }

// StartClusterTLS does the same with servers that speak TLS only, also with each
// other.
func StartClusterTLS(ctx context.Context) (*Cluster, error) {
	a, err := tempAuthority()
	if err != nil {
		return nil, err
	}
	return (&Cluster{Authority: a}).begin(ctx)
}

func (c *Cluster) begin(ctx context.Context) (*Cluster, error) {
	c.Nodes = make([]*Redis, 6)
	if err := c.start(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.each(func(i int) (err error) {
		c.Nodes[i], err = c.startNode(ctx)
		return err
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for i, r := range c.Nodes {
		if err := expectOK(r, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < 3 {
			from, to := strconv.Itoa(i*slots/3), strconv.Itoa((i+1)*slots/3-1)
			if err := expectOK(r, "CLUSTER", "ADDSLOTSRANGE", from, to); err != nil {
				return err
			}
		}
		if i > 0 {
			if err := c.meet(c.Nodes[0], r); err != nil {
				return err
			}
		}
	}
	for i, r := range c.Nodes[3:] {
		id, err := c.Nodes[i].Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if err := poll(ctx, func() error { return expectOK(r, "CLUSTER", "REPLICATE", id) }); err != nil {
			return err
		}
	}
	return poll(ctx, c.complete)
}

// startNode starts a node on free ports of its own, also for the bus.
func (c *Cluster) startNode(ctx context.Context) (*Redis, error) {
	bus, err := FreePort()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
		"--cluster-node-timeout", "500", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no",
	}
	if c.Authority != nil {
		args = append(args, "--tls-cluster", "yes")
	}
	return startNode(ctx, c.Authority, args...)
}

// meet makes two nodes know each other.
func (c *Cluster) meet(a, b *Redis) error {
	bus, err := b.Do("CONFIG", "GET", "cluster-port")
	if err != nil {
		return err
	}
	_, bus, _ = strings.Cut(bus, "\n")
	return expectOK(a, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(b.Port()), bus)
}

// complete says whether every node takes the cluster for whole and every
// replica is in step.
func (c *Cluster) complete() error {
	for i, r := range c.Nodes {
		info, err := r.Do("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", "cluster_known_nodes:6", "cluster_size:3"} {
			if !strings.Contains(info, want) {
				return errors.New("a node does not know the whole cluster yet")
			}
		}
		nodes, err := r.Do("CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if strings.Count(nodes, "slave") != 3 {
			return errors.New("a node does not know all replicas yet")
		}
		if i >= 3 {
			if err := inStep(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// each does something for all nodes at once.
func (c *Cluster) each(do func(i int) error) error {
	errs := make([]error, len(c.Nodes))
	var wait sync.WaitGroup
	for i := range c.Nodes {
		wait.Go(func() { errs[i] = do(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Slot returns the slot of a key, as the server computes it.
func (r *Redis) Slot(key string) (int, error) {
	answer, err := r.Do("CLUSTER", "KEYSLOT", key)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}

// Owner returns the master that answers for a slot, as the first node that runs
// sees it.
func (c *Cluster) Owner(slot int) (*Redis, error) {
	for _, r := range c.Nodes {
		if r.PID() == 0 {
			continue
		}
		text, err := r.Do("CLUSTER", "NODES")
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if owner := c.owns(line, slot); owner != nil {
				return owner, nil
			}
		}
	}
	return nil, fmt.Errorf("nobody answers for slot %d", slot)
}

// owns returns the master of a line of CLUSTER NODES if it has the slot.
func (c *Cluster) owns(line string, slot int) *Redis {
	fields := strings.Fields(line)
	if len(fields) < 9 || !strings.Contains(fields[2], "master") || strings.Contains(fields[2], "fail") {
		return nil
	}
	for _, span := range fields[8:] {
		first, last, found := strings.Cut(span, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || slot < from || slot > to {
			continue
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		for _, r := range c.Nodes {
			if r.Addr == addr {
				return r
			}
		}
	}
	return nil
}

// Migrate moves a slot with its keys from its master to another, as an
// operator's tool does.
func (c *Cluster) Migrate(slot int, to *Redis) error {
	from, err := c.Owner(slot)
	if err != nil || from == to {
		return err
	}
	number := strconv.Itoa(slot)
	fromID, err := from.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	toID, err := to.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	if err := expectOK(to, "CLUSTER", "SETSLOT", number, "IMPORTING", fromID); err != nil {
		return err
	}
	if err := expectOK(from, "CLUSTER", "SETSLOT", number, "MIGRATING", toID); err != nil {
		return err
	}
	if err := moveKeys(number, from, to); err != nil {
		return err
	}
	for _, r := range append([]*Redis{to, from}, c.Nodes...) {
		err := expectOK(r, "CLUSTER", "SETSLOT", number, "NODE", toID)
		if err != nil && (r == to || r == from) {
			return err // the others hear of it anyway, if later
		}
	}
	return nil
}

func moveKeys(slot string, from, to *Redis) error {
	for {
		keys, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100")
		if err != nil || keys == "" {
			return err
		}
		for key := range strings.SplitSeq(keys, "\n") {
			answer, err := from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key, "0", "1000")
			if err != nil {
				return err
			}
			if answer != "OK" && answer != "NOKEY" {
				return errors.New(answer)
			}
		}
	}
}

func expectOK(r *Redis, words ...string) error {
	answer, err := r.Do(words...)
	if err == nil && answer != "OK" {
		err = fmt.Errorf("%s: %s", strings.Join(words, " "), answer)
	}
	return err
}

// URL names the nodes as the store's option does.
func (c *Cluster) URL() string { return c.Authority.url("+cluster://" + addresses(c.Nodes)) }

// Close ends all servers.
func (c *Cluster) Close() {
	for _, r := range c.Nodes {
		if r != nil {
			r.Close()
		}
	}
	c.Authority.close()
}
