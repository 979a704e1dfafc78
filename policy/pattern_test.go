package policy

import (
	"fmt"
	"testing"
)

// matchesOne says whether a request with one attribute meets a limit that asks
// for some patterns of it.
func matchesOne(t *testing.T, value string, patterns ...string) bool {
	t.Helper()
	s, err := NewSet([]Limit{{Name: "x", Match: []Condition{{"a", patterns}}, Default: perSecond(1)}})
	if err != nil {
		t.Fatal(err)
	}
	var q reader
	q.begin(s, &Request{Attributes: attributesOf("a", value)})
	return s.limits[0].matches(&q)
}

// G115: one address has one meaning, however a rule writes it.
func TestAddressesOfRulesAreCompared(t *testing.T) {
	for pattern, value := range map[string]string{
		"::ffff:192.0.2.1": "192.0.2.1",
		"2001:DB8:0:0::1":  "2001:db8::1",
		"192.0.2.1":        "192.0.2.1",
		"unknown":          "unknown",
	} {
		s, err := NewSet([]Limit{{Name: "x", Match: []Condition{{"ip", []string{pattern}}}, Default: perSecond(1)}})
		if err != nil {
			t.Fatal(err)
		}
		var q reader
		q.begin(s, &Request{Attributes: attributesOf("ip", value)})
		if !s.limits[0].matches(&q) {
			t.Errorf("ip: %s does not match %s", pattern, value)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern string
		yes, no []string
	}{
		{"shop-a", []string{"shop-a"}, []string{"", "shop-", "shop-ab", "Shop-a"}},
		{"", []string{""}, []string{"x"}},
		{"*", []string{"x", "*"}, []string{""}},
		{"***", []string{"x"}, []string{""}},
		{"shop-*", []string{"shop-", "shop-a"}, []string{"", "shop", "a-shop-"}},
		{"*-eu", []string{"-eu", "a-eu"}, []string{"a-eu-", "eu"}},
		{"a*b*c", []string{"abc", "axxbxxc", "abbc", "abcbc"}, []string{"ac", "abcx", "xabc"}},
		{"a*a", []string{"aa", "aba"}, []string{"a", "ab"}},
		{"*a*b*", []string{"ab", "xaxbx"}, []string{"ba", ""}},
		{"*ab*b", []string{"abb", "abab"}, []string{"ab", "abba"}},
		{`a\*`, []string{"a*"}, []string{"a", `a\*`, "ab"}},
		{`\**`, []string{"*", "*x"}, []string{"x", `\*`}},
		{`a\\*`, []string{`a\`, `a\b`}, []string{"a*", "a"}},
		{`a\b`, []string{`a\b`}, []string{"ab"}},
		{`a\`, []string{`a\`}, []string{"a"}},
		{"10.0.0.0/8", []string{"10.1.2.3", "::ffff:10.1.2.3", "10.0.0.0/8", "10.9.0.0/16"}, []string{"11.0.0.1", "", "10.0.0", "10.1.2.3:80", "::10.1.2.3", "0.0.0.0/0"}},
		{"::ffff:10.0.0.0/104", []string{"10.1.2.3", "::ffff:10.1.2.3"}, []string{"11.0.0.1"}},
		{"2001:db8::/32", []string{"2001:db8::1", "2001:DB8:1::", "2001:db8:0:1::/64", "2001:db8::1%eth0"}, []string{"2001:db9::1", "32.1.13.184", "2001::/16"}},
		{"0.0.0.0/0", []string{"1.2.3.4"}, []string{"::1", "x", ""}},
		{"::/0", []string{"::1"}, []string{"1.2.3.4", "::ffff:1.2.3.4"}},
		{"192.0.2.1/32", []string{"192.0.2.1"}, []string{"192.0.2.2"}},
		{"192.0.2.1", []string{"192.0.2.1"}, []string{"::ffff:192.0.2.1"}},
		{"/orders/8", []string{"/orders/8"}, []string{"/orders/"}},
	} {
		for _, value := range test.yes {
			if !matchesOne(t, value, test.pattern) {
				t.Errorf("pattern %q does not match %q", test.pattern, value)
			}
		}
		for _, value := range test.no {
			if matchesOne(t, value, test.pattern) {
				t.Errorf("pattern %q matches %q", test.pattern, value)
			}
		}
	}
	if !matchesOne(t, "b", "a", "b", "10.0.0.0/8") || !matchesOne(t, "10.0.0.1", "a", "b", "10.0.0.0/8") || matchesOne(t, "c", "a", "b") {
		t.Error("a list does not match any of its values")
	}
}

// The most specific override wins, then the one that stands first.
func TestPrecedence(t *testing.T) {
	override := func(pairs ...string) Rule {
		r := Rule{Limit: perSecond(1)}
		for i := 0; i+1 < len(pairs); i += 2 {
			r.Match = append(r.Match, Condition{pairs[i], []string{pairs[i+1]}})
		}
		return r
	}
	s, err := NewSet([]Limit{{Name: "x", Default: perSecond(1), Overrides: []Rule{
		0: override("tenant", "*"),
		1: override("route", "r"),
		2: override("tenant", "a"),
		3: override("tenant", "*", "route", "*", "ip", "*"),
		4: override("tenant", "a*", "route", "s*"),
		5: override("tenant", "a", "route", "s"),
		6: override("tenant", "b", "route", "*"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tenant, route, ip string
		want              int
	}{
		{"", "", "", -1},
		{"z", "", "", 0},
		{"z", "z", "z", 0},  // a lone star does not count, so that the first wins
		{"z", "r", "", 1},   // one attribute beats a star
		{"a", "r", "", 1},   // one against one: the first
		{"a", "", "", 2},    //
		{"a", "s", "", 4},   // two beat one; of two the first
		{"ab", "s", "x", 4}, // three stars count nothing
		{"b", "z", "", 6},
	} {
		ask := attributesOf("tenant", test.tenant, "route", test.route, "ip", test.ip)
		if got := ruleFor(s, 0, ask); got != test.want {
			t.Errorf("rule for %q %q %q = %d, want %d", test.tenant, test.route, test.ip, got, test.want)
		}
	}
}

// Ten thousand globs of a few lengths are a few tables, not ten thousand tries.
func TestManyGlobsAreFewShapes(t *testing.T) {
	l := Limit{Name: "x", Key: []string{"tenant"}, Default: perSecond(1)}
	for i := range 10_000 {
		pattern := fmt.Sprintf("org-%05d-*", i)
		if i%2 == 0 {
			pattern = fmt.Sprintf("*-%05d", i)
		}
		l.Overrides = append(l.Overrides, Rule{Match: []Condition{{"tenant", []string{pattern}}}, Limit: perSecond(1)})
	}
	s, err := NewSet([]Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.limits[0].overrides.shapes); n != 2 {
		t.Errorf("%d shapes, want 2", n)
	}
	if got := ruleFor(s, 0, attributesOf("tenant", "org-09999-x")); got != 9999 {
		t.Errorf("rule = %d, want 9999", got)
	}
	if got := ruleFor(s, 0, attributesOf("tenant", "x-09998")); got != 9998 {
		t.Errorf("rule = %d, want 9998", got)
	}
}

// Globs without literal ends share a bucket: slower, and still right.
func TestManyGlobsOfOneBucket(t *testing.T) {
	l := Limit{Name: "x", Key: []string{"tenant"}, Default: perSecond(1)}
	for i := range 10_000 {
		l.Overrides = append(l.Overrides, Rule{Match: []Condition{{"tenant", []string{fmt.Sprintf("*x%05d*", i%9_000)}}}, Limit: perSecond(1)})
	}
	s, err := NewSet([]Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	if got := ruleFor(s, 0, attributesOf("tenant", "ax08999b")); got != 8999 {
		t.Errorf("rule = %d, want 8999", got)
	}
	if n := len(s.limits[0].hidden); n != 1000 {
		t.Errorf("%d overrides repeat one before, want 1000", n)
	}
}
