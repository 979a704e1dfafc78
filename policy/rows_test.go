package policy

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-limiter/sluice"
	"pgregory.net/rapid"
)

// tableLimits are limits that rows can override.
func tableLimits() []Limit {
	return []Limit{
		{Name: "login", Key: []string{"ip"}, Default: sluice.Limit{Tokens: 5, Per: time.Minute, Algorithm: sluice.SlidingLog}},
		{Name: "tenant-route", Key: []string{"route", "tenant"}, Default: perSecond(10)},
		{
			Name: "quota", Key: []string{"tenant"}, Cost: Cost{Default: 3},
			Default: sluice.Limit{Tokens: 1000, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarMonth, Zone: "Asia/Ho_Chi_Minh"}},
		},
	}
}

func mustSet(t testing.TB, limits ...Limit) *Set {
	t.Helper()
	s, err := NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func with(s *Set, all ...Row) *Set {
	e := s.Edit()
	for _, r := range all {
		e.Put(r)
	}
	return e.Set()
}

// met returns the row in force for a limit; 0: none.
func met(s *Set, limit int, pairs ...string) (id int64, rate sluice.Limit) {
	var q reader
	q.begin(s, &Request{Attributes: attributesOf(pairs...)})
	e, ok := s.row(&q, limit)
	if !ok {
		return 0, rate
	}
	return e.id(), e.rate
}

func TestRowRates(t *testing.T) {
	month := sluice.Calendar{Unit: sluice.CalendarMonth, Zone: "Asia/Ho_Chi_Minh"}
	day := sluice.Calendar{Unit: sluice.CalendarDay, Zone: "Asia/Ho_Chi_Minh"}
	for _, tt := range []struct {
		row     Row
		limit   int
		want    sluice.Limit
		problem string // a part of it
	}{
		{row: Row{Capacity: 200, Refill: 100}, limit: 1, want: sluice.Limit{Tokens: 100, Per: time.Second, Burst: 200}},
		{row: Row{Capacity: 20, Refill: 5, Period: "15m"}, limit: 1, want: sluice.Limit{Tokens: 5, Per: 15 * time.Minute, Burst: 20}},
		{row: Row{Capacity: 20, Refill: 20, Algorithm: "sliding_window"}, limit: 1, want: sluice.Limit{Tokens: 20, Per: time.Second, Algorithm: sluice.SlidingWindow}},
		{row: Row{Capacity: 9, Refill: 9, Limit: "login", Period: "hour"}, limit: 0, want: sluice.Limit{Tokens: 9, Per: time.Hour, Algorithm: sluice.SlidingLog}},
		{row: Row{Capacity: 9, Refill: 9, Limit: "login", Algorithm: "gcra"}, limit: 0, want: sluice.Limit{Tokens: 9, Per: time.Second, Burst: 9}},
		{row: Row{Capacity: 5000, Refill: 5000, Limit: "quota", Period: "month"}, limit: 2, want: sluice.Limit{Tokens: 5000, Algorithm: sluice.FixedWindow, Calendar: month}},
		{row: Row{Capacity: 50, Refill: 50, Limit: "quota", Period: "day"}, limit: 2, want: sluice.Limit{Tokens: 50, Algorithm: sluice.FixedWindow, Calendar: day}},
		{row: Row{Capacity: 50, Refill: 50, Limit: "quota", Algorithm: "sliding_log"}, limit: 2, want: sluice.Limit{Tokens: 50, Per: time.Second, Algorithm: sluice.SlidingLog}},

		{row: Row{Capacity: 50, Refill: 50, Limit: "quota"}, problem: "want day or month"},
		{row: Row{Capacity: 2, Refill: 2, Limit: "quota", Period: "day"}, problem: "a request costs 3"},
		{row: Row{Capacity: 9, Refill: 8, Limit: "login"}, problem: "want them equal"},
		{row: Row{Capacity: 9, Refill: 9, Limit: "logon"}, problem: `limit_name "logon": the configuration has no limit of this name`},
		{row: Row{Capacity: 9, Refill: 9, Algorithm: "leaky"}, problem: `unknown algorithm "leaky"`},
		{row: Row{Capacity: 9, Refill: 9, Period: "fortnight"}, problem: `period "fortnight"`},
		{row: Row{Capacity: 9, Refill: 9, Period: "s burst 7"}, problem: `period "s burst 7"`},
		{row: Row{Capacity: -9, Refill: 9}, problem: "capacity is -9: want 1 to 4294967296"},
		{row: Row{Capacity: 9, Refill: 0}, problem: "refill_per_second is 0: want 1 to"},
		{row: Row{Capacity: math.MaxInt64, Refill: 9}, problem: "capacity is 9223372036854775807: want 1 to"},
		{row: Row{Capacity: 9, Refill: math.MaxInt64}, problem: "refill_per_second is 9223372036854775807: want 1 to"},
		{row: Row{Capacity: sluice.MaxTokens, Refill: 1}, problem: "over 366 days to fill"},
		{row: Row{Capacity: 9, Refill: 9, Fault: "tenant_id is null"}, problem: "tenant_id is null"},
		{row: Row{Capacity: 9, Refill: 9, Limit: strings.Repeat("x", 2000)}, problem: "limit_name has 2000 bytes: want at most 1024"},
	} {
		tt.row.ID, tt.row.Tenant, tt.row.Route = 7, "a", "b"
		s := with(mustSet(t, tableLimits()...), tt.row)
		bad := s.BadRows(10)
		if tt.problem != "" {
			if len(bad) != 1 || bad[0].ID != 7 || !strings.Contains(bad[0].Problem, tt.problem) || s.BadRowCount() != 1 {
				t.Errorf("%+v: bad rows %+v (%d), want one with %q", tt.row, bad, s.BadRowCount(), tt.problem)
			}
			if id, _ := met(s, 1, "tenant", "a", "route", "b"); id != 0 || s.Names("tenant", "a") {
				t.Errorf("%+v counts though it is bad", tt.row)
			}
			continue
		}
		if len(bad) > 0 {
			t.Errorf("%+v: bad: %s", tt.row, bad[0].Problem)
		}
		if id, rate := met(s, tt.limit, "tenant", "a", "route", "b"); id != 7 || rate != tt.want {
			t.Errorf("%+v: row %d with %v, want %v", tt.row, id, rate, tt.want)
		}
	}
}

func TestRowsNeedOneLimitByTenantAndRoute(t *testing.T) {
	row := Row{ID: 1, Tenant: "a", Route: "b", Capacity: 1, Refill: 1}
	none := with(mustSet(t, Limit{Name: "x", Key: []string{"tenant"}, Default: perSecond(1)}), row)
	several := with(mustSet(t,
		Limit{Name: "x", Key: []string{"tenant", "route"}, Default: perSecond(1)},
		Limit{Name: "y", Key: []string{"route", "tenant"}, Default: perSecond(1)}), row)
	for want, s := range map[string]*Set{
		"no limit of the configuration has the key [tenant, route]": none,
		"the limits x and y both have the key tenant and route":     several,
	} {
		bad := s.BadRows(1)
		if len(bad) != 1 || !strings.Contains(bad[0].Problem, want) {
			t.Errorf("bad rows %+v, want one with %q", bad, want)
		}
		if err := s.CheckRows(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckRows = %v, want %q", err, want)
		}
	}
	if err := mustSet(t, tableLimits()...).CheckRows(); err != nil {
		t.Errorf("CheckRows = %v", err)
	}
}

// The most values win, a tenant before a route, a row before an override of the
// file that matches as many.
func TestRowPrecedence(t *testing.T) {
	limit := Limit{Name: "tenant-route", Key: []string{"tenant", "route"}, Default: perSecond(1), Overrides: []Rule{
		{Match: []Condition{{"tenant", []string{"f"}}, {"route", []string{"r"}}}, Limit: perSecond(2)},
		{Match: []Condition{{"tenant", []string{"g"}}}, Limit: perSecond(3)},
		{Match: []Condition{{"tenant", []string{"t"}}, {"route", []string{"r"}}, {"method", []string{"GET"}}}, Limit: perSecond(4)},
		{Match: []Condition{{"tenant", []string{"free"}}}, Unlimited: true},
	}}
	row := func(id int64, tenant, route string) Row {
		return Row{ID: id, Tenant: tenant, Route: route, Capacity: 100 + id, Refill: 100 + id}
	}
	s := with(mustSet(t, limit), row(1, "t", "r"), row(2, "t", "*"), row(3, "*", "r"), row(4, "f", "*"), row(5, "g", "*"), row(6, "*", "free"))
	e := NewEngine(&specStore{}, s)
	for _, tt := range []struct {
		tenant, route, method string
		want                  int64 // capacity
	}{
		{"t", "r", "", 101},
		{"t", "r", "GET", 4},
		{"t", "x", "", 102},
		{"y", "r", "", 103},
		{"y", "x", "", 1},
		{"", "r", "", 103},
		{"f", "r", "", 2},
		{"f", "x", "", 104},
		{"g", "x", "", 105},
		{"*", "x", "", 1},
		{"y", "free", "", 106},
	} {
		v := decide(t, e, 1, "tenant", tt.tenant, "route", tt.route, "method", tt.method)
		if got := v.Results[0].Effective.Capacity(); got != tt.want {
			t.Errorf("%+v: capacity %d", tt, got)
		}
		r, ok := v.Results[0].Row.Row()
		if ok != (tt.want > 100) || ok && r.Capacity != tt.want {
			t.Errorf("%+v: row %+v, %v", tt, r, ok)
		}
	}
	s = with(s, row(9, "*", "*"))
	if id, _ := met(s, 0, "tenant", "nobody", "route", "x"); id != 9 {
		t.Errorf("row in force for anybody is %d, want 9", id)
	}
	if v := decide(t, NewEngine(&specStore{}, s), 1, "tenant", "free", "route", "x"); len(v.Unlimited) != 1 {
		t.Error("an override that matches the tenant does not win over a row for anybody")
	}
}

// What a row takes over from its limit is made to fit.
func TestRowTakesOverToleranceAndShards(t *testing.T) {
	store := &specStore{}
	limit := Limit{Name: "a", Key: []string{"tenant", "route"}, Default: perSecond(1000), Tolerance: 10_000, Shards: 8}
	e := NewEngine(store, with(mustSet(t, limit), Row{ID: 1, Tenant: "t", Route: "*", Capacity: 5, Refill: 5}))
	decide(t, e, 1, "tenant", "t", "route", "r")
	if c := store.last[0]; c.Shards != 5 || c.Tolerance != 10_000 {
		t.Errorf("charge with %d shards and a tolerance of %d, want 5 and 10000", c.Shards, c.Tolerance)
	}
}

// modelRow is the row in force as the documentation says it.
func modelRow(all map[int64]Row, tenant, route string) int64 {
	best, score := int64(0), -1
	for _, id := range slices.Sorted(maps.Keys(all)) {
		r := all[id]
		if r.Refill < 1 || r.Tenant != "*" && r.Tenant != tenant || r.Route != "*" && r.Route != route {
			continue
		}
		s := 0
		if r.Tenant != "*" {
			s += 6
		}
		if r.Route != "*" {
			s += 4
		}
		if r.Tenant != "*" && r.Route != "*" {
			s += 10
		}
		if !r.Expires.IsZero() {
			s++
		}
		if s >= score {
			best, score = id, s
		}
	}
	return best
}

// Any edits leave what the same rows put in at once would be, and sets made
// before stay as they were.
func TestEditsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, err := NewSet(tableLimits())
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.SampledFrom([]string{"a", "b", "c", "*", "", "a*", "'; DROP TABLE rate_limit_rule; --"})
		model := map[int64]Row{}
		s := base
		type version struct {
			set   *Set
			model map[int64]Row
		}
		var versions []version
		for range rapid.IntRange(1, 12).Draw(t, "edits") {
			e := s.Edit()
			for range rapid.IntRange(0, 40).Draw(t, "changes") {
				id := rapid.Int64Range(-5, 60).Draw(t, "id")
				if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
					_, had := model[id]
					if e.Remove(id) != had {
						t.Fatalf("Remove(%d) = %v, want %v", id, !had, had)
					}
					delete(model, id)
					continue
				}
				r := Row{ID: id, Tenant: text.Draw(t, "tenant"), Route: text.Draw(t, "route"), Capacity: 5, Refill: rapid.Int64Range(0, 4).Draw(t, "refill"), Sum: rapid.Int64().Draw(t, "sum")}
				if rapid.Bool().Draw(t, "expires") {
					r.Expires = time.UnixMicro(rapid.Int64Range(1, 1e15).Draw(t, "at"))
				}
				e.Put(r)
				model[id] = r
			}
			s = e.Set()
			versions = append(versions, version{s, maps.Clone(model)})
		}
		again, err := NewSet(tableLimits())
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, version{again.Adopt(s), model})
		for _, v := range versions {
			checkModel(t, v.set, v.model)
		}
	})
}

