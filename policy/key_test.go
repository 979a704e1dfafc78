package policy

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func keyOf(t testing.TB, l Limit, pairs ...string) string {
	t.Helper()
	if l.Default.Tokens == 0 {
		l.Default = perSecond(10)
	}
	s, err := NewSet([]Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	var q reader
	q.begin(s, &Request{Attributes: attributesOf(pairs...)})
	key, _ := s.limits[0].appendKey(nil, &q)
	return string(key)
}

func TestKeys(t *testing.T) {
	tenantRoute := Limit{Name: "tenant-route", Key: []string{"tenant", "route"}}
	for _, test := range []struct {
		name  string
		limit Limit
		pairs []string
		want  string
	}{
		{"plain", tenantRoute, []string{"tenant", "shop-a", "route", "create-order"}, "tenant-route|tenant=shop-a|route=create-order"},
		{"no attributes", Limit{Name: "everyone"}, nil, "everyone"},
		{"empty value", tenantRoute, []string{"route", "x"}, "tenant-route|tenant=|route=x"},
		{"structure", tenantRoute, []string{"tenant", "a|route=b", "route", "{x}%"}, "tenant-route|tenant=a%7Croute=b|route=%7Bx%7D%25"},
		{"equals sign", tenantRoute, []string{"tenant", "a=b", "route", "c"}, "tenant-route|tenant=a=b|route=c"},
		{"controls", tenantRoute, []string{"tenant", "a\x00b\n", "route", " \x7f"}, "tenant-route|tenant=a%00b%0A|route=%20%7F"},
		{"UTF-8", tenantRoute, []string{"tenant", "cửa-hàng", "route", "🛒"}, "tenant-route|tenant=cửa-hàng|route=🛒"},
		{"not UTF-8", tenantRoute, []string{"tenant", "a\xffb", "route", "\xe2\x82"}, "tenant-route|tenant=a%FFb|route=%E2%82"},
		{"the replacement character itself", tenantRoute, []string{"tenant", "\ufffd", "route", ""}, "tenant-route|tenant=\ufffd|route="},
		{"leading hash", tenantRoute, []string{"tenant", "#a#", "route", "b#"}, "tenant-route|tenant=%23a#|route=b#"},
		{"address", Limit{Name: "login", Key: []string{"ip"}}, []string{"ip", "2001:db8::1"}, "login|ip=2001:db8::1"},
		{"64 bytes", Limit{Name: "x", Key: []string{"a"}}, []string{"a", strings.Repeat("y", 64)}, "x|a=" + strings.Repeat("y", 64)},
		{"65 bytes", Limit{Name: "x", Key: []string{"a"}}, []string{"a", strings.Repeat("y", 65)}, "x|a=#47d3f08f8a9c7bc3f7ddd4c4bfb1c8d7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := keyOf(t, test.limit, test.pairs...)
			if test.name == "65 bytes" {
				if len(got) != len(test.want) || !strings.HasPrefix(got, "x|a=#") {
					t.Errorf("key = %q, want # and 32 digits", got)
				}
			} else if got != test.want {
				t.Errorf("key = %q, want %q", got, test.want)
			}
		})
	}
}

// G101: a joined key is ambiguous.
func TestCaseG101KeysAreInjective(t *testing.T) {
	l := Limit{Name: "x", Key: []string{"a", "b"}}
	if one, two := keyOf(t, l, "a", "a:b", "b", "c"), keyOf(t, l, "a", "a", "b", "b:c"); one == two {
		t.Errorf("both keys are %q", one)
	}
}

// G103: identity and address share a namespace.
func TestCaseG103KindsOfIdentityAreApart(t *testing.T) {
	user := keyOf(t, Limit{Name: "x", Key: []string{"user"}}, "user", "127.0.0.1")
	ip := keyOf(t, Limit{Name: "x", Key: []string{"ip"}}, "ip", "127.0.0.1")
	if user == ip {
		t.Errorf("both keys are %q", user)
	}
}

// G104: a key cut to a common beginning.
func TestCaseG104LongValuesDiffer(t *testing.T) {
	l := Limit{Name: "x", Key: []string{"tenant"}}
	long := "tess_live_" + strings.Repeat("x", 100)
	for _, pair := range [][2]string{{"tess_live_A", "tess_live_B"}, {long + "A", long + "B"}} {
		if one, two := keyOf(t, l, "tenant", pair[0]), keyOf(t, l, "tenant", pair[1]); one == two {
			t.Errorf("both keys are %q", one)
		}
	}
}

