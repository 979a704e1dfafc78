package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluice-limiter/sluice"
)

// specStore is the specification with a map, and remembers the last call.
type specStore struct {
	mu     sync.Mutex
	now    int64
	states map[string]*sluice.State
	calls  int
	last   []sluice.Charge
	fail   error
}

func (s *specStore) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.last = append(s.last[:0], charges...)
	if s.fail != nil {
		return dst, s.fail
	}
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	if s.states == nil {
		s.states = map[string]*sluice.State{}
	}
	meters := make([]sluice.Meter, len(charges))
	states := make([]*sluice.State, len(charges))
	for i, c := range charges {
		meters[i], _ = c.Limit.Meter()
		name := fmt.Sprint(c.Limit.Kind(), c.Key)
		if s.states[name] == nil {
			s.states[name] = &sluice.State{}
		}
		states[i] = s.states[name]
	}
	return sluice.Decide(dst, charges, meters, states, s.now), nil
}

func newEngine(t testing.TB, store sluice.Store, limits ...Limit) *Engine {
	t.Helper()
	for i := range limits {
		if limits[i].Default.Tokens == 0 && !limits[i].Unlimited {
			limits[i].Default = perSecond(10)
		}
	}
	set, err := NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return NewEngine(store, set)
}

func decide(t testing.TB, e *Engine, n int64, pairs ...string) *Verdict {
	t.Helper()
	var v Verdict
	if err := e.Decide(context.Background(), Request{Attributes: attributesOf(pairs...), N: n}, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func TestDecide(t *testing.T) {
	e := newEngine(t, &specStore{},
		Limit{Name: "tenant", Key: []string{"tenant"}, Default: perSecond(5), Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"big"}}}, Limit: perSecond(100)},
			{Match: []Condition{{"tenant", []string{"own"}}}, Unlimited: true},
		}},
		Limit{Name: "login", Match: []Condition{{"route", []string{"login"}}}, Key: []string{"ip"}, Default: perSecond(2)},
	)
	v := decide(t, e, 3, "tenant", "a", "route", "x")
	if len(v.Results) != 1 || !v.Allowed || v.Results[0].Key != "tenant|tenant=a" || v.Results[0].Rule != nil ||
		v.Results[0].Cost != 3 || v.Results[0].Decision.Remaining != 2 || v.Results[0].Limit.Name != "tenant" {
		t.Errorf("verdict = %+v", v.Results)
	}
	if v := decide(t, e, 3, "tenant", "a"); v.Allowed || v.Describing() != &v.Results[0] {
		t.Error("6 of 5 tokens pass")
	}
	v = decide(t, e, 3, "tenant", "big")
	if got := v.Results[0]; !v.Allowed || got.Rule != &e.Set().Limits()[0].Overrides[0] || got.Effective != perSecond(100) {
		t.Errorf("verdict = %+v", v.Results)
	}
	v = decide(t, e, 3, "tenant", "own")
	if !v.Allowed || len(v.Results) != 0 || len(v.Unlimited) != 1 || v.Describing() != nil {
		t.Errorf("verdict = %+v", v)
	}
	if v = decide(t, e, 1, "tenant", "b", "route", "login", "ip", "192.0.2.1"); len(v.Results) != 2 {
		t.Errorf("%d limits match, want 2", len(v.Results))
	}
}

// A call makes one group of all limits that can refuse, and one of each shadow.
func TestDecideCharges(t *testing.T) {
	store := &specStore{}
	e := newEngine(t, store,
		Limit{Name: "a", Key: []string{"tenant", "route"}},
		Limit{Name: "b", Shadow: true},
		Limit{Name: "c", Key: []string{"ip"}},
		Limit{Name: "d", Key: []string{"tenant"}, Shadow: true},
	)
	v := decide(t, e, 2, "tenant", "s{1}", "ip", "192.0.2.1", "route", "r")
	want := []sluice.Charge{
		{Key: "a|tenant=s%7B1%7D|route=r", Tag: "s%7B1%7D", Limit: perSecond(10), N: 2},
		{Key: "c|ip=192.0.2.1", Limit: perSecond(10), N: 2},
		{Key: "b", Limit: perSecond(10), N: 2, Group: 1},
		{Key: "d|tenant=s%7B1%7D", Tag: "s%7B1%7D", Limit: perSecond(10), N: 2, Group: 2},
	}
	if diff := cmp.Diff(want, store.last); diff != "" {
		t.Error("charges (-want +got):\n" + diff)
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		if r := v.Results[i]; r.Limit.Name != name || r.Decision.Remaining != 8 {
			t.Errorf("result %d = %+v", i, r)
		}
	}
	if store.calls != 1 {
		t.Errorf("%d calls of the store, want 1", store.calls)
	}
}

