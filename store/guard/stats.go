package guard

import (
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

const modes = 3

type counts struct {
	fallbacks [modes]atomic.Int64
	settled   atomic.Int64
	lost      atomic.Int64
	forgotten atomic.Int64
}

// Stats says how a store stands. Counts are since New.
type Stats struct {
	// Nodes has each node met so far, by name; a store in one place has one
	// node, of no name.
	Nodes []NodeStats
	// Fallbacks counts the charges answered here, by failure mode.
	Fallbacks [modes]int64
	// Live is the instances among which limits are divided; Known says whether
	// they were counted by heartbeats or are the configured number.
	Live  int
	Known bool
	// Pending is the counters with grants to be settled; Settled and Lost
	// count those that were, and whose settlement failed.
	Pending, Settled, Lost int64
	// Forgotten counts the grants that were not remembered for want of room.
	Forgotten int64
}

// NodeStats says how a node stands.
type NodeStats struct {
	Name string
	// State is the breaker's.
	State State
	// Opened counts the times that the breaker opened, Failed the calls that
	// were not answered in time.
	Opened, Failed int64
	// Pending is the counters of this node with grants to be settled.
	Pending int64
}

// Stats returns the counts of now.
func (s *Store) Stats() Stats {
	f := s.fleet.Load()
	stats := Stats{
		Live:      int(f.live),
		Known:     f.known,
		Pending:   s.ledger.size.Load(),
		Settled:   s.counts.settled.Load(),
		Lost:      s.counts.lost.Load(),
		Forgotten: s.counts.forgotten.Load(),
	}
	for mode := range stats.Fallbacks {
		stats.Fallbacks[mode] = s.counts.fallbacks[mode].Load()
	}
	for _, n := range s.allNodes() {
		stats.Nodes = append(stats.Nodes, NodeStats{
			Name:    n.name,
			State:   n.state(),
			Opened:  n.opened.Load(),
			Failed:  n.failed.Load(),
			Pending: n.pending.Load(),
		})
	}
	return stats
}

var _ [modes]struct{} = [sluice.FailDeny + 1]struct{}{}