func checkModel(t *rapid.T, s *Set, model map[int64]Row) {
	t.Helper()
	found, sum, bad, named := map[int64]Row{}, int64(0), 0, map[string]bool{}
	for r := range s.Rows() {
		found[r.ID] = r
	}
	for id, r := range model {
		sum += r.Sum
		if r.Refill < 1 {
			bad++
		} else {
			named[r.Tenant] = true
		}
		if got, ok := s.Row(id); !ok || got != r {
			t.Fatalf("Row(%d) = %+v, %v, want %+v", id, got, ok, r)
		}
	}
	if diff := cmp.Diff(model, found); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	if s.RowCount() != len(model) || s.RowSum() != sum || s.BadRowCount() != bad || len(s.BadRows(1000)) != bad {
		t.Fatalf("%d rows, sum %d, %d bad; want %d, %d, %d", s.RowCount(), s.RowSum(), s.BadRowCount(), len(model), sum, bad)
	}
	for _, tenant := range []string{"a", "b", "c", "*", "", "a*", "z"} {
		if got, want := s.Names("tenant", tenant), named[tenant] && tenant != "*"; got != want {
			t.Fatalf("Names(%q) = %v, want %v", tenant, got, want)
		}
		for _, route := range []string{"a", "b", "", "z", "a*"} {
			if got, _ := met(s, 1, "tenant", tenant, "route", route); got != modelRow(model, tenant, route) {
				t.Fatalf("row for %q %q = %d, want %d of %+v", tenant, route, got, modelRow(model, tenant, route), model)
			}
		}
	}
}

