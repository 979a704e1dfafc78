package memory

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/sluice-limiter/sluice"
)

// A call holds the states of several charges so that nobody else can change or
// see them between begin and end. It is taken from a pool.
//
// Locks are taken in one order, so that calls cannot wait for each other in a
// ring: first the shards, by their index, then the buckets, by hash and key.
// Only shards with windows or with keys not known yet need theirs. Nobody who
// holds a bucket waits for a shard.
//
// The charges are passed along and not kept, so that callers can have them on
// their stack.
type call struct {
	store  *Store
	now    int64
	meters []sluice.Meter
	states []*sluice.State // beside the charges; equal counters share one
	places []place         // sorted by hash and key
	locked []*shard
}

// A place is where the counter of one charge is.
type place struct {
	hash   uint64
	charge int // index of the charge
	kind   sluice.Kind
	same   int     // index of an earlier place of the same counter, or its own
	bucket *bucket // nil: a window, not known yet, or found at same
	window *window // nil: a bucket, not known yet, or found at same
	state  sluice.State
	held   bool // the bucket's lock is held
}

// begin finds and locks the states of charges, which must have passed
// CheckCharges.
func (s *Store) begin(charges []sluice.Charge) *call {
	c := s.calls.Get().(*call)
	c.store = s
	c.meters = slices.Grow(c.meters[:0], len(charges))[:len(charges)]
	c.states = slices.Grow(c.states[:0], len(charges))[:len(charges)]
	c.places = slices.Grow(c.places[:0], len(charges))[:len(charges)]
	c.name(charges)
	for !c.lock(charges) {
		c.unlock()
	}
	for i := range c.places {
		c.states[c.places[i].charge] = &c.places[c.places[i].same].state
	}
	// Read with all locks held, the time is not before that of any change.
	c.now = s.clock()
	return c
}

// name fills meters and places in but for where the counters are.
func (c *call) name(charges []sluice.Charge) {
	for i := range charges {
		charge := &charges[i]
		c.meters[i], _ = charge.Limit.Meter() // checked before
		c.places[i] = place{
			hash:   maphash.String(c.store.seed, charge.Key),
			charge: i,
			kind:   charge.Limit.Kind(),
		}
	}
	if len(c.places) > 1 {
		slices.SortStableFunc(c.places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(charges[a.charge].Key, charges[b.charge].Key))
		})
	}
	for i := range c.places {
		c.places[i].same = i
		for j := i - 1; j >= 0 && c.places[j].hash == c.places[i].hash; j-- {
			if c.places[j].kind == c.places[i].kind && c.key(charges, j) == c.key(charges, i) {
				c.places[i].same = c.places[j].same
				break
			}
		}
	}
}

// key returns the key of a place.
func (c *call) key(charges []sluice.Charge, i int) string { return charges[c.places[i].charge].Key }

func (p *place) isBucket() bool { return p.kind.Algorithm == sluice.TokenBucket }

// lock takes all locks; false if a bucket was removed on the way.
func (c *call) lock(charges []sluice.Charge) bool {
	c.lockShards(charges)
	for i := range c.places {
		p := &c.places[i]
		switch {
		case p.window != nil:
			p.state = p.window.state
		case p.bucket != nil:
			p.state.Time, p.held = p.bucket.lock()
			if !p.held {
				return false
			}
		}
	}
	return true
}

// lockShards finds all counters, and locks the shards of those that are
// windows or not known yet.
func (c *call) lockShards(charges []sluice.Charge) {
	for i := range c.places {
		p := &c.places[i]
		if p.same != i {
			continue
		}
		sh := c.store.shard(p.hash)
		key := c.key(charges, i)
		p.state = sluice.State{}
		if p.isBucket() {
			if p.bucket = sh.table.Load().find(p.hash, key); p.bucket != nil {
				continue
			}
		}
		// Places are sorted by hash and so by shard.
		if n := len(c.locked); n == 0 || c.locked[n-1] != sh {
			sh.mu.Lock()
			c.locked = append(c.locked, sh)
		}
		if p.isBucket() {
			p.bucket = sh.table.Load().find(p.hash, key)
		} else {
			p.window = sh.windows.byName[name{key, p.kind}]
		}
	}
}

// unlock releases all locks and changes nothing.
func (c *call) unlock() {
	for i := range c.places {
		if p := &c.places[i]; p.held {
			p.bucket.unlock(p.state.Time)
			p.held = false
		}
	}
	c.unlockShards()
}

func (c *call) unlockShards() {
	for _, sh := range c.locked {
		sh.mu.Unlock()
	}
	clear(c.locked)
	c.locked = c.locked[:0]
}

// end writes the states back and releases all locks. Buckets come first, since
// making place for new keys may wait for buckets that others hold.
func (c *call) end(charges []sluice.Charge) {
	for i := range c.places {
		p := &c.places[i]
		switch {
		case p.held:
			p.bucket.unlock(p.state.Time)
		case p.window != nil:
			p.window.state = p.state
			p.window.full = c.full(p)
		}
	}
	for i := range c.places {
		if p := &c.places[i]; p.same == i && p.bucket == nil && p.window == nil {
			c.insert(p, c.key(charges, i))
		}
	}
	c.unlockShards()
	clear(c.places)
	c.store.calls.Put(c)
}

// full returns when a window's key is as if never used.
func (c *call) full(p *place) int64 {
	return c.now + c.meters[p.charge].Reset(&p.state, c.now)
}

// insert adds the counter of a place that was not known, if it was used.
func (c *call) insert(p *place, key string) {
	sh := c.store.shard(p.hash)
	switch {
	case p.isBucket() && p.state.Time != 0:
		c.store.insertBucket(sh, p.hash, key, p.state.Time, c.now)
	case !p.isBucket() && (p.state.Count != 0 || p.state.Prev != 0 || len(p.state.Log) > 0):
		c.store.insertWindow(sh, key, p.kind, p.state, c.full(p), c.now)
	}
}