// A charge carries how its limit may be leased and spread; an override takes
// over what it does not say, in shards of at least a token.
func TestDecideToleranceAndShards(t *testing.T) {
	store := &specStore{}
	e := newEngine(t, store, Limit{
		Name: "a", Key: []string{"tenant"}, Default: perSecond(1000), Tolerance: 10_000, Shards: 8,
		Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"own"}}}, Limit: perSecond(500), Tolerance: 20_000, Shards: 1},
			{Match: []Condition{{"tenant", []string{"small"}}}, Limit: perSecond(3)},
		},
	})
	for _, tt := range []struct {
		tenant    string
		tolerance int64
		shards    int
	}{{"any", 10_000, 8}, {"own", 20_000, 1}, {"small", 10_000, 3}} {
		decide(t, e, 1, "tenant", tt.tenant)
		if c := store.last[0]; c.Tolerance != tt.tolerance || c.Shards != tt.shards {
			t.Errorf("%s: tolerance %d, %d shards, want %d, %d", tt.tenant, c.Tolerance, c.Shards, tt.tolerance, tt.shards)
		}
	}
}

// A limit that passes is not consumed when another refuses; a shadow is.
func TestDecideAllOrNothing(t *testing.T) {
	e := newEngine(t, &specStore{},
		Limit{Name: "small", Default: perSecond(1)},
		Limit{Name: "large", Default: perSecond(1000)},
		Limit{Name: "shadow", Default: perSecond(1), Shadow: true},
	)
	decide(t, e, 1)
	for range 100 {
		v := decide(t, e, 1)
		if v.Allowed || v.Results[1].Decision.Remaining != 999 || v.Results[2].Decision.Allowed {
			t.Fatalf("verdict = %+v", v)
		}
	}
}

func TestDecideNoLimits(t *testing.T) {
	store := &specStore{}
	for _, e := range []*Engine{NewEngine(store, nil), NewEngine(store, &Set{})} {
		if v := decide(t, e, 1, "tenant", "a"); !v.Allowed || len(v.Results) != 0 || v.Describing() != nil {
			t.Errorf("verdict = %+v", v)
		}
	}
	if store.calls != 0 {
		t.Errorf("the store was called %d times for no limit", store.calls)
	}
}

func TestDescribing(t *testing.T) {
	limit := func(name string, shadow bool) *Limit { return &Limit{Name: name, Shadow: shadow} }
	left := func(remaining, of int64) sluice.Decision {
		return sluice.Decision{Allowed: true, Remaining: remaining, Limit: of}
	}
	wait := func(d time.Duration) sluice.Decision { return sluice.Decision{RetryAfter: d, Limit: 10} }
	for _, test := range []struct {
		name    string
		allowed bool
		results []Result
		want    string
	}{
		{"nothing", true, nil, ""},
		{"only a shadow", true, []Result{{Limit: limit("a", true), Decision: wait(time.Second)}}, ""},
		{"closest to exhaustion", true, []Result{
			{Limit: limit("half", false), Decision: left(5, 10)},
			{Limit: limit("tenth", false), Decision: left(100, 1000)},
			{Limit: limit("shadow", true), Decision: left(0, 10)},
		}, "tenth"},
		{"first of equals", true, []Result{
			{Limit: limit("a", false), Decision: left(1, 2)}, {Limit: limit("b", false), Decision: left(2, 4)},
		}, "a"},
		{"large numbers", true, []Result{
			{Limit: limit("a", false), Decision: left(sluice.MaxTokens, sluice.MaxTokens)},
			{Limit: limit("b", false), Decision: left(sluice.MaxTokens-1, sluice.MaxTokens)},
		}, "b"},
		{"longest wait", false, []Result{
			{Limit: limit("empty", false), Decision: left(0, 10)},
			{Limit: limit("short", false), Decision: wait(time.Second)},
			{Limit: limit("long", false), Decision: wait(time.Hour)},
			{Limit: limit("shadow", true), Decision: wait(24 * time.Hour)},
		}, "long"},
	} {
		v := Verdict{Allowed: test.allowed, Results: test.results}
		got := ""
		if r := v.Describing(); r != nil {
			got = r.Limit.Name
		}
		if got != test.want {
			t.Errorf("%s: describing %q, want %q", test.name, got, test.want)
		}
	}
}