func FuzzCutRow(f *testing.F) {
	r := Row{ID: 1, Tenant: "a", Route: "*", Capacity: 5, Refill: 4, Limit: "x", Period: "m", Algorithm: "gcra", Expires: time.UnixMicro(5), Sum: -1, Fault: "f"}
	f.Add(r.AppendTo(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, rest, err := CutRow(data)
		if err != nil {
			return
		}
		again, _, err := CutRow(r.AppendTo(nil))
		if err != nil || again != r || len(rest) > len(data) {
			t.Errorf("%+v becomes %+v, %v", r, again, err)
		}
	})
}

// manyRows puts rows for many tenants and three routes each into a set.
func manyRows(t testing.TB, tenants int) *Set {
	t.Helper()
	e := mustSet(t, tableLimits()...).Edit()
	id := int64(0)
	for i := range tenants {
		tenant := "shop-" + strconv.Itoa(i)
		for _, route := range []string{"create-order", "list-orders", "get-order"} {
			id++
			e.Put(Row{ID: id, Tenant: tenant, Route: route, Capacity: 200, Refill: 100, Sum: rand.Int64()})
		}
	}
	return e.Set()
}

func TestManyRows(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	s := manyRows(t, 100_000)
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	perRow := (after.HeapAlloc - before.HeapAlloc) / 300_000
	t.Logf("%d bytes a row, %v", perRow, took)
	if perRow > 200 {
		t.Errorf("rows take %d bytes each, want at most 200", perRow)
	}
	if id, _ := met(s, 1, "tenant", "shop-99999", "route", "list-orders"); id != 299_999 {
		t.Errorf("row %d, want 299999", id)
	}
}

