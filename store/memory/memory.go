// Package memory is the store in this process: the truth for a single process,
// and the counters behind a fallback, a replay or a test.
//
// A token bucket is one integer changed by compare-and-swap: no lock is taken
// and nothing is allocated once its key is known. Calls of several charges, and
// the other algorithms, are as exact; they lock only the keys, or for windows
// and new keys the shards, that they touch.
//
// The number of keys is bounded. Keys that are full again, which is as if they
// were never used, are removed in small steps by the calls that add keys; there
// is no goroutine and no full sweep.
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// DefaultMaxKeys is the bound on keys if [Options] names none.
const DefaultMaxKeys = 1 << 20

// Options configure a [Store]; the zero value is the default.
type Options struct {
	// MaxKeys bounds the counters kept, token buckets and windows together; 0
	// or less means DefaultMaxKeys. A counter is a key with one kind of limit.
	// At the bound a new one takes the place of another: of one that is full
	// if there is one among 64 looked at, which costs nothing; else of the one
	// nearest to full, whose key then has its full capacity again too early.
	// Stats counts those.
	MaxKeys int
	// Now tells the time, from any number of goroutines; replays and
	// simulations set it. Nil means the time since New on the monotonic clock,
	// counted from the wall clock at New: setting the clock changes nothing.
	Now func() time.Time
}

// A Store keeps counters in memory. It implements [sluice.Store],
// [sluice.Forgetter] and [sluice.Settler], and may be used from many
// goroutines. It never blocks on anything but its own short locks, so it does
// not look at contexts. Make one with [New].
type Store struct {
	now    func() time.Time // nil: the monotonic clock
	start  time.Time
	base   int64 // start in ticks
	seed   maphash.Seed
	shards []shard
	shift  int // a hash shifted right by it is the index of its shard
	max    int64
	keys   atomic.Int64
	calls  sync.Pool // of *call
	meters meters
}

// Shards keep locks short and tables small: a table that grows moves at most
// some thousand pointers. Below twice minShardKeys there is one shard, for
// which the bound on keys holds without exception.
const (
	minShardKeys = 4096
	maxShards    = 4096
)

// New returns an empty store.
func New(o Options) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	n := 1
	for n < maxShards && o.MaxKeys/(2*n) >= minShardKeys {
		n *= 2
	}
	start := time.Now()
	s := &Store{
		now:    o.Now,
		start:  start,
		base:   sluice.Ticks(start),
		seed:   maphash.MakeSeed(),
		shards: make([]shard, n),
		shift:  64 - bits.TrailingZeros(uint(n)),
		max:    int64(o.MaxKeys),
	}
	s.calls.New = func() any { return new(call) }
	for i := range s.shards {
		s.shards[i].table.Store(newTable(minSlots))
	}
	return s
}

// clock returns the time in ticks.
func (s *Store) clock() int64 {
	if s.now != nil {
		return s.clockOfCaller()
	}
	// A tick is a sixteenth of a microsecond.
	return s.base + int64(time.Since(s.start))*2/125
}

func (s *Store) clockOfCaller() int64 { return sluice.Ticks(s.now()) }

func (s *Store) shard(hash uint64) *shard {
	return &s.shards[hash>>s.shift]
}

// Take implements [sluice.Store]. Its errors wrap [sluice.ErrCharge] or
// [sluice.ErrCost].
func (s *Store) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if len(charges) == 1 && charges[0].Limit.Algorithm == sluice.TokenBucket && charges[0].N > 0 {
		return s.takeBucket(dst, &charges[0])
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	c := s.begin(charges)
	dst = sluice.Decide(dst, charges, c.meters, c.states, c.now)
	c.end(charges)
	return dst, nil
}

// takeBucket decides the common call: one charge on one token bucket.
func (s *Store) takeBucket(dst []sluice.Decision, c *sluice.Charge) ([]sluice.Decision, error) {
	m := s.meters.find(&c.Limit)
	if m == nil {
		made, err := c.Limit.Meter()
		if err != nil {
			return dst, err
		}
		s.meters.keep(&c.Limit, &made)
		m = &made
	}
	unit := c.N
	if c.Unit != 0 {
		unit = c.Unit
	}
	if unit < 1 || unit > c.N || unit > m.Capacity() || c.N > sluice.MaxTokens {
		return dst, sluice.CheckCharges([]sluice.Charge{*c})
	}
	hash := maphash.String(s.seed, c.Key)
	sh := s.shard(hash)
	for {
		if b := sh.table.Load().find(hash, c.Key); b != nil {
			if word := b.unlocked(); word != dead {
				// The clock is read after the word, or else others could have
				// taken tokens at later times than this call's, and the bucket
				// would seem to be beyond repair.
				next, d := m.Bucket(word>>1, s.clock(), c.N, unit)
				if next<<1 == word || b.word.CompareAndSwap(word, next<<1) {
					return append(dst, d), nil
				}
				continue
			}
		}
		if d, ok := s.takeNew(sh, hash, m, c, unit); ok {
			return append(dst, d), nil
		}
	}
}

// takeNew takes from a bucket that is not there; false if it is.
func (s *Store) takeNew(sh *shard, hash uint64, m *sluice.Meter, c *sluice.Charge, unit int64) (sluice.Decision, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load().find(hash, c.Key) != nil {
		return sluice.Decision{}, false
	}
	now := s.clock()
	state, d := m.Bucket(0, now, c.N, unit)
	s.insertBucket(sh, hash, c.Key, state, now)
	return d, true
}

// Stats says how a store stands.
type Stats struct {
	// Keys is the counters kept.
	Keys int
	// Evicted counts the counters that made place for others, since New,
	// before they were full.
	Evicted int64
}

// Len returns the number of counters kept: of keys, where each is charged with
// one kind of limit.
func (s *Store) Len() int { return int(s.keys.Load()) }

// Stats returns the counts of now.
func (s *Store) Stats() Stats {
	stats := Stats{Keys: s.Len()}
	for i := range s.shards {
		stats.Evicted += s.shards[i].evicted.Load()
	}
	return stats
}