func TestDecidePeeks(t *testing.T) {
	store := &specStore{}
	e := newEngine(t, store, Limit{Name: "a", Cost: Cost{Default: 5}})
	for range 3 {
		if v := decide(t, e, 0); !v.Allowed || v.Results[0].Decision.Remaining != 10 || v.Results[0].Cost != 0 {
			t.Errorf("verdict = %+v", v.Results[0])
		}
	}
}

func TestCosts(t *testing.T) {
	e := newEngine(t, &specStore{}, Limit{
		Name: "quota", Key: []string{"tenant"}, Default: perSecond(1000),
		Cost: Cost{Attribute: "header:x-cost", Default: 3, Min: 2, Max: 50},
	})
	for i, test := range []struct {
		header string
		n      int64
		cost   int64
		err    string
	}{
		{"", 1, 3, ""},
		{"", 10, 30, ""},
		{"2", 1, 2, ""},
		{"50", 20, 1000, ""},
		{"50", 21, 0, `limit "quota": cost in header:X-Cost: the request costs more than the 1000 tokens that ever pass at once: ask for less at a time, or raise the limit's burst`},
		{"50", 1 << 62, 0, `limit "quota": cost in header:X-Cost: the request costs more than the 1000 tokens that ever pass at once: ask for less at a time, or raise the limit's burst`},
		{"51", 1, 0, `limit "quota": cost in header:X-Cost: "51": want a whole number from 2 to 50`},
		{"1", 1, 0, `limit "quota": cost in header:X-Cost: "1": want a whole number from 2 to 50`},
		{"0", 1, 0, `limit "quota": cost in header:X-Cost: "0": want a whole number from 2 to 50`},
		{"-5", 1, 0, `limit "quota": cost in header:X-Cost: "-5": want a whole number from 2 to 50`},
		{"1.5", 1, 0, `limit "quota": cost in header:X-Cost: "1.5": want a whole number from 2 to 50`},
		{"many\n", 1, 0, `limit "quota": cost in header:X-Cost: "many\n": want a whole number from 2 to 50`},
		{"99999999999999999999", 1, 0, `limit "quota": cost in header:X-Cost: "99999999999999999999": want a whole number from 2 to 50`},
	} {
		var v Verdict
		ask := attributesOf("header:X-Cost", test.header, "tenant", fmt.Sprint(i))
		err := e.Decide(context.Background(), Request{Attributes: ask, N: test.n}, &v)
		if test.err == "" {
			if err != nil || v.Results[0].Cost != test.cost {
				t.Errorf("cost %q x %d = %v, %v, want %d", test.header, test.n, v.Results, err, test.cost)
			}
			continue
		}
		var cost *CostError
		if !errors.As(err, &cost) || err.Error() != test.err || cost.Limit != "quota" {
			t.Errorf("cost %q x %d: error = %v, want %s", test.header, test.n, err, test.err)
		}
		if over := strings.Contains(test.err, "costs more"); errors.Is(err, sluice.ErrCost) != over {
			t.Errorf("cost %q x %d: is ErrCost: %v, want %v", test.header, test.n, !over, over)
		}
		if v.Allowed {
			t.Error("a verdict of an error allows")
		}
	}
}

// A cost over the burst that no header said is told without naming one.
func TestCostOfAmount(t *testing.T) {
	e := newEngine(t, &specStore{}, Limit{Name: "a", Default: perSecond(10)})
	err := e.Decide(context.Background(), Request{N: 11}, &Verdict{})
	want := `limit "a": the request costs more than the 10 tokens that ever pass at once: ask for less at a time, or raise the limit's burst`
	if err == nil || err.Error() != want || !errors.Is(err, sluice.ErrCost) {
		t.Errorf("error = %v, want %s", err, want)
	}
	if err := e.Decide(context.Background(), Request{N: -1}, &Verdict{}); !errors.Is(err, sluice.ErrCharge) {
		t.Errorf("error = %v, want %v", err, sluice.ErrCharge)
	}
}

// A shadow never fails a request.
func TestShadowWithImpossibleCost(t *testing.T) {
	store := &specStore{}
	e := newEngine(t, store,
		Limit{Name: "real", Default: perSecond(100)},
		Limit{Name: "shadow", Default: perSecond(10), Shadow: true, Cost: Cost{Attribute: "header:X-Cost"}},
	)
	for _, header := range []string{"11", "nonsense"} {
		v := decide(t, e, 1, "header:X-Cost", header)
		if !v.Allowed || v.Results[1].Decision.Allowed || v.Results[1].Decision.Limit != 10 || v.Results[1].Decision.Remaining != 10 {
			t.Errorf("cost %s: verdict = %+v", header, v.Results)
		}
		if store.last[1].N != 0 {
			t.Errorf("cost %s: the shadow was charged %d", header, store.last[1].N)
		}
	}
}

