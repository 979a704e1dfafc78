package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestDeviationIsJudged(t *testing.T) {
	for _, tt := range []struct {
		admitted int64
		want     bool
	}{{5500, true}, {5495, true}, {5494, false}, {5501, false}, {6000, false}} {
		res := result{ours: deviation(tt.admitted, 10*time.Second)}
		got, err := made(res, accuracyBenchmarks()[0].target...).run(settings{})
		if err != nil || got.OK != tt.want {
			t.Errorf("%d admitted in 10s: ok = %v of %g%%, %v, want %v", tt.admitted, got.OK, res.ours, err, tt.want)
		}
	}
}

func TestAdmitCounts(t *testing.T) {
	var n atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 7 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer site.Close()
	if got, err := admit(site.URL, 0); err != nil || got != 7 {
		t.Errorf("admit = %d, %v, want 7", got, err)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if _, err := admit(broken.URL, 0); err == nil {
		t.Error("admit = nil, want an error for answers 404")
	}
}

func TestWritten(t *testing.T) {
	at, ok := written("+1780000000.000042 [0 lua] \"SET\" \"rl:b:global\" \"12\" \"PX\" \"9\"\r\n", "global")
	if want := time.Unix(1_780_000_000, 42_000); !ok || !at.Equal(want) {
		t.Errorf("written = %v, %v, want %v", at, ok, want)
	}
	for _, line := range []string{
		"",
		"+OK\r\n",
		"+1780000000.000042 [0 lua] \"GET\" \"rl:b:global\"\r\n",
		"+1780000000.000042 [0 lua] \"SET\" \"rl:b:other\" \"global\"\r\n",
		"+1780000000.000042 [0 127.0.0.1:5] \"SET\" \"rl:b:global\" \"12\"\r\n",
		"+x.y [0 lua] \"SET\" \"rl:b:global\" \"12\"\r\n",
	} {
		if at, ok := written(line, "global"); ok {
			t.Errorf("written(%q) = %v, want none", line, at)
		}
	}
}

// TestMonitorSeesAdmissionsAlone makes sure that what is granted is written as
// the watch expects, and that what is refused is not.
func TestMonitorSeesAdmissionsAlone(t *testing.T) {
	redis := startServer(t)
	l, err := coalesced(redis.Addr, refusing)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if _, err := l.take("other"); err != nil {
		t.Fatal(err)
	}
	m, err := monitor(redis.Addr, "global")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Millisecond)
	if allowed, err := l.take("global"); !allowed || err != nil {
		t.Fatal(allowed, err)
	}
	after := time.Now().Add(time.Millisecond)
	for range 3 {
		if allowed, err := l.take("global"); allowed || err != nil {
			t.Fatal(allowed, err)
		}
	}
	first, last, err := m.stop()
	if err != nil || !first.Equal(last) || first.Before(before) || first.After(after) {
		t.Errorf("writes from %v to %v, %v, want one between %v and %v", first, last, err, before, after)
	}
	if m, err = monitor(redis.Addr, "global"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.stop(); err == nil {
		t.Error("a limit that was not written is not noticed")
	}
}

func TestBalancerTakesTurns(t *testing.T) {
	var counts [replicas]atomic.Int64
	var sites []*site
	for i := range counts {
		replica := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { counts[i].Add(1) }))
		defer replica.Close()
		sites = append(sites, &site{url: replica.URL})
	}
	balancer, err := balance(sites)
	if err != nil {
		t.Fatal(err)
	}
	defer balancer.stop()
	for range 3 * replicas {
		if _, err := fetch(balancer.url); err != nil {
			t.Fatal(err)
		}
	}
	for i := range counts {
		if n := counts[i].Load(); n < 3 {
			t.Errorf("replica %d was asked %d times, want its share", i+1, n)
		}
	}
}
