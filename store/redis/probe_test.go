package redis

import (
	"strings"
	"testing"
	"time"
)

// probeOf opens a store for a user of a server and returns what it was found
// able to do.
func probeOf(t *testing.T, url string, o OpenOptions) Report {
	t.Helper()
	reports := make(chan Report, 1)
	o.Connected = func(r Report) { reports <- r }
	open(t, url, o)
	select {
	case r := <-reports:
		return r
	case <-time.After(5 * time.Second):
		t.Fatal("not connected in time")
	}
	return Report{}
}

func TestProbe(t *testing.T) {
	server := start(t, "--maxmemory", "64mb",
		"--user", "default", "on", "nopass", "~*", "&*", "+@all",
		"--user", "timeless", "on", ">w", "~*", "+@all", "-time",
		"--user", "scriptless", "on", ">w", "~*", "+@all", "-eval", "-evalsha",
		"--user", "readonly", "on", ">w", "~*", "+@all", "-set",
		"--user", "blind", "on", ">w", "~*", "+@all", "-info", "-role",
	)
	user := func(name string) string { return "redis://" + name + ":w@" + server.Addr }
	for _, tt := range []struct {
		name, url     string
		policy        string
		budget        time.Duration
		scripts, time bool
		warnings      []string
	}{
		{"all is well but for a bound", "redis://" + server.Addr, "noeviction", time.Minute, true, true, []string{"memory is bounded to 67108864 bytes"}},
		{"counters are dropped", "redis://" + server.Addr, "allkeys-lru", time.Minute, true, true, []string{"maxmemory-policy is allkeys-lru"}},
		{"counters with a TTL are dropped", "redis://" + server.Addr, "volatile-ttl", time.Minute, true, true, []string{"maxmemory-policy is volatile-ttl"}},
		{"a slow server", "redis://" + server.Addr, "noeviction", time.Nanosecond, true, true, []string{"memory is bounded", "over half of the budget of 1ns"}},
		{"no TIME in scripts", user("timeless"), "noeviction", time.Minute, true, false, []string{"memory is bounded", "refuses TIME in scripts"}},
		{"no scripts", user("scriptless"), "noeviction", time.Minute, false, false, []string{"memory is bounded", "refuses scripts"}},
		{"no writes", user("readonly"), "noeviction", time.Minute, true, true, []string{"memory is bounded", "scripts cannot write"}},
		{"no INFO", user("blind"), "noeviction", time.Minute, true, true, []string{"does not describe itself"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := server.Do("CONFIG", "SET", "maxmemory-policy", tt.policy); err != nil {
				t.Fatal(err)
			}
			r := probeOf(t, tt.url, OpenOptions{Budget: tt.budget})
			if r.Scripts != tt.scripts || r.TimeInScripts != tt.time || r.Node != server.Addr || r.RoundTrip <= 0 {
				t.Errorf("report %+v, want Scripts %v, TimeInScripts %v", r, tt.scripts, tt.time)
			}
			if len(r.Warnings) != len(tt.warnings) {
				t.Fatalf("warnings %q, want %q", r.Warnings, tt.warnings)
			}
			for i, want := range tt.warnings {
				if !strings.Contains(r.Warnings[i], want) {
					t.Errorf("warning %q, want %q", r.Warnings[i], want)
				}
			}
		})
	}
	if keys, err := server.Do("PTTL", "rl:{0}probe"); err != nil || keys == "-1" {
		t.Errorf("the probe's key has TTL %s, %v", keys, err)
	}
}

// A probe of a server that does not answer ends.
func TestProbeEnds(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := open(t, "redis://"+server.Addr, OpenOptions{})
	eventually(t, 5*time.Second, func() error { return take(s, "key") })
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	reports, err := s.Probe(t.Context())
	// A hanging server is not waited for longer than is promised; the rest is
	// this machine's.
	if took := time.Since(begin); took > probeTime+probeTime/2 {
		t.Errorf("a probe took %v, want at most %v", took, probeTime)
	}
	if err != nil || len(reports) != 1 || len(reports[0].Warnings) == 0 {
		t.Errorf("Probe = %+v, %v, want a report with warnings", reports, err)
	}
}
