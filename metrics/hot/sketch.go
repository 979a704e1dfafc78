package hot

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

const (
	// maxEntries is how many keys a summary keeps, of which the least frequent
	// are guesses.
	maxEntries = 1024
	// maxKey bounds what is kept and shown of a key, in bytes.
	maxKey = 256
	// generation is half of what a sketch looks back.
	generation = 30 * time.Second
	// enough is about how many requests of a limit are counted in a second; of
	// more a part is drawn that stands for all.
	enough = 20_000
	// sources is the number of sources known, and one for others.
	sources = int(sluice.SourceFallback) + 2
)

// counts are the requests of a key, of which a part may have been drawn to stand
// for all.
type counts struct {
	requests, refused uint64
	sources           [sources]uint64
	second            int64 // since the start, of which present is
	present, past     pair  // past is the second before
}

// A pair is what a key did in one second.
type pair struct{ requests, refused uint64 }

func (c *counts) add(weight uint64, refused bool, source sluice.Source, second int64) {
	c.past, c.present = c.before(second), c.during(second)
	c.second = second
	c.requests += weight
	c.present.requests += weight
	c.sources[min(int(source), sources-1)] += weight
	if refused {
		c.refused += weight
		c.present.refused += weight
	}
}

// during returns what was counted in the present second.
func (c *counts) during(second int64) pair {
	if c.second == second {
		return c.present
	}
	return pair{}
}

// before returns what was counted in the one before the present.
func (c *counts) before(second int64) pair {
	switch c.second {
	case second:
		return c.past
	case second - 1:
		return c.present
	}
	return pair{}
}

// A sketch counts the keys of one limit over the last minute, in two generations
// of half a minute.
type sketch struct {
	every atomic.Uint32 // one request in this many is counted

	mu      sync.Mutex
	busy    [2]*summary // all requests: of this generation, and of the one before
	refused [2]*summary // refused requests
	began   time.Duration
	before  time.Duration // how long the generation before was; 0: there is none
	second  int64
	drawn   uint32 // of this second, since every last changed
	offered uint64 // of this second
}

func newSketch(now time.Duration) *sketch {
	s := &sketch{began: now, second: int64(now / time.Second)}
	for i := range s.busy {
		s.busy[i], s.refused[i] = newSummary(maxEntries), newSummary(maxEntries)
	}
	s.every.Store(1)
	return s
}

// observe counts a request, unless others are being counted or read at this
// moment: nobody waits, and what is lost is lost of all keys alike.
func (s *sketch) observe(seed maphash.Seed, now time.Duration, key string, refused bool, source sluice.Source) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.turn(now)
	hash, second, weight := maphash.String(seed, key), s.second, uint64(s.every.Load())
	s.busy[0].hit(hash, key, weight).add(weight, refused, source, second)
	if refused {
		s.refused[0].hit(hash, key, weight).add(weight, refused, source, second)
	} else if e := s.refused[0].find(hash); e != nil {
		e.add(weight, refused, source, second)
	}
	s.draw(weight)
}

// skip says whether a request is one of those that another stands for.
func (s *sketch) skip() bool {
	every := s.every.Load()
	return every > 1 && rand.Uint32N(every) != 0
}

// draw counts fewer of the rest of a second in which far more come than in the
// one before.
func (s *sketch) draw(weight uint64) {
	s.offered += weight
	if s.drawn++; s.drawn >= 2*enough {
		s.every.Store(2 * s.every.Load())
		s.drawn = 0
	}
}

// turn begins a new second or generation if it is time. mu must be held.
func (s *sketch) turn(now time.Duration) {
	if second := int64(now / time.Second); second > s.second {
		if second != s.second+1 {
			s.offered = 0 // nothing came in the second before
		}
		s.every.Store(uint32(min(1<<20, 1+s.offered/enough)))
		s.second, s.drawn, s.offered = second, 0, 0
	}
	age := now - s.began
	if age < generation {
		return
	}
	s.busy[0], s.busy[1] = s.busy[1], s.busy[0]
	s.refused[0], s.refused[1] = s.refused[1], s.refused[0]
	s.busy[0].reset()
	s.refused[0].reset()
	s.began, s.before = now, age
	if age >= 2*generation { // nobody came for long
		s.busy[1].reset()
		s.refused[1].reset()
		s.before = 0
	}
}