func TestWithout(t *testing.T) {
	e := newEngine(t, &specStore{},
		Limit{Name: "ip", Key: []string{"ip"}, Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"*"}}}, Limit: perSecond(100)},
		}},
		Limit{Name: "tenant", Key: []string{"tenant"}},
		Limit{Name: "plan", Match: []Condition{{"tenant", []string{"a*"}}}},
		Limit{Name: "cost", Cost: Cost{Attribute: "tenant"}},
		Limit{Name: "everyone"},
	)
	asked := false
	ask := func(name string) string {
		asked = asked || name == "tenant"
		return "a"
	}
	var v Verdict
	if err := e.Decide(context.Background(), Request{Attributes: ask, N: 1, Without: "tenant"}, &v); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range v.Results {
		names = append(names, r.Limit.Name)
	}
	if diff := cmp.Diff([]string{"ip", "everyone"}, names); diff != "" {
		t.Error(diff)
	}
	if asked || v.Results[0].Rule != nil {
		t.Error("the attribute that is not known was asked for, or matched")
	}
}

func TestAttributesAreAskedOnce(t *testing.T) {
	e := newEngine(t, &specStore{},
		Limit{Name: "a", Key: []string{"tenant", "route"}, Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"x*"}}, {"route", []string{"r"}}}, Limit: perSecond(1)},
			{Match: []Condition{{"ip", []string{"10.0.0.0/8"}}}, Limit: perSecond(1)},
		}},
		Limit{Name: "b", Key: []string{"tenant", "header:x-plan"}},
		Limit{Name: "c", Key: []string{"header:X-PLAN"}},
	)
	counts := map[string]int{}
	var v Verdict
	ask := func(name string) string { counts[name]++; return "" }
	if err := e.Decide(context.Background(), Request{Attributes: ask, N: 1}, &v); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"tenant": 1, "route": 1, "ip": 1, "header:X-Plan": 1}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
}

func TestDecideStoreError(t *testing.T) {
	store := &specStore{fail: errors.New("connection refused")}
	e := newEngine(t, store, Limit{Name: "a"})
	v := Verdict{Allowed: true}
	if err := e.Decide(context.Background(), Request{N: 1}, &v); !errors.Is(err, store.fail) || v.Allowed {
		t.Errorf("error = %v, allowed %v", err, v.Allowed)
	}
}

// shortStore breaks the contract.
type shortStore struct{}

func (shortStore) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	return dst, nil
}

func TestDecideStoreAnswersTooLittle(t *testing.T) {
	e := newEngine(t, shortStore{}, Limit{Name: "a"})
	if err := e.Decide(context.Background(), Request{N: 1}, &Verdict{}); err == nil {
		t.Error("no error for a store that answers no charge")
	}
}

