package guard

import (
	"maps"
	"slices"
	"time"
)

// A roster remembers the instances that heartbeats told of. What one heartbeat
// does not list may only not have been heard yet: after a start, after an outage
// longer than a time to live, after a restart of the store with empty data. To
// forget an instance too early would divide the limits by too few, so it counts
// until it has not been listed for a time to live of heartbeats that were read.
type roster struct {
	id         string
	configured int           // instances at least, until the first time to live has passed
	ttl        time.Duration // of a heartbeat
	seen       map[string]time.Time
	steady     time.Time // heartbeats have been read without a failure since; zero: the last failed
	trusted    bool      // a time to live has passed once
}

func newRoster(id string, configured int, ttl time.Duration) *roster {
	return &roster{id: id, configured: configured, ttl: ttl, seen: make(map[string]time.Time)}
}

// fail notes a heartbeat that could not be read.
func (r *roster) fail() { r.steady = time.Time{} }

// note notes the instances that a heartbeat told of, and returns the fleet.
func (r *roster) note(live []string, now time.Time) *fleet {
	if r.steady.IsZero() {
		r.steady = now
	}
	for _, id := range live {
		r.seen[id] = now
	}
	if now.Sub(r.steady) >= r.ttl {
		r.trusted = true
		maps.DeleteFunc(r.seen, func(_ string, at time.Time) bool { return now.Sub(at) >= r.ttl })
	}
	if !r.trusted && len(r.seen) < r.configured {
		return unknownFleet(r.id, r.configured)
	}
	return knownFleet(r.id, slices.Sorted(maps.Keys(r.seen)))
}
