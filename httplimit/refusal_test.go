package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := perIP(t, "2/3s", Options{})
		get(h)
		get(h)
		time.Sleep(100 * time.Millisecond)
		w := get(h)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
			t.Errorf("status %d, Retry-After %q, want 429 and 2", w.Code, w.Header().Get("Retry-After"))
		}
		want := body{
			Type: TypeQuotaExceeded, Title: "Too many requests", Status: 429, Error: "rate_limited",
			Detail: "The request is over the limit ip, 2/3s.", RetryAfterMs: 1400, Violated: []string{"ip"},
		}
		if diff := cmp.Diff(want, problem(t, w)); diff != "" {
			t.Errorf("problem (-want +got):\n%s", diff)
		}
	})
}

// Cases A1, A2, A5 and A15: the wait told is whole, at least 1, counts down
// from what is left of it, and holds for whoever keeps it, also after
// hammering.
func TestCaseA01A02A05A15RetryAfter(t *testing.T) {
	for _, algorithm := range []string{"", " fixed_window", " sliding_window", " sliding_log"} {
		synctest.Test(t, func(t *testing.T) {
			h := perIP(t, "5/10s"+algorithm, Options{})
			for range 5 {
				if w := get(h); w.Code != 204 || w.Header().Get("Retry-After") != "" {
					t.Fatalf("%s: status %d, Retry-After %q, want 204 and none", algorithm, w.Code, w.Header().Get("Retry-After"))
				}
			}
			for i := range 3 {
				var w *httptest.ResponseRecorder
				last := int64(20) // a sliding window may hold its count for two
				for w = get(h); w.Code != 204; w = get(h) {
					seconds, err := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64)
					if err != nil || seconds < 1 || seconds > last {
						t.Fatalf("%s: Retry-After %q after %d, want 1 or more and no more than before", algorithm, w.Header().Get("Retry-After"), last)
					}
					ms := problem(t, w).RetryAfterMs
					if got := (ms + 999) / 1000; got != seconds {
						t.Fatalf("%s: retryAfterMs %d beside Retry-After %d", algorithm, ms, seconds)
					}
					last = seconds
					// Wait in small steps, hammering; the last step ends when
					// the body said.
					time.Sleep(min(300*time.Millisecond, time.Duration(ms)*time.Millisecond))
				}
				if w.Code != 204 {
					t.Errorf("%s: round %d: status %d after the wait, want 204", algorithm, i, w.Code)
				}
			}
		})
	}
}

// Whoever waits Retry-After seconds, alone, passes.
func TestRetryAfterIsTruthful(t *testing.T) {
	for _, rate := range []string{"5/10s", "5/10s fixed_window", "5/10s sliding_window", "5/10s sliding_log", "3/s", "1/7s"} {
		synctest.Test(t, func(t *testing.T) {
			h := perIP(t, rate, Options{Jitter: 2 * time.Second})
			for range 200 {
				w := get(h)
				if w.Code == 204 {
					continue
				}
				seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
				time.Sleep(time.Duration(seconds) * time.Second)
				if w := get(h); w.Code != 204 {
					t.Fatalf("%s: status %d after waiting %d s", rate, w.Code, seconds)
				}
			}
		})
	}
}

// Case A4: a refusal without a wait sends no Retry-After and no sentinel.
func TestCaseA04NoSentinel(t *testing.T) {
	store := storeFunc(func(charges []sluice.Charge) ([]sluice.Decision, error) {
		return []sluice.Decision{{Limit: 5}}, nil
	})
	h := handler(t, engine(t, store, policy.Limit{Name: "l", Default: limit(t, "5/s")}), Options{})
	w := get(h)
	if v, ok := w.Header()["Retry-After"]; w.Code != 429 || ok {
		t.Errorf("status %d, Retry-After %q, want 429 and none", w.Code, v)
	}
	if b := w.Body.String(); strings.Contains(b, "retryAfterMs") || strings.Contains(b, "-1") {
		t.Errorf("body %s, want no wait", b)
	}
	if got := w.Header().Get("RateLimit"); got != `"l";r=0` {
		t.Errorf("RateLimit: %s, want no t", got)
	}
}

