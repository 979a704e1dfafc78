package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// accessLog is 6 requests of one address within a minute, 2 of another, and a
// line that is none.
func accessLog() string {
	var b strings.Builder
	line := func(ip string, second int, path string) {
		fmt.Fprintf(&b, "%s - - [17/May/2015:10:05:%02d +0000] \"GET %s HTTP/1.1\" 200 5 \"-\" \"agent\"\n", ip, second, path)
	}
	for n := range 6 {
		line("192.0.2.1", n, "/orders/7")
	}
	line("192.0.2.2", 3, "/orders/8")
	b.WriteString("not a line of a log\n")
	line("192.0.2.2", 1, "/other")
	return b.String()
}

const perIPYAML = "limits: [{name: per-ip, key: [ip], limit: 4/h}]\n"

// The names of the fields are a promise to programs.
type replayAnswer struct {
	Requests, Allowed, Refused int
	BadLines                   *int `json:"bad_lines"`
	LateLines                  *int `json:"late_lines"`
	Keys                       int
	Limits                     []struct {
		Name                   string
		Allowed, Refused, Keys int
		Top                    []struct {
			Key              string
			Allowed, Refused int
			FirstRefused     time.Time `json:"first_refused"`
		}
	}
}

func wantReplay(t *testing.T, stdin string, args ...string) {
	t.Helper()
	code, out, errs := call(t, stdin, append([]string{"replay"}, args...)...)
	if code != 0 || errs != "" {
		t.Fatalf("replay %v: exit code %d, stderr %q", args, code, errs)
	}
	var a replayAnswer
	d := json.NewDecoder(strings.NewReader(out))
	if err := d.Decode(&a); err != nil || d.More() {
		t.Fatalf("replay %v: %v: want one JSON object, got %s", args, err, out)
	}
	if a.Requests != 8 || a.Allowed != 6 || a.Refused != 2 || a.Keys != 2 ||
		a.BadLines == nil || *a.BadLines != 1 || a.LateLines == nil || *a.LateLines != 0 {
		t.Errorf("replay %v: %s", args, out)
	}
	if len(a.Limits) != 1 || a.Limits[0].Name != "per-ip" || a.Limits[0].Refused != 2 || a.Limits[0].Allowed != 6 || a.Limits[0].Keys != 2 {
		t.Fatalf("replay %v: limits %+v", args, a.Limits)
	}
	top := a.Limits[0].Top[0]
	if top.Key != "192.0.2.1" || top.Allowed != 4 || top.Refused != 2 || !top.FirstRefused.Equal(time.Date(2015, 5, 17, 10, 5, 4, 0, time.UTC)) {
		t.Errorf("replay %v: top %+v", args, top)
	}
}

func TestReplayJSON(t *testing.T) {
	config, log := file(t, "c.yaml", perIPYAML), file(t, "a.log", accessLog())
	wantReplay(t, "", "-c", config, "--json", log)
	wantReplay(t, "", "-c", config, log, "-json") // a flag after the words
	wantReplay(t, accessLog(), "-c", config, "-json", "-")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(accessLog())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantReplay(t, "", "-c", config, "-json", file(t, "a.log.gz", zipped.String()))
	wantReplay(t, zipped.String(), "-c", config, "-json", "-")
	half := strings.Index(accessLog(), "\n") + 1
	wantReplay(t, "", "-c", config, "-json", file(t, "1.log", accessLog()[:half]), file(t, "2.log", accessLog()[half:]))
}

func TestReplayTable(t *testing.T) {
	config, log := file(t, "c.yaml", perIPYAML), file(t, "a.log", accessLog())
	out, errs := wantRun(t, 0, "per-ip", "", "replay", "-c", config, "-top", "1", log)
	for _, want := range []string{"refused", "192.0.2.1", "2015-05-17 10:05:04", log + ":8:"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "192.0.2.2") {
		t.Errorf("-top 1 shows more:\n%s", out)
	}
	if errs != "" {
		t.Errorf("stderr %q: want no progress where there is no terminal", errs)
	}
}

