package memory

import "sync/atomic"

// A table finds buckets by linear probing. Reading takes no lock: slots are
// changed one by one, under the shard's lock, and a bucket on its way to
// another slot can be missed, never mistaken. Who must be sure that a key is
// not there looks again under the lock.
type table struct {
	slots []atomic.Pointer[bucket] // a power of two; at least a third is nil
}

const minSlots = 16

func newTable(slots int) *table {
	return &table{slots: make([]atomic.Pointer[bucket], slots)}
}

func (t *table) find(hash uint64, key string) *bucket {
	slots := t.slots
	for i := int(hash); ; i++ {
		b := slots[i&(len(slots)-1)].Load()
		if b == nil || b.hash == hash && b.key == key {
			return b
		}
	}
}

// put adds a bucket that is not there yet.
func (t *table) put(b *bucket) {
	i := int(b.hash) & (len(t.slots) - 1)
	for t.slots[i].Load() != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i].Store(b)
}

// remove takes out a bucket that is there and moves those back that its slot
// had pushed aside, so that no mark is left behind.
func (t *table) remove(b *bucket) {
	mask := len(t.slots) - 1
	hole := int(b.hash) & mask
	for t.slots[hole].Load() != b {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; ; i = (i + 1) & mask {
		next := t.slots[i].Load()
		if next == nil {
			break
		}
		// It may move to the hole unless its probing starts after the hole.
		if home := int(next.hash) & mask; (i-home)&mask >= (i-hole)&mask {
			t.slots[hole].Store(next)
			hole = i
		}
	}
	t.slots[hole].Store(nil)
}

// resized returns a table of another size with the same buckets.
func (t *table) resized(slots int) *table {
	r := newTable(slots)
	for i := range t.slots {
		if b := t.slots[i].Load(); b != nil {
			r.put(b)
		}
	}
	return r
}
