package rules

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

const ruleLimitsYAML = `limits:
  - {name: tenant-route, key: [tenant, route], limit: 1/s}
  - {name: login, key: [ip], limit: 5/15m, algorithm: sliding_log}
  - {name: quota, key: [tenant], limit: 1M/month, calendar: {zone: Asia/Ho_Chi_Minh}}
  - {name: dear, key: [tenant], limit: 100/s, cost: 10}
`

func TestRuleRow(t *testing.T) {
	set := setOf(t, ruleLimitsYAML)
	for _, tt := range []struct {
		rule    Rule
		want    policy.Row // but for tenant and route
		problem string     // a part of the error, with and without limits; "-" before it: only with limits
	}{
		{rule: Rule{Rate: "100/s", Burst: 200}, want: policy.Row{Refill: 100, Capacity: 200}},
		{rule: Rule{Rate: "100 per second"}, want: policy.Row{Refill: 100, Capacity: 100}},
		{rule: Rule{Rate: "5/15m"}, want: policy.Row{Refill: 5, Capacity: 5, Period: "15m"}},
		{rule: Rule{Rate: "6k/min"}, want: policy.Row{Refill: 6000, Capacity: 6000, Period: "m"}},
		{rule: Rule{Rate: "0.5/s"}, want: policy.Row{Refill: 1, Capacity: 1, Period: "2s"}},
		{rule: Rule{Rate: "99.9/s"}, want: policy.Row{Refill: 999, Capacity: 100, Period: "10s"}},
		{rule: Rule{Rate: "5/day", Algorithm: "gcra"}, want: policy.Row{Refill: 5, Capacity: 5, Period: "day", Algorithm: "token_bucket"}},
		{rule: Rule{Rate: "9/h", Limit: "login"}, want: policy.Row{Refill: 9, Capacity: 9, Period: "h", Limit: "login"}},
		{rule: Rule{Rate: "2M/month", Limit: "quota"}, want: policy.Row{Refill: 2e6, Capacity: 2e6, Period: "month", Limit: "quota"}},
		{rule: Rule{Rate: "3/day", Limit: "quota"}, want: policy.Row{Refill: 3, Capacity: 3, Period: "day", Limit: "quota"}},
		{rule: Rule{Rate: "3/month"}, want: policy.Row{Refill: 3, Capacity: 3, Period: "month"}},

		{rule: Rule{}, problem: "rate: want an amount per period"},
		{rule: Rule{Rate: "x"}, problem: "rate: want an amount per period"},
		{rule: Rule{Rate: "1/s burst 5"}, problem: "rate: \"1/s burst 5\": want the rate alone"},
		{rule: Rule{Rate: "unlimited"}, problem: "rate: want an amount per period"},
		{rule: Rule{Rate: "1/s", Burst: -1}, problem: "burst: -1: want 1 to"},
		{rule: Rule{Rate: "1/s", Algorithm: "leaky"}, problem: "algorithm: unknown algorithm"},
		{rule: Rule{Rate: "5/h", Limit: "quota"}, problem: "-rate: period \"h\" with a calendar: want day or month"},
		{rule: Rule{Rate: "5/h", Burst: 9, Limit: "login"}, problem: "-rate: burst 9 with algorithm sliding_log"},
		{rule: Rule{Rate: "5/s", Limit: "dear"}, problem: "-rate: limit dear: a request costs 10"},
		{rule: Rule{Rate: "5/s", Limit: "none"}, problem: "-limit: \"none\": the configuration has no limit of this name: want one of tenant-route, login, quota, dear"},
	} {
		tt.rule.Tenant, tt.rule.Route, tt.want.Tenant, tt.want.Route = "a", "*", "a", "*"
		problem, limitsOnly := strings.CutPrefix(tt.problem, "-")
		for _, s := range []*policy.Set{nil, set} {
			got, err := tt.rule.Row(s)
			if s == nil && limitsOnly {
				continue
			}
			var field *FieldError
			switch {
			case problem != "" && (!errors.As(err, &field) || !strings.Contains(err.Error(), problem)):
				t.Errorf("%+v: error %v, want %q", tt.rule, err, problem)
			case problem == "" && (err != nil || got != tt.want):
				t.Errorf("%+v with limits %v: %+v, %v, want %+v", tt.rule, s != nil, got, err, tt.want)
			}
		}
	}
	two := setOf(t, "limits: [{name: a, key: [tenant, route], limit: 1/s}, {name: b, key: [route, tenant], limit: 1/s}]")
	if _, err := (Rule{Tenant: "a", Route: "*", Rate: "1/s"}).Row(two); err == nil || !strings.Contains(err.Error(), "limit: missing: ") {
		t.Errorf("a rule for one of two limits: %v", err)
	}
}

