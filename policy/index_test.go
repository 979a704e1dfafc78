package policy

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"pgregory.net/rapid"
)

func perSecond(n int64) sluice.Limit { return sluice.Limit{Tokens: n, Per: time.Second} }

// attributesOf reads "name", "value" pairs.
func attributesOf(pairs ...string) Attributes {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// ruleFor returns the number of the override in force by the index; -1: none.
func ruleFor(s *Set, limit int, ask Attributes) int {
	var q reader
	q.begin(s, &Request{Attributes: ask})
	l := &s.limits[limit]
	if l.overrides == nil {
		return -1
	}
	if rule, _ := l.overrides.find(&q); rule != none {
		return int(rule)
	}
	return -1
}

// A small alphabet makes overlaps likely.
var (
	genPattern = rapid.OneOf(
		rapid.StringMatching(`[ab]{0,3}`),
		rapid.StringMatching(`[ab*]{1,5}`),
		rapid.StringMatching(`[ab*\\]{1,5}`),
		rapid.SampledFrom([]string{"*", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8:0:1::/64", "::ffff:10.0.0.0/104"}),
	)
	genValue = rapid.OneOf(
		rapid.StringMatching(`[ab]{0,5}`),
		rapid.StringMatching(`[ab*\\]{0,4}`),
		rapid.SampledFrom([]string{"10.1.2.3", "10.1.9.9", "10.9.9.9", "11.0.0.1", "::ffff:10.1.2.3", "2001:db8::1", "2001:db8:0:1::5", "2001:db8:0:1::/64", "fe80::1%eth0", "10.0.0.0/8"}),
	)
	genMatch = rapid.Custom(func(t *rapid.T) []Condition {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"tenant", "route", "peer"}), 1, 3, rapid.ID[string]).Draw(t, "names")
		match := make([]Condition, len(names))
		for i, name := range names {
			match[i] = Condition{Attribute: name, Patterns: rapid.SliceOfN(genPattern, 1, 3).Draw(t, "patterns")}
		}
		return match
	})
)

func TestIndexEqualsNaiveMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Name: "x", Default: perSecond(1)}
		for _, match := range rapid.SliceOfN(genMatch, 1, 30).Draw(t, "rules") {
			l.Overrides = append(l.Overrides, Rule{Match: match, Limit: perSecond(1)})
		}
		s, err := NewSet([]Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			ask := attributesOf("tenant", genValue.Draw(t, "tenant"), "route", genValue.Draw(t, "route"), "peer", genValue.Draw(t, "peer"))
			if got, want := ruleFor(s, 0, ask), naiveRule(&s.source[0], ask); got != want {
				t.Fatalf("rule for %q %q %q = %d, want %d", ask("tenant"), ask("route"), ask("peer"), got, want)
			}
		}
	})
}

// An override of which the set says that it never wins must never win.
func TestHiddenOverridesNeverWin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Name: "x", Default: perSecond(1)}
		for _, match := range rapid.SliceOfN(genMatch, 1, 30).Draw(t, "rules") {
			l.Overrides = append(l.Overrides, Rule{Match: match, Limit: perSecond(1)})
		}
		s, err := NewSet([]Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			ask := attributesOf("tenant", genValue.Draw(t, "tenant"), "route", genValue.Draw(t, "route"), "peer", genValue.Draw(t, "peer"))
			if rule := naiveRule(&s.source[0], ask); rule >= 0 {
				if first, ok := s.limits[0].hider(s, rule); ok {
					t.Fatalf("override %d wins for %q %q %q, but is said to be hidden by %d", rule, ask("tenant"), ask("route"), ask("peer"), first)
				}
			}
		}
	})
}

// manyRules returns a limit with an override for each of some tenants and
// three routes.
func manyRules(tenants int) []Limit {
	l := Limit{Name: "tenant-route", Key: []string{"tenant", "route"}, Default: perSecond(10)}
	for i := range tenants {
		for _, route := range []string{"create-order", "list-orders", "get-order"} {
			l.Overrides = append(l.Overrides, Rule{
				Match: []Condition{{"tenant", []string{"shop-" + strconv.Itoa(i)}}, {"route", []string{route}}},
				Limit: perSecond(100),
			})
		}
	}
	return []Limit{l}
}

func TestLoadingManyRules(t *testing.T) {
	limits := manyRules(100_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, err := NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perRule := (after.HeapAlloc - before.HeapAlloc) / 300_000
	if perRule > 100 {
		t.Errorf("the index takes %d bytes a rule, want at most 100", perRule)
	}
	if got := ruleFor(s, 0, attributesOf("tenant", "shop-99999", "route", "list-orders")); got != 99_999*3+1 {
		t.Errorf("rule = %d, want %d", got, 99_999*3+1)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, bench := range []struct {
		name    string
		tenants int
		globs   int
	}{{"rules=10", 3, 0}, {"rules=300000", 100_000, 0}, {"rules=300000,globs=10000", 100_000, 10_000}} {
		b.Run(bench.name, func(b *testing.B) {
			limits := manyRules(bench.tenants)
			for i := range bench.globs {
				limits[0].Overrides = append(limits[0].Overrides, Rule{
					Match: []Condition{{"tenant", []string{fmt.Sprintf("org%05d-*", i)}}},
					Limit: perSecond(1),
				})
			}
			s, err := NewSet(limits)
			if err != nil {
				b.Fatal(err)
			}
			names := make([]string, 1<<16)
			for i := range names {
				names[i] = "shop-" + strconv.Itoa(rand.IntN(100_000))
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
				if rule, _ := s.limits[0].override(&q); rule == nil && bench.tenants == 100_000 {
					b.Fatal("no rule")
				}
			}
		})
	}
}
