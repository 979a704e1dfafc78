package hot

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A Limit tells which keys of one limit were busy lately.
type Limit struct {
	Name   string `json:"limit"`
	Shadow bool   `json:"shadow,omitempty"` // it never refuses: refused is what it would have
	// Window is how many milliseconds the counts look back: up to a minute.
	Window int64 `json:"window_ms"`
	// Every says that one request in this many was counted to stand for all.
	Every uint32 `json:"counted_every"`
	// Busiest are the keys with the most requests, the most first.
	Busiest []Key `json:"busiest"`
	// Refused are the keys with the most refusals, the most first.
	Refused []Key `json:"most_refused"`
}

// A Key is one key and what it did. Key is the text under which its counter is
// kept, of which long ones are cut: it holds no secrets, and nothing that spoils a
// terminal.
type Key struct {
	Key      string `json:"key"`
	Requests uint64 `json:"requests"` // in the window
	Refused  uint64 `json:"refused"`
	// Rate and RefusedRate are the requests and refusals of the last whole
	// second.
	Rate        uint64 `json:"requests_per_s"`
	RefusedRate uint64 `json:"refused_per_s"`
	// Sources is who answered: store, denied, lease, fallback.
	Sources map[string]uint64 `json:"sources"`
}

// tell describes a sketch by its n first keys.
func (s *sketch) tell(now time.Duration, n int) Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(now)
	return Limit{
		Window:  (s.before + now - s.began).Milliseconds(),
		Every:   s.every.Load(),
		Busiest: s.top(s.busy, n, func(c *counts) uint64 { return c.requests }),
		Refused: s.top(s.refused, n, func(c *counts) uint64 { return c.refused }),
	}
}

// A row is a key and what it did in both generations.
type row struct {
	e     *entry
	total counts
}

// top returns the n keys of which the most was seen. What a key took over from
// another one's weight was perhaps not its own, and does not count.
func (s *sketch) top(of [2]*summary, n int, by func(*counts) uint64) []Key {
	rows := make([]row, 0, len(of[0].entries)+len(of[1].entries))
	for generation, summary := range of {
		for i := range summary.entries {
			e := &summary.entries[i]
			if generation == 0 || of[0].find(e.hash) == nil {
				rows = append(rows, row{e, s.total(of, e.hash)})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(by(&b.total), by(&a.total)), slices.Compare(a.e.key, b.e.key))
	})
	keys := make([]Key, 0, min(n, len(rows)))
	for _, r := range rows[:min(n, len(rows))] {
		// A key that was first refused later is known better from all its
		// requests.
		if all := s.total(s.busy, r.e.hash); all.requests > r.total.requests && all.refused >= r.total.refused {
			r.total = all
		}
		keys = append(keys, r.total.key(r.e))
	}
	return keys
}

// total sums what a key did in both generations. Its past is then the last whole
// second.
func (s *sketch) total(of [2]*summary, hash uint64) (total counts) {
	for _, summary := range of {
		e := summary.find(hash)
		if e == nil {
			continue
		}
		total.requests += e.requests
		total.refused += e.refused
		for i, n := range e.sources {
			total.sources[i] += n
		}
		past := e.before(s.second)
		total.past.requests += past.requests
		total.past.refused += past.refused
	}
	return total
}

func (c *counts) key(e *entry) Key {
	k := Key{
		Key:      string(e.key),
		Requests: c.requests, Refused: c.refused,
		Rate: c.past.requests, RefusedRate: c.past.refused,
		Sources: make(map[string]uint64),
	}
	if len(e.key) == maxKey {
		k.Key = strings.ToValidUTF8(k.Key, "") + "..."
	}
	for i, n := range c.sources {
		if n > 0 {
			k.Sources[sourceName(i)] = n
		}
	}
	return k
}

func sourceName(i int) string {
	if i == sources-1 {
		return "other"
	}
	return sluice.Source(i).String()
}
