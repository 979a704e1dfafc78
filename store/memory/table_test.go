package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Keys may share a hash: the table tells them apart whatever is put and removed
// around them.
func TestTableAgainstMap(t *testing.T) {
	for _, hashes := range []uint64{1, 3, 50, 1 << 40} {
		random := rand.New(rand.NewPCG(hashes, 1))
		table, kept := newTable(minSlots), map[string]*bucket{}
		hashOf := func(key int) uint64 { return (uint64(key) * 0x9e3779b97f4a7c15 % hashes) << 2 }
		for step := range 20_000 {
			n := random.IntN(200)
			key := fmt.Sprint(n)
			b := table.find(hashOf(n), key)
			if b != kept[key] {
				t.Fatalf("%d hashes, step %d: find(%s) = %p, want %p", hashes, step, key, b, kept[key])
			}
			switch {
			case b != nil:
				table.remove(b)
				delete(kept, key)
			case len(kept)*3 < len(table.slots)*2-3:
				b = &bucket{hash: hashOf(n), key: key}
				table.put(b)
				kept[key] = b
			case random.IntN(2) == 0 && len(table.slots) < 512:
				table = table.resized(len(table.slots) * 2)
			}
		}
		for key, want := range kept {
			if got := table.find(want.hash, key); got != want {
				t.Errorf("%d hashes: find(%s) = %p, want %p", hashes, key, got, want)
			}
		}
	}
}