// G106: two limits on one address share a counter.
func TestCaseG106LimitsAreApart(t *testing.T) {
	one := keyOf(t, Limit{Name: "fast", Key: []string{"ip"}}, "ip", "192.0.2.1")
	two := keyOf(t, Limit{Name: "slow", Key: []string{"ip"}}, "ip", "192.0.2.1")
	if one == two {
		t.Errorf("both keys are %q", one)
	}
}

// G108, G109: what the counter depends on is the limit's name and key, not the
// version of the configuration, the limit's size or the route.
func TestCaseG108KeysOutliveConfiguration(t *testing.T) {
	before := Limit{Name: "consumer", Key: []string{"tenant"}, Default: perSecond(10), Source: "a.yaml:2"}
	after := before
	after.Default, after.Source, after.Shadow = perSecond(99), "b.yaml:7", true
	after.Overrides = []Rule{{Match: []Condition{{"tenant", []string{"a"}}}, Limit: perSecond(5)}}
	one := keyOf(t, before, "tenant", "a", "route", "x")
	if two := keyOf(t, after, "tenant", "a", "route", "y"); one != two {
		t.Errorf("keys are %q and %q, want one", one, two)
	}
}

// G120: long and binary values.
func TestCaseG120LongAndBinaryValues(t *testing.T) {
	l := Limit{Name: "x", Key: []string{"header:X-Big"}}
	for _, value := range []string{strings.Repeat("k", 64<<10), "a\x00b\nc", "\xff\xfe", "ключ", strings.Repeat("\x00", 64)} {
		key := keyOf(t, l, "header:X-Big", value)
		if len(key) > len("x|header:X-Big=")+3*maxValue {
			t.Errorf("key of %d bytes for a value of %d", len(key), len(value))
		}
		if !utf8.ValidString(key) || strings.ContainsAny(key, "\x00\n\r {}") {
			t.Errorf("key %q is not safe", key)
		}
	}
}

// The values of headers that open doors stay out of keys.
func TestSecretHeadersAreHashed(t *testing.T) {
	for _, header := range []string{"header:authorization", "header:X-API-Key", "header:cookie"} {
		key := keyOf(t, Limit{Name: "x", Key: []string{header}}, canonical(header), "hunter2")
		if strings.Contains(key, "hunter2") || !strings.Contains(key, "=#") {
			t.Errorf("key = %q, want a hash of the value", key)
		}
	}
}

// decodeKey undoes the encoding of values that are not hashed. That it can be
// undone proves that no two requests share a key.
func decodeKey(key string) (name string, values []string) {
	parts := strings.Split(key, "|")
	for _, part := range parts[1:] {
		_, value, _ := strings.Cut(part, "=")
		var b strings.Builder
		for i := 0; i < len(value); i++ {
			c := value[i]
			if c == '%' {
				c = byte(strings.IndexByte(hexDigits, value[i+1])<<4 | strings.IndexByte(hexDigits, value[i+2]))
				i += 2
			}
			b.WriteByte(c)
		}
		values = append(values, b.String())
	}
	return parts[0], values
}

func FuzzKey(f *testing.F) {
	f.Add("a:b", "c")
	f.Add("", "#")
	f.Add("%7C|", "{\x00}\xff")
	f.Add(strings.Repeat("x", 64), strings.Repeat("x", 65))
	s, err := NewSet([]Limit{{Name: "n", Key: []string{"a", "b"}, Default: perSecond(1)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		var q reader
		q.begin(s, &Request{Attributes: attributesOf("a", a, "b", b)})
		key, c := s.limits[0].appendKey(nil, &q)
		if c.end != len(key) || !utf8.Valid(key) || len(key) > 10+6*maxValue {
			t.Fatalf("key %q is cut wrong, not UTF-8 or too long", key)
		}
		if strings.ContainsAny(string(key), "{}\x7f ") || strings.ContainsFunc(string(key), func(r rune) bool { return r < 0x21 }) {
			t.Fatalf("key %q is not safe", key)
		}
		name, values := decodeKey(string(key))
		if name != "n" || len(values) != 2 {
			t.Fatalf("key %q reads as %q %q", key, name, values)
		}
		for i, want := range []string{a, b} {
			hashed := strings.HasPrefix(strings.Split(string(key), "|")[i+1][2:], "#")
			if hashed != (len(want) > maxValue) || !hashed && values[i] != want {
				t.Fatalf("key %q: value %d reads as %q, want %q", key, i, values[i], want)
			}
		}
	})
}
