package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// decodeFile reads a file with only the field "limits", as the server does.
func decodeFile(data string) ([]Limit, error) {
	doc, err := strictyaml.Parse("f.yaml", []byte(data))
	if err != nil {
		return nil, err
	}
	limits := DecodeLimits(doc.Root().Mapping("limits").Get("limits"), "tenant", "route", "ip", "method")
	return limits, doc.Err()
}

const product = `
limits:
  - name: tenant-route
    key: [tenant, route]
    limit: 10/s
    burst: 20
    overrides:
      - {match: {tenant: shop-a, route: create-order}, limit: 100/s, burst: 200}
      - {match: {tenant: [own, "own-*"]}, limit: unlimited}
  - name: login
    match: {route: login}
    key: ip
    limit: 5/15m
    algorithm: sliding_log
    on_store_failure: deny
  - name: everyone
    key: []
    limit: 50000/s
    tolerance: 1%
    shards: 10
    shadow: true
  - name: quota
    key: [tenant]
    limit: 1M/month
    calendar: {zone: Asia/Ho_Chi_Minh}
    cost: {header: x-request-cost, default: 2, min: 1, max: 1k}
    overrides:
      - {match: {tenant: big}, limit: 10M/month}
  - name: fixed-cost
    key: [header:x-plan]
    limit: 100/s
    algorithm: gcra
    cost: 5
`

