package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// A naive recomputation: a regular expression for the lines, a sort of the
// whole log, the root package's functions over a map. It must agree with the
// pipeline in every number.

type naiveRequest struct {
	at time.Time
	ip string
}

var naiveLine = regexp.MustCompile(`(?m)^(?:[a-z.]+:\d+ )?(\S+) \S+ [^"]*?\[([^\]]+)\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)(?: "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*".*)?\r?$`)

func naiveRead(t *testing.T, name string) (requests []naiveRequest, bad int64) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		m := naiveLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			bad++
			continue
		}
		when, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if err != nil {
			bad++
			continue
		}
		ip := m[1]
		if addr, err := netip.ParseAddr(ip); err == nil {
			if addr = addr.Unmap(); addr.Is6() {
				addr = netip.PrefixFrom(addr, 64).Masked().Addr()
			}
			ip = addr.String()
		}
		requests = append(requests, naiveRequest{when, ip})
	}
	slices.SortStableFunc(requests, func(a, b naiveRequest) int { return a.at.Compare(b.at) })
	return requests, bad
}

// naive replays one limit by ip.
func naive(t *testing.T, name string, l sluice.Limit) *Result {
	t.Helper()
	requests, bad := naiveRead(t, name)
	r := &Result{Requests: int64(len(requests)), BadLines: bad}
	states, keys := map[string]*sluice.State{}, map[string]*KeyResult{}
	meter, err := l.Meter()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range requests {
		if states[q.ip] == nil {
			states[q.ip], keys[q.ip] = &sluice.State{}, &KeyResult{Key: q.ip}
		}
		k := keys[q.ip]
		d := sluice.Decide(nil, []sluice.Charge{{Key: q.ip, Limit: l, N: 1}}, []sluice.Meter{meter},
			[]*sluice.State{states[q.ip]}, sluice.Ticks(q.at))
		switch {
		case d[0].Allowed:
			k.Allowed++
			r.Allowed++
		default:
			if r.Refused++; k.Refused == 0 {
				first := q.at.UTC()
				k.FirstRefused = &first
			}
			k.Refused++
		}
	}
	out := LimitResult{Name: "per-ip", Allowed: r.Allowed, Refused: r.Refused, Keys: int64(len(keys))}
	for _, k := range keys {
		out.Top = append(out.Top, *k)
	}
	slices.SortFunc(out.Top, func(a, b KeyResult) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Allowed, a.Allowed), cmp.Compare(a.Key, b.Key))
	})
	r.Keys, r.Limits = out.Keys, []LimitResult{out}
	return r
}

// core keeps of a result what the naive one computes.
func core(r *Result) *Result {
	out := &Result{Requests: r.Requests, Allowed: r.Allowed, Refused: r.Refused, BadLines: r.BadLines, LateLines: r.LateLines, Keys: r.Keys}
	for _, l := range r.Limits {
		kept := LimitResult{Name: l.Name, Allowed: l.Allowed, Refused: l.Refused, Keys: l.Keys, Top: slices.Clone(l.Top)}
		for i := range kept.Top {
			kept.Top[i].Peak = 0
		}
		out.Limits = append(out.Limits, kept)
	}
	return out
}

func TestRunAgreesWithNaive(t *testing.T) {
	for _, name := range logs(t) {
		for _, l := range []string{
			"30/m burst 10", "10/m", "2/s burst 3", "5/h sliding_log", "20/10m fixed_window", "20/m sliding_window",
			"40/day fixed_window calendar Asia/Ho_Chi_Minh",
		} {
			t.Run(name+"/"+l, func(t *testing.T) {
				got := replay(t, perIP(t, l), Options{Top: 1 << 20}, open(t, name))
				want := naive(t, name, limit(t, l))
				if want.Refused == 0 {
					t.Errorf("the limit refuses nothing, so this tests little")
				}
				// Equal results are told by DeepEqual, which is much faster.
				if kept := core(got); !reflect.DeepEqual(want, kept) {
					t.Errorf("naive and replay differ (-naive +replay):\n%s", gocmp.Diff(want, kept))
				}
			})
		}
	}
}

func TestRunRealLog(t *testing.T) {
	if len(logs(t)) < 2 {
		t.Skipf("%s is not there; the sample in testdata is tested by the other tests", realLog)
	}
	r := replay(t, perIP(t, "30/m burst 10"), Options{}, open(t, realLog))
	got := [...]int64{r.Lines, r.Requests, r.Allowed, r.Refused, r.BadLines, r.LateLines, r.Keys}
	if want := [...]int64{10000, 9999, 9740, 259, 1, 0, 1753}; got != want {
		t.Errorf("lines, requests, allowed, refused, bad, late, keys = %v, want %v", got, want)
	}
	if len(r.Bad) != 1 || r.Bad[0].Line != 8899 {
		t.Errorf("bad lines = %v, want line 8899, whose user agent is cut off", r.Bad)
	}
}