func TestReplayKnowsRoutesAndAddresses(t *testing.T) {
	config := file(t, "c.yaml", `limits: [{name: orders, match: {route: read}, key: [route], limit: 2/h}]
identity: {ip: {ipv6_prefix: 48}}
gateway:
  listen: :8080
  routes: [{id: read, match: "GET /orders/{id}", upstream: "http://h"}]
`)
	out, _ := wantRun(t, 0, "", "", "replay", "-json", "-c", config, file(t, "a.log", accessLog()))
	var a replayAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.Refused != 5 || a.Limits[0].Allowed != 2 {
		t.Errorf("%v: %s: want 5 of 7 orders refused", err, out)
	}
}

func TestReplayPlot(t *testing.T) {
	config, log := file(t, "c.yaml", perIPYAML), file(t, "a.log", accessLog())
	plot := filepath.Join(t.TempDir(), "plot.svg")
	wantRun(t, 0, "per-ip", "", "replay", "-c", config, "-plot", plot, log)
	if svg, err := os.ReadFile(plot); err != nil || !bytes.Contains(svg, []byte("<svg")) {
		t.Errorf("plot: %v, %.80s", err, svg)
	}
	wantRun(t, 1, "per-ip", "no such file or directory", "replay", "-c", config, "-plot", filepath.Join(filepath.Dir(plot), "none", "y.svg"), log)
}

func TestReplaySuggest(t *testing.T) {
	log := file(t, "a.log", accessLog())
	out, errs := wantRun(t, 0, "MAY BE REFUSED", "", "replay", "-suggest", "ip", log)
	if !strings.Contains(out, "; 1 bad line\n") || errs != "" {
		t.Errorf("stdout %s, stderr %q: want 1 bad line, and no note", out, errs)
	}
	out, _ = wantRun(t, 0, "", "", "replay", "-suggest", "ip", "-share", "50", "-per", "1h", "-json", log)
	var a struct {
		Proposals []struct {
			Share float64
			Limit string
		}
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil || len(a.Proposals) != 1 || a.Proposals[0].Share != 0.5 || a.Proposals[0].Limit != "2/h" {
		t.Errorf("%v: %s: want 2/h for half of the keys", err, out)
	}
	wantRun(t, 0, "no request in the logs has nope", "", "replay", "-suggest", "nope", log)
}

// Of a configuration, suggestions take what says how requests are told apart,
// and say so.
func TestReplaySuggestWithAConfiguration(t *testing.T) {
	config, log := file(t, "c.yaml", `limits: [{name: a, key: [ip], limit: 1/h}]
gateway: {listen: ":8080", routes: [{id: read, match: "GET /orders/{id}", upstream: "http://h"}]}
`), file(t, "a.log", accessLog())
	note := "note: -suggest takes gateway.routes and identity.ip.ipv6_prefix from " + config + " and leaves its limits aside\n"
	out, _ := wantRun(t, 0, "", note, "replay", "-c", config, "-suggest", "route", "-json", log)
	var a struct{ Requests, Keys int }
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.Requests != 7 || a.Keys != 1 {
		t.Errorf("%v: %s: want 7 requests of one route", err, out)
	}
}

func TestReplayErrors(t *testing.T) {
	config, log := file(t, "c.yaml", perIPYAML), file(t, "a.log", accessLog())
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"none.log: no such file or directory", []string{"-c", config, log, "none.log"}},
		{"is a directory: want log files", []string{"-c", config, t.TempDir()}},
		{"none.yaml: no such file or directory", []string{"-c", "none.yaml", log}},
		{"want at most 31 days", []string{"-c", config, "-window", "1000h", log}},
	} {
		out, _ := wantRun(t, 1, "", tt.want, append([]string{"replay"}, tt.args...)...)
		if out != "" {
			t.Errorf("%v: stdout %q, want no empty table beside the error", tt.args, out)
		}
	}
	wantRun(t, 0, "The logs are empty", "", "replay", "-c", config, file(t, "empty.log", ""))
	wantRun(t, 0, "No line could be read", "", "replay", "-c", config, config)
}