func TestSays(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, row := range map[string]policy.Row{
		"100/s":                          {Refill: 100, Capacity: 100},
		"100/s burst 200":                {Refill: 100, Capacity: 200},
		"5/15m sliding_log of x":         {Refill: 5, Capacity: 5, Period: "900000000us", Algorithm: "sliding_log", Limit: "x"},
		"5/month of quota":               {Refill: 5, Capacity: 5, Period: "month", Limit: "quota"},
		"7/fortnight":                    {Refill: 7, Capacity: 7, Period: "fortnight"}, // a bad row, as it stands
		"1/s until 2026-01-02T03:04:05Z": {Refill: 1, Capacity: 1, Expires: at},
	} {
		if got := RuleOf(row).Says(); got != want {
			t.Errorf("%+v says %q, want %q", row, got, want)
		}
	}
}

// What is written as a file is read as the same rows, whatever they are called.
func TestFileKeepsRows(t *testing.T) {
	name := rapid.OneOf(
		rapid.StringN(1, 40, 60).Filter(func(s string) bool { return checkPlace(s) == nil }),
		rapid.SampledFrom([]string{"*", "yes", "NULL", "~", "007", "1e3", "0x1f", "- a", "a: b", "#", "'", `"`, `\`, " a ", "1/2", "2026-01-02", "a/b", "\u2028", "<a&b>", "é世", "%", "@", "`", ".inf", "!!str", "&a", "*a"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		var rows []policy.Row
		for i := range rapid.IntRange(0, 5).Draw(t, "rows") {
			l := sluice.Limit{Tokens: rapid.Int64Range(1, 5000).Draw(t, "tokens"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 90 * time.Minute, 24 * time.Hour, 720 * time.Hour}).Draw(t, "per")}
			row, err := Rule{
				Tenant: name.Draw(t, "tenant"), Route: name.Draw(t, "route"), Rate: rateText(l),
				Burst: rapid.Int64Range(0, 12).Draw(t, "burst"), Algorithm: rapid.SampledFrom([]string{"", "gcra"}).Draw(t, "algorithm"),
				Limit: "limit" + string(rune('a'+i)),
			}.Row(nil)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "temporary") {
				row.Expires = time.UnixMicro(rapid.Int64Range(1, 1<<52).Draw(t, "expires"))
			}
			rows = append(rows, row)
		}
		var file bytes.Buffer
		if err := WriteFile(&file, rows); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile("rules.yaml", file.Bytes(), nil)
		if err != nil || len(got) != len(rows) {
			t.Fatalf("%d of %d rows, %v:\n%s", len(got), len(rows), err, file.String())
		}
		for i := range rows {
			if spotOf(&got[i]) != spotOf(&rows[i]) || !alike(&got[i], &rows[i]) {
				t.Fatalf("%+v became %+v:\n%s", rows[i], got[i], file.String())
			}
		}
	})
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte("rules: [{tenant: a, route: '*', rate: 1/s, burst: 2, limit: x, algorithm: gcra, expires: 2026-01-02T03:04:05Z}]"))
	f.Add([]byte("rules:\n- {}\n- x\n- {tenant: [], route: {}, rate: }"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ReadFile("rules.yaml", data, nil)
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := WriteFile(&file, rows); err != nil {
			t.Fatal(err)
		}
		again, err := ReadFile("rules.yaml", file.Bytes(), nil)
		if err != nil || len(again) != len(rows) {
			t.Fatalf("written and read again: %d of %d rows, %v\n%s", len(again), len(rows), err, file.String())
		}
	})
}

func TestParseTerm(t *testing.T) {
	for text, want := range map[string]time.Duration{"2h": 2 * time.Hour, "90m": 90 * time.Minute, "7days": 168 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParseTerm(text); err != nil || got != want {
			t.Errorf("ParseTerm(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "10ms", "-2h", "2", "soon", "2h burst 3", "400days"} {
		if got, err := ParseTerm(text); err == nil {
			t.Errorf("ParseTerm(%q) = %v, want an error", text, got)
		}
	}
}
