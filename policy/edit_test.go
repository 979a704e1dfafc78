package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Edits of a table that grows and shrinks over many pages keep every row.
func TestManyEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := mustSet(t, tableLimits()...)
	model := map[int64]Row{}
	var old *Set
	var oldModel map[int64]Row
	for round := range 60 {
		e := s.Edit()
		for range 500 {
			id := random.Int64N(8000)
			if random.IntN(3) == 0 {
				e.Remove(id)
				delete(model, id)
				continue
			}
			r := Row{ID: id, Tenant: fmt.Sprint("t", id), Route: "r", Capacity: 1 + random.Int64N(1000), Refill: 5, Sum: random.Int64()}
			if err := e.Put(r); err != nil {
				t.Fatal(err)
			}
			model[id] = r
		}
		s = e.Set()
		if round == 30 {
			old, oldModel = s, maps.Clone(model)
		}
	}
	for _, v := range []struct {
		set   *Set
		model map[int64]Row
	}{{old, oldModel}, {s, model}} {
		if v.set.RowCount() != len(v.model) {
			t.Errorf("%d rows, want %d", v.set.RowCount(), len(v.model))
		}
		for id := range int64(8000) {
			want, has := v.model[id]
			if got, ok := v.set.Row(id); ok != has || got != want {
				t.Fatalf("Row(%d) = %+v, %v, want %+v, %v", id, got, ok, want, has)
			}
			tenant := fmt.Sprint("t", id)
			if got, rate := met(v.set, 1, "tenant", tenant, "route", "r"); has && (got != id || rate.Burst != want.Capacity) || !has && got != 0 {
				t.Fatalf("row for %s is %d with %v, want %+v", tenant, got, rate, want)
			}
			if v.set.Names("tenant", tenant) != has {
				t.Fatalf("Names(%s) = %v, want %v", tenant, !has, has)
			}
		}
	}
}

// Who decides while rows change sees one version or the other, each whole: both
// rows of a version have the same capacity.
func TestDecideWhileRowsChange(t *testing.T) {
	base := mustSet(t, tableLimits()...)
	version := func(s *Set, n int64) *Set {
		return with(s, Row{ID: 1, Tenant: "a", Route: "r", Capacity: n, Refill: n}, Row{ID: 2, Tenant: "b", Route: "r", Capacity: n, Refill: n})
	}
	e := NewEngine(&specStore{}, version(base, 1))
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			last := int64(0)
			for !stop.Load() {
				set := e.Set()
				_, a := met(set, 1, "tenant", "a", "route", "r")
				_, b := met(set, 1, "tenant", "b", "route", "r")
				if a.Burst != b.Burst || a.Burst < last {
					t.Errorf("capacities %d and %d after %d", a.Burst, b.Burst, last)
					return
				}
				last = a.Burst
			}
		})
	}
	for n := range int64(2000) {
		e.Swap(version(e.Set(), n+2))
	}
	stop.Store(true)
	readers.Wait()
}
