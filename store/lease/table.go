package lease

import (
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// A table holds a bounded number of entries in sets, by the hash of their key.
// Reading takes no lock.
type table struct{ sets []set } // a power of two

const width = 8

type set struct {
	marks   [width]atomic.Uint32 // of the entries' keys, to look at few entries
	entries [width]atomic.Pointer[entry]
	mu      sync.Mutex // of those who change the set
}

func (t *table) init(most int) {
	t.sets = make([]set, 1<<bits.Len(uint(max(most/width, 1)-1)))
}

func (t *table) place(hash uint64) (st *set, mark uint32) {
	return &t.sets[hash&uint64(len(t.sets)-1)], uint32(hash>>32) | 1
}

// find returns the entry of a charge's counter; nil if there is none.
func (t *table) find(hash uint64, c *sluice.Charge) *entry {
	st, mark := t.place(hash)
	for i := range st.marks {
		if st.marks[i].Load() != mark {
			continue
		}
		if e := st.entries[i].Load(); e != nil && e.counts(c) {
			return e
		}
	}
	return nil
}

// add puts an entry in the place of none, or of one for which drop says that it
// may go, and says whether there was such a place. Of several that add the same
// at once one succeeds.
func (t *table) add(hash uint64, e *entry, drop func(*entry) bool) bool {
	st, mark := t.place(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	free := -1
	for i := range st.entries {
		old := st.entries[i].Load()
		if old != nil && old.counts(&e.charge) {
			return false
		}
		if old == nil && free < 0 {
			free = i
		}
	}
	for i := 0; free < 0 && i < width; i++ {
		if drop(st.entries[i].Load()) {
			free = i
		}
	}
	if free < 0 {
		return false
	}
	st.entries[free].Store(e)
	st.marks[free].Store(mark)
	return true
}

// remove takes an entry out.
func (t *table) remove(hash uint64, e *entry) {
	st, _ := t.place(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range st.entries {
		if st.entries[i].Load() == e {
			st.marks[i].Store(0)
			st.entries[i].Store(nil)
		}
	}
}

// all goes through the entries.
func (t *table) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range t.sets {
			for j := range t.sets[i].entries {
				if e := t.sets[i].entries[j].Load(); e != nil && !yield(e) {
					return
				}
			}
		}
	}
}
