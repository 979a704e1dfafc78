package memory

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// A shard holds the counters of a part of the keys.
type shard struct {
	table atomic.Pointer[table] // replaced under mu
	_     [56]byte              // readers of table do not share a cache line with mu

	mu      sync.Mutex
	buckets int // in table
	hand    int // the next slot to look at
	windows windows
	evicted atomic.Int64 // changed under mu
	_       [56]byte
}

const (
	// sweepSlots is how many slots, and how many windows, each new key looks
	// at for others to remove: more than one, or the hand would follow the new
	// keys and never come round.
	sweepSlots = 4
	// sweepGrace is how long, in ticks, a key must have been full before it is
	// swept: two seconds, so that a clock set back a little finds it still.
	sweepGrace = 2_000_000 * 16
	// evictLook is how many buckets, and how many windows, are looked at for
	// the one nearest to full.
	evictLook = 64
)

// insertBucket adds a key's bucket. The shard's mu must be held.
func (s *Store) insertBucket(sh *shard, hash uint64, key string, state, now int64) {
	s.reserve(sh, now)
	t := sh.table.Load()
	if (sh.buckets+1)*3 > len(t.slots)*2 {
		t = t.resized(len(t.slots) * 2)
		sh.table.Store(t)
	}
	t.put(newBucket(hash, key, state))
	sh.buckets++
}

// insertWindow adds a window. The shard's mu must be held.
func (s *Store) insertWindow(sh *shard, key string, kind sluice.Kind, state sluice.State, full, now int64) {
	s.reserve(sh, now)
	sh.windows.add(&window{name: name{strings.Clone(key), kind}, state: state, full: full})
}

// reserve sweeps a little and makes place for one more key. Where all shards
// together are at the bound and this one holds nothing that could go, the key
// comes on top: random hashes keep shards of that size from ever being empty.
func (s *Store) reserve(sh *shard, now int64) {
	s.sweep(sh, now)
	for {
		n := s.keys.Load()
		if n >= s.max && s.evict(sh, now) {
			continue
		}
		if s.keys.CompareAndSwap(n, n+1) {
			return
		}
	}
}

// sweep removes a few keys that have been full for a while.
func (s *Store) sweep(sh *shard, now int64) {
	t := sh.table.Load()
	for range sweepSlots {
		b := t.slots[sh.hand&(len(t.slots)-1)].Load()
		sh.hand++
		if b == nil {
			continue
		}
		if word := b.word.Load(); word&lockBit == 0 && word>>1 < now-sweepGrace && b.word.CompareAndSwap(word, dead) {
			s.removeBucket(sh, b)
		}
	}
	for range min(sweepSlots, len(sh.windows.ring)) {
		if w := sh.windows.next(); w != nil && w.full < now-sweepGrace {
			s.removeWindow(sh, w)
		}
	}
	if len(t.slots) > minSlots && sh.buckets*8 < len(t.slots) {
		sh.table.Store(t.resized(len(t.slots) / 2))
	}
}

// evict removes the key nearest to full of those it looks at; false if the
// shard is empty.
func (s *Store) evict(sh *shard, now int64) bool {
	for sh.buckets+len(sh.windows.ring) > 0 {
		b, word := sh.nearestBucket(now)
		w := sh.windows.nearest(now)
		switch {
		case w != nil && (b == nil || w.full < word>>1):
			sh.countEviction(w.full, now)
			s.removeWindow(sh, w)
			return true
		case b != nil && b.word.CompareAndSwap(word, dead):
			sh.countEviction(word>>1, now)
			s.removeBucket(sh, b)
			return true
		case b == nil:
			runtime.Gosched() // calls hold the locks of all of them
		}
	}
	return false
}

func (sh *shard) countEviction(full, now int64) {
	if full > now {
		sh.evicted.Add(1)
	}
}

// nearestBucket looks at buckets from the hand on: at evictLook of them, fewer
// where one is full. It passes over those that calls hold.
func (sh *shard) nearestBucket(now int64) (nearest *bucket, word int64) {
	t := sh.table.Load()
	word = math.MaxInt64
	looked := 0
	for range t.slots {
		b := t.slots[sh.hand&(len(t.slots)-1)].Load()
		sh.hand++
		if b == nil {
			continue
		}
		looked++
		if w := b.word.Load(); w&lockBit == 0 && w < word {
			nearest, word = b, w
		}
		if looked >= evictLook && nearest != nil || word>>1 <= now {
			break
		}
	}
	return nearest, word
}

// removeBucket takes a dead bucket out.
func (s *Store) removeBucket(sh *shard, b *bucket) {
	sh.table.Load().remove(b)
	sh.buckets--
	s.keys.Add(-1)
}

func (s *Store) removeWindow(sh *shard, w *window) {
	sh.windows.remove(w)
	s.keys.Add(-1)
}