func TestResultJSON(t *testing.T) {
	r := replay(t, perIP(t, "1/m"), Options{}, text(at(0, "192.0.2.1"), at(1, "192.0.2.1"), at(2, "192.0.2.2"), "nonsense"))
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"requests": 3.0, "allowed": 2.0, "refused": 1.0, "bad_lines": 1.0, "late_lines": 0.0, "keys": 2.0,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %v, want %v", name, got[name], value)
		}
	}
	l := got["limits"].([]any)[0].(map[string]any)
	if l["name"] != "per-ip" || l["allowed"] != 2.0 || l["refused"] != 1.0 || l["keys"] != 2.0 {
		t.Errorf("limits[0] = %v", l)
	}
	top := l["top"].([]any)
	first, second := top[0].(map[string]any), top[1].(map[string]any)
	if first["key"] != "192.0.2.1" || first["allowed"] != 1.0 || first["refused"] != 1.0 || first["first_refused"] != "2023-11-14T22:13:21Z" {
		t.Errorf("top[0] = %v", first)
	}
	if value, ok := second["first_refused"]; !ok || value != nil {
		t.Errorf("top[1].first_refused = %v, %v, want null", value, ok)
	}
}

func TestResultJSONOfNothing(t *testing.T) {
	r := replay(t, set(t), Options{}, text(""))
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(encoded), `"limits":[]`) {
		t.Errorf("JSON = %s, want an empty list of limits", encoded)
	}
}

func TestShadowUnlimitedAndSeveralLimits(t *testing.T) {
	s := set(t,
		policy.Limit{Name: "shadow", Key: []string{"ip"}, Default: limit(t, "1/h"), Shadow: true},
		policy.Limit{Name: "wide", Default: limit(t, "3/h")},
		policy.Limit{
			Name: "narrow", Key: []string{"ip"}, Default: limit(t, "2/h"),
			Overrides: []policy.Rule{{Match: []policy.Condition{{Attribute: "ip", Patterns: []string{"192.0.2.9"}}}, Unlimited: true}},
		},
	)
	r := replay(t, s, Options{}, text(
		at(0, "192.0.2.1"), at(1, "192.0.2.1"), at(2, "192.0.2.1"), // the third is refused by narrow alone
		at(3, "192.0.2.9"), at(4, "192.0.2.9"))) // the second is refused by wide alone
	if r.Allowed != 3 || r.Refused != 2 {
		t.Errorf("allowed, refused = %d, %d, want 3, 2", r.Allowed, r.Refused)
	}
	type counts struct{ allowed, refused, keys, unlimited int64 }
	want := map[string]counts{"shadow": {2, 3, 2, 0}, "wide": {4, 1, 1, 0}, "narrow": {2, 1, 1, 2}}
	for _, l := range r.Limits {
		if got := (counts{l.Allowed, l.Refused, l.Keys, l.Unlimited}); got != want[l.Name] {
			t.Errorf("%s = %+v, want %+v", l.Name, got, want[l.Name])
		}
	}
	if r.Keys != 4 {
		t.Errorf("keys = %d, want 4", r.Keys)
	}
}

func TestCostErrorsAreCountedApart(t *testing.T) {
	s := set(t, policy.Limit{Name: "cost", Default: limit(t, "10/h"), Cost: policy.Cost{Attribute: "cost"}})
	r := replay(t, s, Options{}, text(
		`{"ts":1700000000,"ip":"192.0.2.1","cost":4}`,
		`{"ts":1700000001,"ip":"192.0.2.1","cost":11}`,
		`{"ts":1700000002,"ip":"192.0.2.1","cost":"many"}`,
		`{"ts":1700000003,"ip":"192.0.2.1","cost":7}`,
		`{"ts":1700000004,"ip":"192.0.2.1","cost":"6"}`))
	if r.Requests != 5 || r.Allowed != 2 || r.Refused != 1 || r.CostErrors != 2 {
		t.Errorf("requests, allowed, refused, cost errors = %d, %d, %d, %d, want 5, 2, 1, 2", r.Requests, r.Allowed, r.Refused, r.CostErrors)
	}
	if !strings.Contains(r.CostError, "cost") {
		t.Errorf("cost error = %q", r.CostError)
	}
	if peak := r.Limits[0].Top[0].Peak; peak != 17 {
		t.Errorf("peak = %d, want 17", peak)
	}
}