// H121: a new limit applies at once and keeps what was used.
func TestCaseH121LoweredLimitAppliesAtOnce(t *testing.T) {
	limit := func(n int64) *Set {
		s, err := NewSet([]Limit{{Name: "a", Default: sluice.Limit{Tokens: n, Per: time.Minute, Algorithm: sluice.FixedWindow}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	e := NewEngine(&specStore{}, limit(100))
	decide(t, e, 7)
	e.Swap(limit(10))
	if got := decide(t, e, 0).Results[0].Decision.Remaining; got != 3 {
		t.Errorf("remaining = %d, want 10 - 7", got)
	}
}

// H123, H124: a reload keeps the counters of unchanged limits and applies
// changed ones.
func TestCaseH123ReloadKeepsCounters(t *testing.T) {
	load := func(override int64) *Set {
		s, err := NewSet([]Limit{{
			Name: "a", Key: []string{"tenant"}, Default: perSecond(10),
			Overrides: []Rule{{Match: []Condition{{"tenant", []string{"b"}}}, Limit: perSecond(override)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	e := NewEngine(&specStore{}, load(10))
	decide(t, e, 10, "tenant", "a")
	for range 100 {
		e.Swap(load(20))
		if v := decide(t, e, 1, "tenant", "a"); v.Allowed {
			t.Fatal("a reload refilled the bucket")
		}
	}
	if got := decide(t, e, 0, "tenant", "b").Results[0].Decision.Limit; got != 20 {
		t.Errorf("limit = %d after a reload, want 20", got)
	}
}

// H127: under load every request sees one whole set.
func TestCaseH127SwapIsAtomic(t *testing.T) {
	load := func(n int64, attributes ...string) *Set {
		var limits []Limit
		for _, a := range attributes {
			limits = append(limits, Limit{Name: "by-" + a, Key: []string{a}, Default: perSecond(n)})
		}
		s, err := NewSet(limits)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sets := []*Set{load(1000, "ip"), load(2000, "tenant", "route", "ip"), load(3000, "route", "tenant")}
	e := NewEngine(&specStore{}, sets[0])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var v Verdict
			for range 2000 {
				if err := e.Decide(context.Background(), Request{Attributes: attributesOf("ip", "i", "tenant", "t", "route", "r"), N: 1}, &v); err != nil {
					t.Error(err)
					return
				}
				for _, r := range v.Results {
					if want := map[int64]int{1000: 1, 2000: 3, 3000: 2}[r.Decision.Limit]; want != len(v.Results) {
						t.Errorf("%d results with a limit of %d", len(v.Results), r.Decision.Limit)
						return
					}
				}
			}
		})
	}
	for i := range 2000 {
		e.Swap(sets[i%3])
	}
	wg.Wait()
}

// A verdict used again holds nothing of the request before.
func TestVerdictIsReusable(t *testing.T) {
	limits := func(name string) []Limit {
		return []Limit{
			{Name: name, Key: []string{"tenant"}, Default: perSecond(10)},
			{Name: "free", Key: []string{"ip"}, Unlimited: true, Overrides: []Rule{
				{Match: []Condition{{"ip", []string{"10.0.0.0/8"}}}, Limit: perSecond(1)},
			}},
		}
	}
	e := newEngine(t, &specStore{}, limits("a")...)
	var v Verdict
	for _, ip := range []string{"10.0.0.1", "192.0.2.1", "10.0.0.2", ""} {
		r := Request{Attributes: attributesOf("tenant", ip, "ip", ip), N: 1}
		if err := e.Decide(context.Background(), r, &v); err != nil {
			t.Fatal(err)
		}
		var fresh Verdict
		r.N = 0
		if err := e.Decide(context.Background(), r, &fresh); err != nil {
			t.Fatal(err)
		}
		opts := cmp.Options{cmpopts.IgnoreUnexported(Verdict{}, Found{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Result{}, "Cost", "Decision")}
		if diff := cmp.Diff(fresh, v, opts); diff != "" {
			t.Errorf("%q: used and fresh verdict differ:\n%s", ip, diff)
		}
	}
}

// freeStore allows everything and allocates nothing.
type freeStore struct{}

func (freeStore) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for range charges {
		dst = append(dst, sluice.Decision{Allowed: true})
	}
	return dst, nil
}

func TestDecideAllocatesOnlyTheKeys(t *testing.T) {
	e := newEngine(t, freeStore{},
		Limit{Name: "a", Key: []string{"tenant", "route"}, Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"shop-*"}}, {"route", []string{"x", "r"}}}, Limit: perSecond(5)},
			{Match: []Condition{{"ip", []string{"2001:db8::/32", "10.0.0.0/8"}}}, Limit: perSecond(5)},
		}},
		Limit{Name: "b", Key: []string{"ip"}, Shadow: true, Cost: Cost{Attribute: "header:X-Cost"}},
		Limit{Name: "c", Key: []string{"header:Authorization"}},
	)
	long := strings.Repeat("x", 100)
	ask := func(name string) string {
		switch name {
		case "tenant":
			return "shop-a"
		case "route":
			return "r"
		case "ip":
			return "2001:db8::1"
		case "header:X-Cost":
			return "7"
		}
		return long
	}
	var v Verdict
	r := Request{Attributes: ask, N: 1}
	allocations := testing.AllocsPerRun(1000, func() {
		if err := e.Decide(context.Background(), r, &v); err != nil || !v.Allowed || len(v.Results) != 3 {
			t.Fatal(err, v.Results)
		}
	})
	if allocations > 1 {
		t.Errorf("%v allocations, want 1: the keys", allocations)
	}
}

func BenchmarkDecide(b *testing.B) {
	e := newEngine(b, freeStore{}, manyRules(1000)...)
	var v Verdict
	r := Request{Attributes: attributesOf("tenant", "shop-77", "route", "list-orders"), N: 1}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Decide(context.Background(), r, &v); err != nil {
			b.Fatal(err)
		}
	}
}
