package server

import (
	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/store/guard"
)

// layers tells the metrics how to read the stack.
func (s *Stack) layers() metrics.Layers {
	return metrics.Layers{
		Breakers:    s.breakers,
		Fallbacks:   s.fallbacks,
		Instances:   func() int { return s.guard.Stats().Live },
		Settlements: s.settlements,
		Lease:       s.leaseStats,
		Memory:      s.memoryStats,
		Coalesce:    s.coalesceStats,
	}
}

func (s *Stack) memoryStats() metrics.Memory {
	stats := s.memory.Stats()
	return metrics.Memory{Keys: stats.Keys, Evicted: stats.Evicted}
}

func (s *Stack) breakers() []metrics.Breaker {
	var breakers []metrics.Breaker
	for _, n := range s.guard.Stats().Nodes {
		b := metrics.Breaker{Node: n.Name, Opens: n.Opened}
		switch n.State {
		case guard.Open:
			b.State = metrics.BreakerOpen
		case guard.HalfOpen:
			b.State = metrics.BreakerHalfOpen
		}
		breakers = append(breakers, b)
	}
	return breakers
}

func (s *Stack) fallbacks() metrics.Fallbacks {
	counts := s.guard.Stats().Fallbacks
	return metrics.Fallbacks{
		Local: counts[sluice.FailLocal],
		Allow: counts[sluice.FailAllow],
		Deny:  counts[sluice.FailDeny],
	}
}

func (s *Stack) settlements() metrics.Settlements {
	stats := s.guard.Stats()
	return metrics.Settlements{Settled: stats.Settled, Lost: stats.Lost}
}

func (s *Stack) coalesceStats() metrics.Coalesce {
	stats := s.coalesce.Stats()
	return metrics.Coalesce{Calls: stats.Calls, Charges: stats.Charges}
}

func (s *Stack) leaseStats() metrics.Lease {
	stats := s.lease.Stats()
	return metrics.Lease{
		Claims: stats.Claims, Claimed: stats.Claimed, Spent: stats.Spent,
		Returned: stats.Returned, Lost: stats.Lost, Held: stats.Held, Active: stats.Active,
	}
}
