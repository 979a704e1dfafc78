package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func asks(pairs ...string) Attributes {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestExplain(t *testing.T) {
	both := []string{"tenant", "route"}
	set := mustSet(t,
		Limit{Name: "x", Key: both, Default: perSecond(1), Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"a"}}, {"route", []string{"r"}}}, Limit: perSecond(2)},
			{Match: []Condition{{"tenant", []string{"a"}}}, Limit: perSecond(3)},
			{Match: []Condition{{"tenant", []string{"a*", "b"}}}, Limit: perSecond(4)},
			{Match: []Condition{{"tenant", []string{"z"}}}, Limit: perSecond(5)},
		}},
		Limit{Name: "login", Match: []Condition{{"route", []string{"login"}}}, Key: []string{"tenant"}, Default: perSecond(1)},
	)
	until := time.Now().Add(time.Hour)
	set = with(set,
		Row{ID: 1, Tenant: "a", Route: "r", Capacity: 6, Refill: 6},
		Row{ID: 2, Tenant: "a", Route: "r", Capacity: 7, Refill: 7, Expires: until},
		Row{ID: 3, Tenant: "a", Route: "r", Capacity: 8, Refill: 8, Expires: until},
		Row{ID: 4, Tenant: "*", Route: "r", Capacity: 9, Refill: 9},
		Row{ID: 5, Tenant: "a", Route: "*", Capacity: 9, Refill: 9},
		Row{ID: 6, Tenant: "b", Route: "*", Capacity: 9, Refill: 9},
	)
	all := set.Explain(Request{Attributes: asks("tenant", "a", "route", "r")})
	if len(all) != 2 || !all[0].Met || all[1].Met || !slices.Equal(all[1].Unmet, []string{"route"}) {
		t.Fatalf("Explain = %+v", all)
	}
	if r, _ := all[0].Chosen.Row.Row(); r.ID != 3 || !strings.Contains(all[0].Chosen.Why, "tenant, route") {
		t.Errorf("chosen %+v, want row 3", all[0].Chosen)
	}
	want := []string{
		"the one with the larger id wins: 3 over 2", "a row that expires wins", "a row of the table wins over an override",
		"it matches 1 of", "it matches 1 of", "it matches 1 of", "it matches 1 of",
	}
	if len(all[0].Lost) != len(want) {
		t.Fatalf("%d lost: %+v, want %d", len(all[0].Lost), all[0].Lost, len(want))
	}
	for i, c := range all[0].Lost {
		if !strings.Contains(c.Why, want[i]) {
			t.Errorf("lost %d: %q, want %q", i, c.Why, want[i])
		}
	}
	all = set.Explain(Request{Attributes: asks("tenant", "aa", "route", "q")})
	if all[0].Chosen.Limit != perSecond(4) || len(all[0].Lost) != 0 {
		t.Errorf("chosen %+v, want the pattern a*", all[0].Chosen)
	}
	all = set.Explain(Request{Attributes: asks("tenant", "q", "route", "login")})
	if !all[1].Met || !strings.Contains(all[1].Chosen.Why, "the default") || all[1].Chosen.Limit != perSecond(1) {
		t.Errorf("%+v, want the default", all[1])
	}
	all = set.Explain(Request{Attributes: asks("route", "login"), Without: "tenant"})
	if all[1].Met || !slices.Equal(all[1].Unmet, []string{"tenant"}) {
		t.Errorf("%+v, want that tenant is lacking", all[1])
	}
}

// What is explained is what is decided.
func TestExplainAsDecided(t *testing.T) {
	value := rapid.SampledFrom([]string{"", "a", "b", "ab", "ba", "aba"})
	patterns := rapid.SliceOfN(rapid.SampledFrom([]string{"*", "a", "b", "a*", "*a", "a*b*", "*b*", "ab"}), 1, 3)
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Name: "x", Key: []string{"tenant", "route"}, Default: perSecond(1000)}
		for i := range rapid.IntRange(0, 6).Draw(t, "overrides") {
			var match []Condition
			for _, name := range []string{"tenant", "route"} {
				if rapid.Bool().Draw(t, "asks") {
					match = append(match, Condition{name, patterns.Draw(t, "patterns")})
				}
			}
			if len(match) > 0 {
				l.Overrides = append(l.Overrides, Rule{Match: match, Limit: perSecond(int64(i + 1))})
			}
		}
		set, err := NewSet([]Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		var rows []Row
		for i := range rapid.IntRange(0, 6).Draw(t, "rows") {
			r := Row{ID: int64(i), Tenant: "*", Route: "*", Capacity: int64(i + 100), Refill: 1}
			if rapid.Bool().Draw(t, "tenant") {
				r.Tenant = value.Draw(t, "tenant")
			}
			if rapid.Bool().Draw(t, "route") {
				r.Route = value.Draw(t, "route")
			}
			rows = append(rows, r)
		}
		set = with(set, rows...)
		request := Request{Attributes: asks("tenant", value.Draw(t, "t"), "route", value.Draw(t, "r"))}
		var v Verdict
		if err := NewEngine(memory.New(memory.Options{}), set).Decide(context.Background(), request, &v); err != nil {
			t.Fatal(err)
		}
		x := set.Explain(request)[0]
		if got := v.Results[0]; x.Chosen.Limit != got.Effective || x.Chosen.Rule != got.Rule {
			t.Fatalf("explained %+v, decided %+v", x.Chosen, got)
		}
	})
}

func TestForget(t *testing.T) {
	set := mustSet(t,
		Limit{Name: "x", Key: []string{"tenant"}, Default: perSecond(1)},
		Limit{Name: "y", Key: []string{"route"}, Default: perSecond(1)},
	)
	e := NewEngine(memory.New(memory.Options{}), set)
	request := Request{Attributes: asks("tenant", "a", "route", "r"), N: 1}
	var v Verdict
	left := func() (x, y int64) {
		t.Helper()
		peek := request
		peek.N = 0
		if err := e.Decide(t.Context(), peek, &v); err != nil {
			t.Fatal(err)
		}
		return v.Results[0].Decision.Remaining, v.Results[1].Decision.Remaining
	}
	if err := e.Decide(t.Context(), request, &v); err != nil {
		t.Fatal(err)
	}
	results, err := e.Forget(t.Context(), request, func(l *Limit) bool { return l.Name == "x" })
	if err != nil || len(results) != 1 || results[0].Key != "x|tenant=a" {
		t.Fatalf("Forget = %+v, %v", results, err)
	}
	if x, y := left(); x != 1 || y != 0 {
		t.Errorf("%d and %d left, want 1 and 0", x, y)
	}
	if results, err := e.Forget(t.Context(), request, func(*Limit) bool { return false }); err != nil || results != nil {
		t.Errorf("Forget of nothing = %v, %v", results, err)
	}
	if _, err := NewEngine(onlyTake{}, set).Forget(t.Context(), request, func(*Limit) bool { return true }); !errors.Is(err, ErrNoForget) {
		t.Errorf("Forget = %v, want ErrNoForget", err)
	}
}

// onlyTake is a store without further abilities.
type onlyTake struct{}

func (onlyTake) Take(context.Context, []sluice.Decision, []sluice.Charge) ([]sluice.Decision, error) {
	return nil, nil
}
