package denied

import (
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A cache holds a bounded number of entries in sets, by the hash of their key.
// Reading takes no lock; a set's lock serves those who change it.
type cache struct {
	sets  []set // a power of two
	width int   // entries of a set
}

const maxWidth = 8

// A set holds the entries of some keys, in no order.
type set struct {
	marks   [maxWidth]atomic.Uint32 // of the entries' keys, to look at few entries
	entries [maxWidth]atomic.Pointer[entry]
	// drops counts the settlements and resets of the set's keys. An answer of
	// before one is not learned after it.
	drops atomic.Uint32
	mu    sync.Mutex
}

func (c *cache) init(most int) {
	c.width = min(most, maxWidth)
	n := most / c.width
	c.sets = make([]set, 1<<(bits.Len(uint(n))-1))
}

// A look is what is remembered of one charge before the store is asked.
type look struct {
	set     *set
	mark    uint32
	drops   uint32
	amount  int64  // asked of its counter, with what the group asks before
	entry   *entry // what is known; nil: nothing
	refused bool   // the entry refuses the amount
	held    bool   // the set has entries of the key
	known   bool   // the whole group is known to be refused
}

// look looks a charge up. An amount of 0 is not known to be refused.
func (s *Store) look(c *sluice.Charge, amount int64, now time.Duration) look {
	hash := maphash.String(s.seed, c.Key)
	l := look{
		set:    &s.cache.sets[hash&uint64(len(s.cache.sets)-1)],
		mark:   uint32(hash>>32) | 1,
		amount: amount,
	}
	l.drops = l.set.drops.Load()
	for i := range l.set.marks {
		if l.set.marks[i].Load() != l.mark {
			continue
		}
		e := l.set.entries[i].Load()
		if e == nil || e.key != c.Key {
			continue
		}
		l.held = true
		if now >= e.until || !e.about(c) {
			continue
		}
		if e.refuses(amount) {
			l.entry, l.refused = e, true
			return l
		}
		if l.entry == nil || l.entry.learned < e.learned {
			l.entry = e
		}
	}
	return l
}

// drop forgets what is known of the charge's counter, and what calls under way
// will say of it.
func (s *Store) drop(c *sluice.Charge) {
	l := s.look(c, 0, 0)
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	l.set.drops.Add(1)
	for i := range l.set.entries {
		if e := l.set.entries[i].Load(); e != nil && e.touches(c) {
			l.set.put(i, 0, nil)
		}
	}
}

// put sets one entry. mu must be held.
func (st *set) put(i int, mark uint32, e *entry) {
	st.entries[i].Store(e)
	st.marks[i].Store(mark)
}

// revise forgets what an answer of the store made untrue. A grant made all waits
// longer. A refused charge may have repaired a counter that other limits count
// on.
func (l *look) revise(c *sluice.Charge, d *sluice.Decision) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	for i := range l.set.entries {
		if e := l.set.entries[i].Load(); e != nil && e.touches(c) && (d.Granted > 0 || !e.about(c)) {
			l.set.put(i, 0, nil)
		}
	}
}

// remember adds an entry to the set, in the place of one that says no more, or
// of none, or of the one that ends first.
func (l *look) remember(e *entry, width int) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	if l.set.drops.Load() != l.drops {
		return // the answer may be older than the settlement or the reset
	}
	first, ends := 0, time.Duration(math.MaxInt64)
	for i := range l.set.entries[:width] {
		old := l.set.entries[i].Load()
		if old == nil {
			first, ends = i, -1
			continue
		}
		if old.says(e) && old.until > e.learned {
			return
		}
		if e.says(old) {
			e.key, e.tag = old.key, old.tag
			l.set.put(i, l.mark, e)
			return
		}
		if old.until < ends {
			first, ends = i, old.until
		}
	}
	// The caller's strings may be parts of longer ones.
	e.key, e.tag = strings.Clone(e.key), strings.Clone(e.tag)
	l.set.put(first, l.mark, e)
}