func TestKeysBeyondTheMostAreCountedTogether(t *testing.T) {
	r := replay(t, perIP(t, "1/h"), Options{MaxKeys: 2}, text(
		at(0, "192.0.2.1"), at(1, "192.0.2.2"), at(2, "192.0.2.3"), at(3, "192.0.2.4"), at(4, "192.0.2.1")))
	l := r.Limits[0]
	if l.Keys != 2 || l.OtherAllowed+l.OtherRefused != 2 || l.Allowed+l.Refused != 5 {
		t.Errorf("keys, other, all = %d, %d, %d, want 2, 2, 5", l.Keys, l.OtherAllowed+l.OtherRefused, l.Allowed+l.Refused)
	}
}

func TestSeveralAttributesMakeOneKey(t *testing.T) {
	s := set(t, policy.Limit{Name: "l", Key: []string{"tenant", "route"}, Default: limit(t, "1/h")})
	o := Options{Route: func(method, path string) string { return method + "|" + path }}
	r := replay(t, s, o, text(
		`{"ts":1700000000,"tenant":"a%|b","method":"GET","path":"/x?y"}`,
		`{"ts":1700000000,"tenant":"a%|b","method":"GET","path":"/x"}`))
	l := r.Limits[0]
	if l.Keys != 1 || l.Top[0].Key != "tenant=a%25%7Cb|route=GET%7C/x" || l.Refused != 1 {
		t.Errorf("limit = %+v", l)
	}
}

func TestHints(t *testing.T) {
	tenant := policy.Limit{Name: "t", Key: []string{"tenant"}, Default: limit(t, "1/h")}
	login := policy.Limit{Name: "login", Match: []policy.Condition{{Attribute: "route", Patterns: []string{"login"}}}, Default: limit(t, "1/h")}
	for _, tt := range []struct {
		name  string
		set   *policy.Set
		input Input
		want  string
	}{
		{"empty log", perIP(t, "1/h"), text(""), "empty"},
		{"not a log", perIP(t, "1/h"), text("a", "b"), "formats known"},
		{"no limits", set(t), text(at(0, "192.0.2.1")), "no limits"},
		{"nothing met", set(t, login), text(at(0, "192.0.2.1")), "matches by route"},
		{"no such key", set(t, tenant), text(at(0, "192.0.2.1")), "keyed by tenant"},
		{"late", perIP(t, "1/h"), text(at(0, "192.0.2.1"), at(900, "192.0.2.1"), at(1, "192.0.2.1"), at(1900, "192.0.2.1"), at(2, "192.0.2.1")), "late"},
	} {
		r := replay(t, tt.set, Options{}, tt.input)
		if all := strings.Join(r.Hints, "\n"); !strings.Contains(all, tt.want) {
			t.Errorf("%s: hints = %q, want %q in them", tt.name, all, tt.want)
		}
	}
}

func TestCancelGivesTheResultSoFar(t *testing.T) {
	var lines []string
	for i := range 5000 {
		lines = append(lines, at(i*10, "192.0.2.1"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	// Progress is called at the first line, the last chance before the context
	// is looked at again.
	r, err := Run(ctx, perIP(t, "1/h"), []Input{text(lines...)}, Options{Progress: func(Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want canceled", err)
	}
	if r.Requests == 0 || r.Requests >= 5000 || r.Allowed+r.Refused != r.Requests || len(r.Limits) != 1 {
		t.Errorf("requests = %d, limits = %d, want a part of 5000 and 1", r.Requests, len(r.Limits))
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []Options{
		{Window: 32 * 24 * time.Hour},
		{WindowLines: -1},
		{Top: -1},
		{MaxKeys: -1},
		{IPv6Prefix: 129},
		{Fields: map[string]string{"a": "nothing"}},
	} {
		if r, err := Run(t.Context(), set(t), nil, o); err == nil || r == nil {
			t.Errorf("Run(%+v) = %v, %v, want an error and a result", o, r, err)
		}
	}
}

func TestIPv6Prefix(t *testing.T) {
	lines := []string{at(0, "2001:db8:0:1::1"), at(0, "2001:db8:0:1::2"), at(0, "2001:db8:0:2::1")}
	for bits, want := range map[int]int64{0: 2, 64: 2, 48: 1, 128: 3} {
		if r := replay(t, perIP(t, "9/h"), Options{IPv6Prefix: bits}, text(lines...)); r.Keys != want {
			t.Errorf("prefix %d: keys = %d, want %d", bits, r.Keys, want)
		}
	}
}