func TestDecodeLimits(t *testing.T) {
	got, err := decodeFile(product)
	if err != nil {
		t.Fatal(err)
	}
	calendar := sluice.Calendar{Unit: sluice.CalendarMonth, Zone: "Asia/Ho_Chi_Minh"}
	want := []Limit{
		{
			Name: "tenant-route", Key: []string{"tenant", "route"}, Source: "f.yaml:3",
			Default: sluice.Limit{Tokens: 10, Per: time.Second, Burst: 20},
			Overrides: []Rule{
				{
					Match:  []Condition{{"tenant", []string{"shop-a"}}, {"route", []string{"create-order"}}},
					Limit:  sluice.Limit{Tokens: 100, Per: time.Second, Burst: 200},
					Source: "f.yaml:8",
				},
				{Match: []Condition{{"tenant", []string{"own", "own-*"}}}, Unlimited: true, Source: "f.yaml:9"},
			},
		},
		{
			Name: "login", Match: []Condition{{"route", []string{"login"}}}, Key: []string{"ip"}, Source: "f.yaml:10",
			Default:   sluice.Limit{Tokens: 5, Per: 15 * time.Minute, Algorithm: sluice.SlidingLog},
			OnFailure: FailDeny,
		},
		{
			Name: "everyone", Key: []string{}, Default: perSecond(50_000), Shadow: true, Source: "f.yaml:16",
			Tolerance: 10_000, Shards: 10,
		},
		{
			Name: "quota", Key: []string{"tenant"}, Source: "f.yaml:22",
			Default: sluice.Limit{Tokens: 1_000_000, Algorithm: sluice.FixedWindow, Calendar: calendar},
			Cost:    Cost{Attribute: "header:X-Request-Cost", Default: 2, Min: 1, Max: 1000},
			Overrides: []Rule{{
				Match:  []Condition{{"tenant", []string{"big"}}},
				Limit:  sluice.Limit{Tokens: 10_000_000, Algorithm: sluice.FixedWindow, Calendar: calendar},
				Source: "f.yaml:28",
			}},
		},
		{
			Name: "fixed-cost", Key: []string{"header:X-Plan"}, Default: perSecond(100), Source: "f.yaml:29",
			Cost: Cost{Default: 5},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("limits (-want +got):\n" + diff)
	}
	if s, err := NewSet(got); err != nil || len(s.Warnings()) != 0 {
		t.Errorf("NewSet = %v, warnings %q", err, s.Warnings())
	}
}

// Each broken file and all that is said of it.
func TestDecodeBroken(t *testing.T) {
	const head = "limits:\n  - name: a\n    key: [tenant]\n"
	for _, test := range []struct {
		name, data string
		want       []string
	}{
		{"no list", "limits: {}\n", []string{"f.yaml:1: limits: want a list, not a mapping"}},
		{"no mapping", "limits:\n  - just text\n", []string{`f.yaml:2: limits[0]: want fields, each as "name: value", not a single value`}},
		{"nothing said", "limits:\n  - {}\n", []string{
			"f.yaml:2: limits[0].name: missing: want a name such as tenant-route",
			"f.yaml:2: limits[0].key: missing: want the attributes whose values share a counter, such as [tenant, route], or [] for one counter for all",
			"f.yaml:2: limits[0].limit: missing: want a rate such as 100/s, 5/15m or 1000/day, or unlimited",
		}},
		{"values left out", "limits:\n  - name:\n    key:\n    limit:\n    overrides:\n", []string{
			"f.yaml:2: limits[0].name: has no value: want a name such as tenant-route, or leave the field out",
			"f.yaml:3: limits[0].key: has no value: want text or a list of texts, or leave the field out",
			"f.yaml:4: limits[0].limit: has no value: want a rate such as 100/s, 5/15m or 1000/day, or unlimited, or leave the field out",
			"f.yaml:5: limits[0].overrides: want a list, not nothing",
		}},
		{"unknown fields", head + "    limit: 1/s\n    brust: 5\n    overrides:\n      - {match: {tenant: b}, limit: 2/s, algorithm: gcra}\n", []string{
			"f.yaml:5: limits[0].brust: unknown field: did you mean burst?",
			"f.yaml:7: limits[0].overrides[0].algorithm: unknown field: want match, limit, burst, tolerance or shards",
		}},
		{"names", "limits:\n  - {name: a, key: [], limit: 1/s}\n  - {name: a, key: [], limit: 1/s}\n  - {name: a b, key: [], limit: 1/s}\n  - {name: '', key: [], limit: 1/s}\n  - {name: -x, key: [], limit: 1/s}\n", []string{
			`f.yaml:3: limits[1].name: "a" is the name of limits[0] (f.yaml:2) already: want another, since counters are kept by it`,
			`f.yaml:4: limits[2].name: "a b": want letters, digits and _ . : / - between them`,
			"f.yaml:5: limits[3].name: missing: want a name such as tenant-route",
			`f.yaml:6: limits[4].name: "-x": want letters, digits and _ . : / - between them`,
		}},
		{"attributes", "limits:\n  - name: a\n    key: [tenent, tenant, tenant, '', 'a b']\n    match: {rout: x, 'header:': y, weather: rain}\n    limit: 1/s\n", []string{
			`f.yaml:3: limits[0].key[0]: unknown attribute "tenent": did you mean tenant?`,
			"f.yaml:3: limits[0].key: tenant stands twice: want it once",
			`f.yaml:3: limits[0].key: attribute "": want a name such as tenant, ip or header:X-Plan`,
			`f.yaml:3: limits[0].key: attribute "a b": want a name such as tenant, ip or header:X-Plan`,
			`f.yaml:4: limits[0].match.rout: unknown attribute "rout": did you mean route?`,
			`f.yaml:4: limits[0].match.weather: unknown attribute "weather": want tenant, route, ip, method, or header:NAME`,
			"f.yaml:4: limits[0].match: header: lacks a name: want one such as header:X-Plan",
		}},
		{"rates", head + "    limit: 10\n    overrides:\n      - {match: {tenant: b}, limit: 0/s}\n      - {match: {tenant: c}, limit: 10/s burst 20}\n      - {match: {tenant: d}, limit: [1/s]}\n      - {match: {tenant: e}, limit: 2M/s}\n      - {match: {tenant: f}, limit: 1/s, burst: 0}\n      - {match: {tenant: g}, limit: 1/day, burst: 10k}\n", []string{
			"f.yaml:4: limits[0].limit: want an amount per period, such as 100/s, 5/15m or 1000/day",
			`f.yaml:6: limits[0].overrides[0].limit: amount "0": want more than 0`,
			`f.yaml:7: limits[0].overrides[1].limit: "10/s burst 20": want the rate only; burst, algorithm and calendar are fields of their own`,
			"f.yaml:8: limits[0].overrides[2].limit: want a rate such as 100/s, 5/15m or 1000/day, or unlimited, not a list",
			"f.yaml:9: limits[0].overrides[3].limit: rate is over 1000000/s, the most that a token bucket keeps on one key: want a lower one, larger tokens, or a window",
			`f.yaml:10: limits[0].overrides[4].burst: "0": want 1 or more, or no burst, which then is the amount of the limit: 10 of 10/s`,
			"f.yaml:11: limits[0].overrides[5].burst: burst 10000 at this rate takes over 366 days to fill, the most that a token bucket keeps: want a lower burst or a higher rate",
		}},
		{"burst of a window", head + "    limit: 10/s\n    algorithm: sliding_window\n    burst: 20\n", []string{
			"f.yaml:6: limits[0].burst: only a token_bucket has a burst: want none, since a sliding_window lets through its limit",
		}},
		{"words", head + "    limit: 5M/s\n    algorithm: fixed_windw\n    shadow: yes\n    on_store_failure: open\n", []string{
			`f.yaml:5: limits[0].algorithm: unknown "fixed_windw": did you mean fixed_window?`,
			`f.yaml:6: limits[0].shadow: "yes": want true or false`,
			`f.yaml:7: limits[0].on_store_failure: unknown "open": want local, allow or deny`,
		}},
		{"calendars", "limits:\n  - {name: a, key: [], limit: 1/h, calendar: {zone: UTC}}\n  - {name: b, key: [], limit: 1/day, calendar: {zone: Mars/Base}}\n  - {name: c, key: [], limit: 1/day, calendar: {}, algorithm: gcra}\n  - {name: d, key: [], limit: 1/day, calendar: UTC}\n  - {name: e, key: [], limit: 1/day, calendar: {zone: UTC UTC}}\n", []string{
			`f.yaml:2: limits[0].limit: period "h" with a calendar: want day or month`,
			"f.yaml:3: limits[1].calendar.zone: unknown time zone: want an IANA name such as Asia/Ho_Chi_Minh or UTC",
			"f.yaml:4: limits[2].algorithm: gcra beside a calendar: want fixed_window, or leave the algorithm out",
			"f.yaml:5: limits[3].calendar: want {zone: UTC}, or another zone; day or month stands in the limit, as in 1000/month",
			"f.yaml:6: limits[4].calendar.zone: unknown time zone: want an IANA name such as Asia/Ho_Chi_Minh or UTC",
		}},
		{"tolerance", "limits:\n  - {name: a, key: [], limit: 100/s, tolerance: 60%}\n  - {name: b, key: [], limit: 100/s, tolerance: 0}\n  - {name: c, key: [], limit: 10/s, tolerance: 1%}\n  - {name: d, key: [], limit: 100/s, tolerance: 5%, algorithm: sliding_log}\n  - {name: e, key: [], limit: 100/s, tolerance: a lot}\n", []string{
			"f.yaml:2: limits[0].tolerance: 60%: want more than 0 and at most 50%",
			"f.yaml:3: limits[1].tolerance: 0%: want more than 0 and at most 50%; none for an exact limit",
			"f.yaml:4: limits[2].tolerance: 1% of 10 is less than one token: want at least 10%, or no tolerance",
			"f.yaml:5: limits[3].tolerance: a sliding_log is exact and is never leased: want no tolerance, or another algorithm",
			`f.yaml:6: limits[4].tolerance: "a lot": want a share such as 1% or 0.01 from 0% to 100%`,
		}},
		{"shards", "limits:\n  - {name: a, key: [], limit: 10/s, shards: 20}\n  - {name: b, key: [], limit: 100/s, shards: 0}\n  - {name: c, key: [], limit: 100/s, shards: 2, algorithm: sliding_log}\n  - {name: d, key: [], limit: 3/366d, shards: 2}\n  - {name: e, key: [], limit: 100/s, shards: 10, tolerance: 1%}\n", []string{
			"f.yaml:2: limits[0].shards: 20 shares of 10 hold less than one token each: want at most 10 shards",
			`f.yaml:3: limits[1].shards: "0": want a whole number from 1 to 1000`,
			"f.yaml:4: limits[2].shards: a sliding_log is exact only in one piece: want no shards, or another algorithm",
			"f.yaml:5: limits[3].shards: a part in 2: burst 2 at this rate takes over 366 days to fill, the most that a token bucket keeps: want a lower burst or a higher rate",
			"f.yaml:6: limits[4].tolerance: 1% of the 10 of a shard is less than one token: want at least 10%, fewer shards, or no tolerance",
		}},
		{"unlimited", "limits:\n  - {name: a, key: [], limit: unlimited}\n  - name: b\n    key: []\n    limit: unlimited\n    shards: 2\n    burst: 5\n    overrides: [{match: {tenant: x}, limit: 1/s}]\n", []string{
			"f.yaml:2: limits[0].limit: unlimited without overrides limits nobody: want a rate such as 100/s, or overrides",
			"f.yaml:5: limits[1].limit: unlimited counts nothing: want no tolerance or shards beside it",
			"f.yaml:7: limits[1].burst: beside unlimited: want none",
		}},
		{"costs", "limits:\n  - {name: a, key: [], limit: 10/s, cost: 11}\n  - {name: b, key: [], limit: 10/s, cost: {default: 2}}\n  - {name: c, key: [], limit: 10/s, cost: {header: X, min: 5, max: 4}}\n  - {name: d, key: [], limit: 10/s, cost: {header: X, min: 0}}\n  - {name: e, key: [], limit: 10/s, cost: {header: X, min: 11}}\n  - {name: f, key: [], limit: 10/s, cost: free}\n  - name: g\n    key: []\n    limit: 10/s\n    cost: 5\n    overrides: [{match: {tenant: x}, limit: 1/s}]\n", []string{
			"f.yaml:2: limits[0].limit: a request costs 11, which is over the 10 that ever pass at once: want a larger burst or a smaller cost",
			"f.yaml:3: limits[1].cost.header: missing: want the header that says the cost, such as X-Request-Cost",
			"f.yaml:4: limits[2].cost: max 4 is under min 5: want it at least as large",
			`f.yaml:5: limits[3].cost.min: "0": want a whole number from 1 to 4294967296`,
			"f.yaml:6: limits[4].limit: a request costs at least 11, which is over the 10 that ever pass at once: want a larger burst or a smaller min",
			`f.yaml:7: limits[5].cost: "free": want a whole number from 1 to 4294967296`,
			"f.yaml:12: limits[6].overrides[0].limit: a request costs 5, which is over the 1 that ever pass at once: want a larger burst or a smaller cost",
		}},
		{"matches", head + "    limit: 1/s\n    overrides:\n      - {limit: 2/s}\n      - {match: {}, limit: 2/s}\n      - {match: x, limit: 2/s}\n      - {match: {ip: 10.0.0.1/8}, limit: 2/s}\n      - {match: {tenant: []}, limit: 2/s}\n      - {match: {tenant: }, limit: 2/s}\n      - {match: {header:a: x, header:A: y}, limit: 2/s}\n", []string{
			"f.yaml:6: limits[0].overrides[0].match: missing: want whom the override is for, such as {tenant: shop-a}; for everyone change the limit itself",
			"f.yaml:7: limits[0].overrides[1].match: missing: want whom the override is for, such as {tenant: shop-a}; for everyone change the limit itself",
			`f.yaml:8: limits[0].overrides[2].match: want fields, each as "name: value", not a single value`,
			`f.yaml:9: limits[0].overrides[3].match: ip: "10.0.0.1/8" has address bits behind the prefix: want 10.0.0.0/8`,
			"f.yaml:10: limits[0].overrides[4].match: tenant: no value to match: want one, a list of some, or * for any",
			"f.yaml:11: limits[0].overrides[5].match.tenant: has no value: want text or a list of texts, or leave the field out",
			"f.yaml:12: limits[0].overrides[6].match: header:A stands twice: want one list of values",
		}},
		{"what is broken hides nothing else", `limits:
  - {key: [tenant], limit: 1/s, cost: 5}
  - {name: a, key: [tenant], limit: fast, algorithm: [x], tolerance: 90%}
  - {name: a, key: [ip, ip], limit: 10/s, calendar: week, burst: 5}
  - {name: c, key: [], limit: 10/s, algoritm: fixed_window, cost: 11}
  - {name: d, key: [], limit: 5M/s, algoritm: fixed_window, burst: 1}
  - {name: e, key: [], limit: 10/s, match: {tenant: {a: b}, ip: bad, route: [x, [y]], method: [[z]]}}
  - {name: f, key: [], limit: 10/s, shadow: maybe, cost: 11, overrides: {a: b}}
`, []string{
			"f.yaml:2: limits[0].name: missing: want a name such as tenant-route",
			"f.yaml:2: limits[0].limit: a request costs 5, which is over the 1 that ever pass at once: want a larger burst or a smaller cost",
			"f.yaml:3: limits[1].algorithm: want one of token_bucket, gcra, fixed_window, sliding_window or sliding_log, not a list",
			"f.yaml:3: limits[1].tolerance: 90%: want more than 0 and at most 50%",
			"f.yaml:3: limits[1].limit: want an amount per period, such as 100/s, 5/15m or 1000/day",
			"f.yaml:4: limits[2].calendar: want {zone: UTC}, or another zone; day or month stands in the limit, as in 1000/month",
			"f.yaml:4: limits[2].burst: only a token_bucket has a burst: want none, since a fixed_window lets through its limit",
			"f.yaml:4: limits[2].name: \"a\" is the name of limits[1] (f.yaml:3) already: want another, since counters are kept by it",
			"f.yaml:4: limits[2].key: ip stands twice: want it once",
			"f.yaml:5: limits[3].algoritm: unknown field: did you mean algorithm?",
			"f.yaml:5: limits[3].limit: a request costs 11, which is over the 10 that ever pass at once: want a larger burst or a smaller cost",
			"f.yaml:6: limits[4].algoritm: unknown field: did you mean algorithm?",
			"f.yaml:7: limits[5].match.tenant: want text or a list of texts, not a mapping",
			"f.yaml:7: limits[5].match.route[1]: want text, not a list",
			"f.yaml:7: limits[5].match.method[0]: want text, not a list",
			`f.yaml:7: limits[5].match: ip: "bad" is no address and no network: want one such as 192.0.2.7 or 10.0.0.0/8, or a pattern with *`,
			`f.yaml:8: limits[6].shadow: "maybe": want true or false`,
			"f.yaml:8: limits[6].overrides: want a list, not a mapping",
			"f.yaml:8: limits[6].limit: a request costs 11, which is over the 10 that ever pass at once: want a larger burst or a smaller cost",
		}},
		{"one mistake is told once", `limits:
  - {name: a, key: [], limt: 1/s, cost: 5}
  - {nam: b, kee: [], limit: 10/s, brust: 50, cost: 20, tolerance: 1%, shards: 20}
  - {name: c, key: [], limit: 10/s, burst: 0, cost: 20, tolerance: 1%, shards: 20}
  - {name: d, key: [], limit: unlimited, override: [{match: {tenant: x}, limit: 1/s}]}
  - {name: e, key: [], limit: unlimited, overrides: x}
  - {name: f, key: [], limit: 10/s, cost: {min: 2, heder: X}}
  - {name: g, key: [], limit: 10/s, overrides: [x, {mach: {tenant: a}, limit: 1/s}, {match: {tenant: a, route: {}}, limit: 1/s}, {match: {tenant: a}, limit: 1/s}]}
  - {name: h, key: [], limit: 10/s, burst: x, algorithm: sliding_windw, cost: 20}
`, []string{
			"f.yaml:2: limits[0].limt: unknown field: did you mean limit?",
			"f.yaml:3: limits[1].nam: unknown field: did you mean name?",
			"f.yaml:3: limits[1].kee: unknown field: did you mean key?",
			"f.yaml:3: limits[1].brust: unknown field: did you mean burst?",
			`f.yaml:4: limits[2].burst: "0": want 1 or more, or no burst, which then is the amount of the limit: 10 of 10/s`,
			"f.yaml:5: limits[3].override: unknown field: did you mean overrides?",
			"f.yaml:6: limits[4].overrides: want a list, not a single value",
			"f.yaml:7: limits[5].cost.heder: unknown field: did you mean header?",
			`f.yaml:8: limits[6].overrides[0]: want fields, each as "name: value", not a single value`,
			"f.yaml:8: limits[6].overrides[1].mach: unknown field: did you mean match?",
			"f.yaml:8: limits[6].overrides[2].match.route: want text or a list of texts, not a mapping",
			`f.yaml:9: limits[7].algorithm: unknown "sliding_windw": did you mean sliding_window?`,
			`f.yaml:9: limits[7].burst: "x": want a whole number from 1 to 4294967296`,
		}},
		{"addresses that are none", head + "    limit: 1/s\n    overrides:\n      - {match: {ip: 10.0.0.0/33}, limit: 2/s}\n      - {match: {ip: [192.0.2.1, 300.1.1.1]}, limit: 2/s}\n      - {match: {ip: unknown}, limit: 2/s}\n      - {match: {ip: 10.0.*}, limit: 2/s}\n      - {match: {ip: 198.51.100.1}, limit: 2/s}\n      - {match: {ip: '::ffff:198.51.100.1'}, limit: 2/s}\n", []string{
			`f.yaml:6: limits[0].overrides[0].match: ip: "10.0.0.0/33" is no address and no network: want one such as 192.0.2.7 or 10.0.0.0/8, or a pattern with *`,
			`f.yaml:7: limits[0].overrides[1].match: ip: "300.1.1.1" is no address and no network: want one such as 192.0.2.7 or 10.0.0.0/8, or a pattern with *`,
			"f.yaml:11: limits[0].overrides[5].match: never wins, since overrides[4] (f.yaml:10) matches all of it and stands before: want only one, or the narrower one first",
		}},
		{"overrides that never win", head + "    limit: 1/s\n    overrides:\n      - {match: {tenant: [b, c]}, limit: 2/s}\n      - {match: {tenant: c}, limit: 3/s}\n      - {match: {tenant: d*}, limit: 4/s}\n      - {match: {tenant: dd}, limit: 5/s}\n      - {match: {tenant: c, route: x}, limit: 6/s}\n      - {match: {route: x, tenant: c}, limit: 6/s}\n", []string{
			"f.yaml:7: limits[0].overrides[1].match: never wins, since overrides[0] (f.yaml:6) matches all of it and stands before: want only one, or the narrower one first",
			"f.yaml:9: limits[0].overrides[3].match: never wins, since overrides[2] (f.yaml:8) matches all of it and stands before: want only one, or the narrower one first",
			"f.yaml:11: limits[0].overrides[5].match: never wins, since overrides[4] (f.yaml:10) matches all of it and stands before: want only one, or the narrower one first",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := decodeFile(test.data)
			if diff := cmp.Diff(strings.Join(test.want, "\n"), fmt.Sprint(err)); diff != "" {
				t.Error("problems (-want +got):\n" + diff)
			}
		})
	}
}

// G110: a field that nobody reads must not pass for one that is read.
func TestCaseG110UnknownFieldIsAnError(t *testing.T) {
	_, err := decodeFile("limits:\n  - {name: a, Key: [ip], limit: 1/s}\n")
	want := "f.yaml:2: limits[0].Key: unknown field: did you mean key?" // and not that key is missing
	if fmt.Sprint(err) != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// H126: the same key twice names both places, and no limit is dropped.
func TestCaseH126DuplicatesNameBothPlaces(t *testing.T) {
	for _, test := range []struct{ data, both string }{
		{"limits:\n  - {name: a, key: [], limit: 1/s}\n  - {name: a, key: [], limit: 2/s}\n", "f.yaml:3: limits[1].name: \"a\" is the name of limits[0] (f.yaml:2)"},
		{"limits:\n  - {name: a, key: [], limit: 1/s, limit: 2/s}\n", "f.yaml:2: limits[0].limit: stands already in line 2"},
		{"limits: []\nlimits: []\n", "f.yaml:2: limits: stands already in line 1"},
	} {
		if _, err := decodeFile(test.data); !strings.HasPrefix(fmt.Sprint(err), test.both) {
			t.Errorf("error = %v, want %s", err, test.both)
		}
	}
}

// H128: a limit that is gone is gone from the verdict too; no error is left.
func TestCaseH128DeletedLimit(t *testing.T) {
	e := newEngine(t, &specStore{}, Limit{Name: "a"}, Limit{Name: "b"})
	decide(t, e, 1)
	set, err := NewSet([]Limit{{Name: "b", Default: perSecond(10)}})
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(set)
	if v := decide(t, e, 1); len(v.Results) != 1 || v.Results[0].Limit.Name != "b" {
		t.Errorf("results = %+v", v.Results)
	}
}

// Limits made by a program are checked as a file's are, with their places if
// they have some.
func TestNewSetRejects(t *testing.T) {
	_, err := NewSet([]Limit{
		{Name: "a", Default: perSecond(10), Source: "table:7"},
		{Name: "a", Default: perSecond(0)},
		{
			Name: "b", Default: sluice.Limit{Tokens: 10, Per: time.Second, Burst: 5, Algorithm: sluice.SlidingLog}, OnFailure: 9,
			Overrides: []Rule{{Match: []Condition{{"tenant", nil}}, Limit: perSecond(1), Source: "table:9"}},
		},
		{Name: "c", Default: perSecond(10), Cost: Cost{Min: 3}},
		{Name: "d", Default: perSecond(10), Cost: Cost{Default: -1}},
		{Name: "e", Default: sluice.Limit{Tokens: 10, Per: time.Second, Algorithm: 99}},
		{Name: "f", Default: sluice.Limit{Tokens: 10, Per: time.Second, Calendar: sluice.Calendar{Unit: sluice.CalendarDay}}},
		{Name: "g", Default: perSecond(10), Shards: -1, Tolerance: -1},
	})
	want := `limits[1].name: "a" is the name of limits[0] (table:7) already: want another, since counters are kept by it
limits[1].limit: tokens is 0: want 1 to 4294967296
limits[2].on_store_failure: failure mode(9) does not exist: want local, allow or deny
limits[2].burst: burst 5 with algorithm sliding_log: only token_bucket has a burst: want none
table:9: limits[2].overrides[0].match: tenant: no value to match: want one, a list of some, or * for any
limits[3].cost: min and max bound what a header says: want header beside them, or only a default
limits[4].cost: a bound is negative: want at least 1
limits[5].algorithm: algorithm 99 does not exist
limits[6].calendar: a calendar needs algorithm fixed_window, not token_bucket: want that, or no calendar
limits[7].tolerance: -0.0001%: want more than 0 and at most 50%
limits[7].shards: -1: want 1 to 1000`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Error("error (-want +got):\n" + diff)
	}
}

func TestListsAreBounded(t *testing.T) {
	values := make([]string, 400)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	_, err := NewSet([]Limit{{Name: "a", Default: perSecond(1), Overrides: []Rule{
		{Match: []Condition{{"tenant", values}, {"route", values}}, Limit: perSecond(1)},
		{Match: []Condition{{"tenant", []string{strings.Repeat("x", 70_000)}}}, Limit: perSecond(1)},
	}}})
	want := "limits[0].overrides[0].match: the lists make over 100000 combinations: want fewer values, or patterns with *\n" +
		"limits[0].overrides[1].match: the values are 70003 bytes long together: want at most 65535"
	if fmt.Sprint(err) != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	s, err := NewSet([]Limit{{
		Name: "a", Key: []string{"tenant"}, Source: "f.yaml:2", Shadow: true, OnFailure: FailAllow, Default: perSecond(700_000),
		Overrides: []Rule{
			{Match: []Condition{{"tenant", []string{"x"}}, {"route", []string{"y"}}}, Limit: perSecond(10_000), Source: "f.yaml:5"},
			{Match: []Condition{{"tenant", []string{"x"}}}, Limit: perSecond(10)},
			{Match: []Condition{{"tenant", []string{"x"}}}, Limit: perSecond(20)},
		},
	}, {Name: "b", Default: perSecond(10), Cost: Cost{Default: 3}, Shards: 4, Source: "f.yaml:9"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"f.yaml:2: limits[0].on_store_failure: has no effect on a shadow limit, which never refuses",
		"f.yaml:2: limits[0].limit: 700000/s runs at 695652/s, 0.6% slower, since the time of one token is rounded up",
		"f.yaml:5: limits[0].overrides[0].match: route is not in the key of the limit, so that one counter is held to several limits: want it in the key too",
		"f.yaml:2: limits[0].overrides[2].match: never wins, since overrides[1] matches all of it and stands before: want only one, or the narrower one first",
		"f.yaml:9: limits[1].shards: a request costs 3 and a shard holds 2, so that each asks several: want fewer shards",
	}
	if diff := cmp.Diff(want, s.Warnings()); diff != "" {
		t.Error("warnings (-want +got):\n" + diff)
	}
}

// Whatever a file says, decoding ends with limits that make a set, or with
// problems at places.
func FuzzDecodeLimits(f *testing.F) {
	f.Add(product)
	f.Add("limits:\n  - {name: a, key: [tenant], limit: 1/s, overrides: [{match: {tenant: '*a*', ip: [10.0.0.0/8, '::/0']}, limit: unlimited}]}\n")
	f.Add("limits:\n  - {name: a, key: [tenant], limit: 1/s, overrides: [{match: {tenant: , ip: []}, limit: 1/day, burst: 1k}]}\n")
	f.Fuzz(func(t *testing.T, data string) {
		limits, err := decodeFile(data)
		if err != nil {
			var p strictyaml.Problem
			if !errors.As(err, &p) || p.Line < 1 {
				t.Fatalf("problem without a place: %v", err)
			}
			return
		}
		s, err := NewSet(limits)
		if err != nil {
			t.Fatalf("the file is sound, but NewSet = %v", err)
		}
		v := Verdict{}
		ask := attributesOf("tenant", "a", "ip", "10.0.0.1", "route", "x")
		var cost *CostError
		if err := NewEngine(&specStore{}, s).Decide(t.Context(), Request{Attributes: ask, N: 1}, &v); err != nil && !errors.As(err, &cost) {
			t.Fatal(err)
		}
	})
}
