package httplimit

import (
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

func limit(t testing.TB, s string) sluice.Limit {
	t.Helper()
	l, err := sluice.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// verdict returns one with a result for each name.
func verdict(t testing.TB, allowed bool, results ...policy.Result) *policy.Verdict {
	t.Helper()
	return &policy.Verdict{Allowed: allowed, Results: results}
}

func result(name string, l sluice.Limit, d sluice.Decision) policy.Result {
	d.Limit = l.Capacity()
	return policy.Result{Limit: &policy.Limit{Name: name}, Effective: l, Key: name + "|k", Cost: 1, Decision: d}
}

func sent(v *policy.Verdict, o Options, jitter time.Duration) http.Header {
	h := make(http.Header)
	var f fields
	f.write(h, v, &o, jitter)
	return h
}

func TestFields(t *testing.T) {
	shadow := result("trial", limit(t, "1/s"), sluice.Decision{})
	shadow.Limit = &policy.Limit{Name: "trial", Shadow: true}
	v := verdict(
		t, false,
		result("tenant", limit(t, "10/s burst 20"), sluice.Decision{RetryAfter: 1200 * time.Millisecond, ResetAfter: 3100 * time.Millisecond}),
		shadow,
		result("day", limit(t, "1000/day fixed_window"), sluice.Decision{Allowed: true, Remaining: 7, ResetAfter: time.Hour}),
	)
	for _, tt := range []struct {
		name   string
		o      Options
		jitter time.Duration
		want   map[string]string
	}{
		{"all", Options{}, 0, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4",
			"RateLimit-Policy": `"tenant";q=20;w=2, "day";q=1000;w=86400`,
			"RateLimit":        `"tenant";r=0;t=2, "day";r=7;t=3600`,
		}},
		{"jitter only lengthens, and only refusals", Options{HideXRateLimit: true}, 900 * time.Millisecond, map[string]string{
			"RateLimit-Policy": `"tenant";q=20;w=2, "day";q=1000;w=86400`,
			"RateLimit":        `"tenant";r=0;t=3, "day";r=7;t=3600`,
		}},
		{"one style", Options{HideRateLimit: true}, 0, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4",
		}},
		{"none", Options{HideRateLimit: true, HideXRateLimit: true}, 0, nil},
	} {
		h := sent(v, tt.o, tt.jitter)
		if len(h) != len(tt.want) {
			t.Errorf("%s: fields %v, want %v", tt.name, h, tt.want)
		}
		for name, want := range tt.want {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s: %s, want %s", tt.name, name, got, want)
			}
		}
	}
	h := sent(v, Options{PartitionKeys: true}, 0)
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		if got := h.Get(name); strings.Count(got, ";pk=:") != 2 || strings.Contains(got, "|k") {
			t.Errorf("%s: %s, want a hash as pk on both items", name, got)
		}
	}
	if h := sent(verdict(t, true, shadow), Options{}, 0); len(h) != 0 {
		t.Errorf("a shadow alone sends %v, want nothing", h)
	}
	if h := sent(verdict(t, true), Options{}, 0); len(h) != 0 {
		t.Errorf("no limit sends %v, want nothing", h)
	}
}

// A value appended to one header must not overwrite its neighbour.
func TestFieldsDoNotShareSpace(t *testing.T) {
	h := sent(verdict(t, true, result("ip", limit(t, "5/s"), sluice.Decision{Allowed: true})), Options{}, 0)
	h.Add("X-RateLimit-Limit", "from upstream")
	if got := h.Get("X-RateLimit-Remaining"); got != "0" {
		t.Errorf("X-RateLimit-Remaining: %s, want 0", got)
	}
}