// Cases A6, A7, A8, A10 and A13: remaining counts down to 0 and stays there,
// and reset is there, on every answer.
func TestCaseA06A07A08A10A13Remaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := perIP(t, "3/30s", Options{})
		for i, want := range []string{"2", "1", "0", "0", "0", "0"} {
			w := get(h)
			if got := w.Header().Get("X-RateLimit-Remaining"); got != want {
				t.Errorf("call %d: X-RateLimit-Remaining: %q, want %s", i+1, got, want)
			}
			if got := w.Header().Get("X-RateLimit-Reset"); got == "" || got == "0" {
				t.Errorf("call %d: X-RateLimit-Reset: %q, want seconds", i+1, got)
			}
			if got := w.Header().Get("Retry-After"); (got == "") != (w.Code == 204) {
				t.Errorf("call %d: status %d with Retry-After %q", i+1, w.Code, got)
			}
		}
	})
}

// Case A11: reset has one unit and one reference from the first call.
func TestCaseA11ResetUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := perIP(t, "10/30s", Options{})
		for i, want := range []string{"3", "5", "7"} {
			if got := get(h).Header().Get("X-RateLimit-Reset"); got != want {
				t.Errorf("call %d: X-RateLimit-Reset: %s, want %s", i+1, got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// Case A14: hidden headers change no status.
func TestCaseA14HiddenHeaders(t *testing.T) {
	h := perIP(t, "1/m", Options{HideXRateLimit: true, HideRateLimit: true})
	get(h)
	w := get(h)
	if w.Code != 429 || w.Header().Get("Retry-After") == "" || problem(t, w).Error != "rate_limited" {
		t.Errorf("status %d, headers %v, want 429 with a wait", w.Code, w.Header())
	}
	for name := range w.Header() {
		if strings.Contains(name, "Ratelimit") {
			t.Errorf("%s is sent, want it hidden", name)
		}
	}
}

func TestHead(t *testing.T) {
	h := perIP(t, "1/m", Options{})
	get(h)
	w := ask(h, httptest.NewRequest("HEAD", "/", nil))
	if w.Code != 429 || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("status %d, body %q, want 429 and none", w.Code, w.Body)
	}
}

// The header, the field and the body tell one wait, jitter included.
func TestJitterIsConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := perIP(t, "1/10s", Options{Jitter: 30 * time.Second})
		get(h)
		seen := make(map[int64]bool)
		for range 100 {
			w := get(h)
			b := problem(t, w)
			if b.RetryAfterMs < 10_000 || b.RetryAfterMs > 40_000 {
				t.Fatalf("retryAfterMs %d, want 10000 to 40000", b.RetryAfterMs)
			}
			want := strconv.FormatInt((b.RetryAfterMs+999)/1000, 10)
			if got := w.Header().Get("Retry-After"); got != want {
				t.Errorf("Retry-After: %s beside %d ms", got, b.RetryAfterMs)
			}
			if got := w.Header().Get("RateLimit"); got != `"ip";r=0;t=`+want {
				t.Errorf("RateLimit: %s beside %d ms", got, b.RetryAfterMs)
			}
			seen[b.RetryAfterMs] = true
		}
		if len(seen) < 50 {
			t.Errorf("%d different waits in 100, want them spread", len(seen))
		}
	})
}

// All limits that refused are named, and no other; the wait is the longest.
func TestViolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, engine(
			t, memory.New(memory.Options{}),
			policy.Limit{Name: "second", Default: limit(t, "1/s")},
			policy.Limit{Name: "trial", Default: limit(t, "1/h"), Shadow: true},
			policy.Limit{Name: "minute", Default: limit(t, "1/m")},
			policy.Limit{Name: "day", Default: limit(t, "100/day")},
		), Options{})
		get(h)
		w := get(h)
		b := problem(t, w)
		if diff := cmp.Diff([]string{"second", "minute"}, b.Violated); diff != "" {
			t.Errorf("violated (-want +got):\n%s", diff)
		}
		if b.RetryAfterMs != 60_000 || w.Header().Get("X-RateLimit-Limit") != "1" {
			t.Errorf("%d ms, headers %v, want those of minute", b.RetryAfterMs, w.Header())
		}
		if got, want := w.Header().Get("RateLimit"), `"second";r=0;t=1, "minute";r=0;t=60, "day";r=99;t=864`; got != want {
			t.Errorf("RateLimit: %s, want %s", got, want)
		}
	})
}
