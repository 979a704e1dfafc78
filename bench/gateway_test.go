package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/server"
)

func TestParseWrk(t *testing.T) {
	const report = `Running 1s test @ http://127.0.0.1:1
  1 threads and 20 connections
    Latency     1.01ms    2.02ms  20.00ms   90.00%
  12345 requests in 1.00s, 1.50MB read
Requests/sec:  12344.56
Transfer/sec:      1.50MB
`
	if got, err := parseWrk(report); err != nil || got != 12344.56 {
		t.Errorf("parseWrk = %g, %v, want 12344.56", got, err)
	}
	for _, bad := range []string{
		"", "Requests/sec: x\n", "Requests/sec:      0.00\n",
		strings.Replace(report, "Requests", "  Non-2xx or 3xx responses: 12\nRequests", 1),
		strings.Replace(report, "Requests", "  Socket errors: connect 0, read 3, write 0, timeout 0\nRequests", 1),
	} {
		if got, err := parseWrk(bad); err == nil {
			t.Errorf("parseWrk(%q) = %g, want an error", bad, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 400 * time.Millisecond: 2 * time.Second, 900 * time.Millisecond: 5 * time.Second,
	} {
		if got := seconds(in); got != want {
			t.Errorf("seconds(%v) = %v, want %v", in, got, want)
		}
	}
}

func TestFlood(t *testing.T) {
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer site.Close()
	rate, err := flood(site.URL, 3, 0)
	if err != nil || rate <= 0 || asked.Load() != 3 {
		t.Errorf("flood = %g, %v, after %d requests, want one of each of 3 callers", rate, err, asked.Load())
	}
}

func TestPaced(t *testing.T) {
	fine := httptest.NewServer(http.HandlerFunc(hello))
	defer fine.Close()
	if p50, err := paced(fine.URL, 1, 1, time.Second); err != nil || p50 <= 0 {
		t.Errorf("paced = %v, %v, want some time", p50, err)
	}
	if p50, err := paced(fine.URL, 1, 1e9, time.Millisecond); err == nil {
		t.Errorf("paced at a billion a second = %v, want an error", p50)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if p50, err := paced(broken.URL, 1, 1, time.Second); err == nil {
		t.Errorf("paced = %v, want an error for answers 404", p50)
	}
}

func TestCounted(t *testing.T) {
	const text = `# HELP a_total about a_total
a_total{limit="x",source="store"} 3
a_total{limit="y",source="store"} 2e3
a_total{limit="x",source="denied"} 7
a_total_more{source="store"} 11
plain 5
`
	for _, tt := range []struct {
		name, label string
		want        float64
	}{{"a_total", `source="store"`, 2003}, {"a_total", "", 2010}, {"plain", "", 5}, {"b_total", "", 0}} {
		if got := counted(text, tt.name, tt.label); got != tt.want {
			t.Errorf("counted(%s, %s) = %g, want %g", tt.name, tt.label, got, tt.want)
		}
	}
}

// TestSitesCanBeConfigured holds the configurations against the reader of now.
func TestSitesCanBeConfigured(t *testing.T) {
	for _, limits := range []string{limitedYAML, noLimits, globalYAML} {
		file := filepath.Join(t.TempDir(), "sluice.yaml")
		text := fmt.Sprintf(siteYAML, "127.0.0.1:1", limits, "127.0.0.1:2", "http://127.0.0.1:3", "127.0.0.1:4")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := server.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if limits != globalYAML {
			continue
		}
		if l := c.Set.Limits()[0].Default; l.Tokens != globalRate || l.Per != time.Second || l.Capacity() != globalBurst {
			t.Errorf("global limit is %v, want %d/s burst %d", l, globalRate, globalBurst)
		}
	}
}

func TestBareProxy(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(hello))
	defer upstream.Close()
	proxy, err := bareProxy(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(proxy)
	defer front.Close()
	if got, err := fetch(front.URL); err != nil || got != "hello\n" {
		t.Errorf("answer = %q, %v, want the upstream's", got, err)
	}
}

func TestChild(t *testing.T) {
	fine := func() error { return nil }
	c, err := startChild(fine, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	c.stop()
	if c.cmd.ProcessState == nil {
		t.Error("a child that was stopped runs on")
	}
	never := func() error { return errors.New("never") }
	if _, err := startChild(never, "sh", "-c", "echo reason; exit 3"); !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "reason") {
		t.Errorf("start of what ends at once = %v, want an error with its last words", err)
	}
	if _, err := startChild(fine, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("start of what is not there = nil, want an error")
	}
}