func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		limit   string
		n, secs int64
	}{
		{"10/s", 10, 1},
		{"10/s burst 20", 20, 2},
		{"10/s burst 25", 25, 3},
		{"100/s burst 10", 100, 1},
		{"5/15m", 5, 900},
		{"0.5/s", 1, 2},
		{"5/100ms", 50, 1},
		{"1002/12289us burst 244609", 244609, 4}, // a hair over 3 s
		{"1/300ms", 3, 1},
		{"1000/day", 1000, 86400},
		{"1M/month fixed_window calendar UTC", 1e6, 0},
		{"10/day fixed_window calendar UTC", 10, 86400},
		{"4294967296/ms sliding_window", 4294967296000, 1},
		{"4294967296/366days fixed_window", 4294967296, 366 * 86400},
	} {
		if n, secs := quota(limit(t, tt.limit)); n != tt.n || secs != tt.secs {
			t.Errorf("quota(%s) = %d per %d s, want %d per %d s", tt.limit, n, secs, tt.n, tt.secs)
		}
	}
	if n, secs := quota(sluice.Limit{}); n != 0 || secs != 0 {
		t.Errorf("quota of no limit = %d per %d s, want 0 per 0 s", n, secs)
	}
}

// Whatever the limit, what is told is no faster than what is admitted, and
// never less than what can remain.
func TestQuotaIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := sluice.Limit{
			Tokens: rapid.Int64Range(1, sluice.MaxTokens).Draw(t, "tokens"),
			Per:    time.Duration(rapid.Int64Range(1000, int64(sluice.MaxPer/time.Microsecond)).Draw(t, "per")) * time.Microsecond,
			Burst:  rapid.Int64Range(0, sluice.MaxTokens).Draw(t, "burst"),
		}
		if rapid.Bool().Draw(t, "window") {
			l.Algorithm, l.Burst = sluice.SlidingWindow, 0
		}
		if l.Validate() != nil {
			t.Skip("not a limit")
		}
		n, secs := quota(l)
		if n < l.Capacity() {
			t.Fatalf("quota(%v) = %d per %d s, less than can remain", l, n, secs)
		}
		// n / secs <= tokens / per
		told := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(l.Per)))
		real := new(big.Int).Mul(big.NewInt(l.Tokens), big.NewInt(secs*int64(time.Second)))
		if secs < 1 || told.Cmp(real) > 0 {
			t.Fatalf("quota(%v) = %d per %d s, more than is admitted", l, n, secs)
		}
	})
}

func TestSFString(t *testing.T) {
	for in, want := range map[string]string{
		"tenant-route": `"tenant-route"`, `a"b\c`: `"a\"b\\c"`, "é\n%": `"%C3%A9%0A%25"`, "": `""`,
	} {
		if got := string(appendSFString(nil, in)); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// Case A3: waits are rounded up and never 0.
func TestCaseA03Ceiling(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		1: 1, 400 * time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 366 * 24 * time.Hour: 366 * 86400,
	} {
		if got := waitSeconds(d); got != want {
			t.Errorf("waitSeconds(%v) = %d, want %d", d, got, want)
		}
	}
}

// Case A10, A12: the reset is there from the first call and is the time until
// full.
func TestCaseA10A12Reset(t *testing.T) {
	v := verdict(t, true, result("l", limit(t, "10/30s"), sluice.Decision{Allowed: true, Remaining: 5, ResetAfter: 15 * time.Second}))
	h := sent(v, Options{}, 0)
	if got := h.Get("X-RateLimit-Reset"); got != "15" {
		t.Errorf("X-RateLimit-Reset: %s, want 15: five units of 3 s", got)
	}
}

func TestNumbersAreWhole(t *testing.T) {
	v := verdict(t, false, result("l", limit(t, "3/s"), sluice.Decision{RetryAfter: 1, ResetAfter: 999_999_999}))
	h := sent(v, Options{}, 0)
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if n, err := strconv.ParseInt(h.Get(name), 10, 64); err != nil || n < 0 {
			t.Errorf("%s: %q, want a whole number", name, h.Get(name))
		}
	}
}
