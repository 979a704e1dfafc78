package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
)

// A topology says which nodes there are and which slots they answer for. It is
// not changed once it is in place; its nodes are.
type topology struct {
	only  *node            // of a single server or Sentinel; else nil
	nodes map[string]*node // of a cluster, by address
	spans []span           // of a cluster, by slot
	slots *[slotCount]*node
}

// A span is a range of slots with one owner.
type span struct {
	first, last int
	owner       string
}

// name returns what the target is called as a whole.
func (t *target) name() string {
	switch t.mode {
	case rueidis.ClientModeSentinel:
		return t.master
	case rueidis.ClientModeCluster:
		return "cluster"
	}
	return t.addrs[0]
}

func (l *link) firstTopology() *topology {
	if l.target.mode == rueidis.ClientModeCluster {
		return &topology{nodes: map[string]*node{}, slots: new([slotCount]*node)}
	}
	return &topology{only: &node{name: l.target.name()}}
}

// owners returns the nodes that decide.
func (t *topology) owners() []*node {
	if t.only != nil {
		return []*node{t.only}
	}
	var list []*node
	for _, s := range t.spans {
		if n := t.nodes[s.owner]; n != nil && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// node returns the one that answers for a command's slot; nil if that is not
// known.
func (s *session) node(slot uint16) *node {
	t := s.topology.Load()
	if t.only != nil {
		return t.only
	}
	if slot < slotCount {
		return t.slots[slot]
	}
	return nil
}

// at returns the node of an address; nil if none is known.
func (s *session) at(addr string) *node {
	t := s.topology.Load()
	if t.only != nil {
		return t.only
	}
	return t.nodes[addr]
}

// Locate implements [sluice.Locator]. On one server or behind Sentinel all keys
// are in one place, named by the address or the master's name. On a cluster it
// is the key's slot, on the master that owned it when the store last looked, and
// the store looks twice a second and whenever a call fails. Of a client given to
// [New] only the slots are known.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if !s.cluster {
		return sluice.Place{Node: s.node}
	}
	slot := slotOf(s.prefix, c)
	if s.link != nil {
		if session := s.link.session.Load(); session != nil {
			if n := session.topology.Load().slots[slot]; n != nil {
				return sluice.Place{Slot: slot, Node: n.name}
			}
		}
	}
	return sluice.Place{Slot: slot, Node: s.node}
}

// ErrSlots reports a call whose keys are in several slots of a cluster; it was
// not sent. The store split takes such calls apart.
var ErrSlots = fmt.Errorf("%w: the call's keys are in several slots", sluice.ErrCharge)

// oneSlot checks a call's keys before they meet the client, which panics over
// keys of several slots.
func (s *Store) oneSlot(count int, charge func(int) *sluice.Charge) error {
	if !s.cluster || count < 2 {
		return nil
	}
	first := slotOf(s.prefix, charge(0))
	for i := 1; i < count; i++ {
		if slot := slotOf(s.prefix, charge(i)); slot != first {
			return fmt.Errorf("%w: %d and %d", ErrSlots, first, slot)
		}
	}
	return nil
}

// checkCluster notes which nodes of a cluster are there and who answers for
// which slots.
func (k *keeper) checkCluster(s *session, clients map[string]rueidis.Client, answers map[string]error) bool {
	old := s.topology.Load()
	spans, found := k.spans(clients, answers)
	if !found {
		spans = old.spans
	}
	next := old
	if !slices.Equal(spans, old.spans) || len(answers) != len(old.nodes) || !known(old, answers) {
		next = newTopology(old, spans, answers)
	}
	for addr, err := range answers {
		k.mark(next.nodes[addr], err)
	}
	if next != old {
		k.follow(old, next)
		s.topology.Store(next)
	}
	return found && covered(spans, answers)
}

func known(t *topology, answers map[string]error) bool {
	for addr := range answers {
		if t.nodes[addr] == nil {
			return false
		}
	}
	return true
}

// follow lets the client be made anew after a failover, since it learns of one
// late.
func (k *keeper) follow(old, next *topology) {
	for slot, n := range old.slots {
		if n != nil && n.err.Load() != nil && next.slots[slot] != n {
			k.stale.Store(true)
			return
		}
	}
}

func newTopology(old *topology, spans []span, answers map[string]error) *topology {
	t := &topology{nodes: make(map[string]*node, len(answers)), spans: spans, slots: new([slotCount]*node)}
	for addr := range answers {
		t.nodes[addr] = old.node(addr)
	}
	for _, s := range spans {
		if t.nodes[s.owner] == nil {
			t.nodes[s.owner] = old.node(s.owner)
		}
		for slot := s.first; slot <= s.last; slot++ {
			t.slots[slot] = t.nodes[s.owner]
		}
	}
	return t
}

func (t *topology) node(addr string) *node {
	if n := t.nodes[addr]; n != nil {
		return n
	}
	return &node{name: addr}
}

// spans asks up to three nodes that are there for the cluster's slots, until one
// names owners that are all there.
func (k *keeper) spans(clients map[string]rueidis.Client, answers map[string]error) (best []span, found bool) {
	asked := 0
	for addr, client := range clients {
		if answers[addr] != nil || asked == 3 {
			continue
		}
		asked++
		spans, err := k.ask(client, addr)
		if err != nil {
			continue
		}
		if covered(spans, answers) {
			return spans, true
		}
		best, found = spans, true
	}
	return best, found
}

// covered says whether every slot has an owner that is there.
func covered(spans []span, answers map[string]error) bool {
	next := 0
	for _, s := range spans {
		if err, asked := answers[s.owner]; s.first != next || asked && err != nil {
			return false
		}
		next = s.last + 1
	}
	return next == slotCount
}

var errAnswer = errors.New("redis: the answer to CLUSTER SLOTS makes no sense")

// ask reads one node's view of the slots, in order.
func (k *keeper) ask(client rueidis.Client, addr string) ([]span, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.o.Timeout)
	defer cancel()
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	spans := make([]span, 0, len(rows))
	for _, row := range rows {
		s, err := readSpan(row, addr)
		if err != nil {
			return nil, err
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first - b.first })
	return spans, nil
}

// readSpan reads a row of CLUSTER SLOTS: first slot, last slot, the owner's host
// and port, replicas. A node that does not know its own host leaves it empty.
func readSpan(row rueidis.RedisMessage, asked string) (span, error) {
	fields, err := row.ToArray()
	if err != nil || len(fields) < 3 {
		return span{}, errAnswer
	}
	first, err1 := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	owner, err3 := fields[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil || len(owner) < 2 || first < 0 || last < first || last >= slotCount {
		return span{}, errAnswer
	}
	host, _ := owner[0].ToString()
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	port, err := owner[1].AsInt64()
	if err != nil {
		return span{}, errAnswer
	}
	return span{int(first), int(last), net.JoinHostPort(host, strconv.FormatInt(port, 10))}, nil
}