func TestDecideByRowAllocatesNothingMore(t *testing.T) {
	s := manyRows(t, 100)
	r := Request{Attributes: attributesOf("tenant", "shop-7", "route", "get-order")}
	var q reader
	q.begin(s, &r)
	if n := testing.AllocsPerRun(100, func() {
		q.begin(s, &r)
		if _, ok := s.row(&q, 1); !ok {
			t.Error("no row")
		}
	}); n != 0 {
		t.Errorf("%v allocations a look-up, want none", n)
	}
}

func BenchmarkRow(b *testing.B) {
	for _, tenants := range []int{3, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", 3*tenants), func(b *testing.B) {
			s := manyRows(b, tenants)
			names := make([]string, 1<<16)
			for i := range names {
				names[i] = "shop-" + strconv.Itoa(rand.IntN(tenants))
			}
			tenant := ""
			r := Request{Attributes: func(name string) string {
				if name == "tenant" {
					return tenant
				}
				return "list-orders"
			}}
			var q reader
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				tenant = names[i&(1<<16-1)]
				q.begin(s, &r)
				if _, ok := s.row(&q, 1); !ok {
					b.Fatal("no row")
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	for _, tenants := range []int{3, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", 3*tenants), func(b *testing.B) {
			s := manyRows(b, tenants)
			i := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				i++
				e := s.Edit()
				r, _ := s.Row(1 + i%int64(3*tenants))
				r.Refill++
				e.Put(r)
				s = e.Set()
			}
		})
	}
}

func BenchmarkAdopt(b *testing.B) {
	s := manyRows(b, 100_000)
	other := mustSet(b, tableLimits()...)
	for b.Loop() {
		other.Adopt(s)
	}
}
