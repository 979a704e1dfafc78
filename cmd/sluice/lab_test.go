package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/lab"
	"github.com/sluice-limiter/sluice/servers"
)

type labRow struct {
	Way string  `json:"way"`
	P50 float64 `json:"p50_ms"`
}

// experiment takes no time: it finds a figure, or fails.
func experiment(name string, p50 float64, err error) lab.Experiment {
	return lab.Experiment{
		Name: name, Does: "do " + name, Takes: time.Second,
		Claims: []lab.Claim{{Column: "p50_ms", Max: 1}},
		Run: func(_ context.Context, progress func(string)) (any, bool, error) {
			progress("half of it")
			return []labRow{{name, p50}}, true, err
		},
	}
}

func measured(t *testing.T, ctx context.Context, o labRun, experiments ...lab.Experiment) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs}
	code = p.measure(ctx, experiments, o)
	return code, out.String(), errs.String()
}

func TestLabList(t *testing.T) {
	out, _ := wantRun(t, 0, "boundary", "", "lab")
	if n := strings.Count(out, "\n"); n != len(lab.Experiments())+1 {
		t.Errorf("%d lines: want one for each experiment, and one for all\n%s", n, out)
	}
	wantRun(t, 2, "", `unknown experiment "no"`, "lab", "no")
	wantRun(t, 2, "", "one experiment at a time", "lab", "boundary", "skew")
	wantRun(t, 2, "", "-plot is for one experiment", "lab", "all", "-plot", "x.svg")
	wantRun(t, 2, "", "no experiment is named", "lab", "-json")
}

func TestLabExitCodes(t *testing.T) {
	missing := fmt.Errorf("redis-server is %w: apt-get install redis-server", servers.ErrNotInstalled)
	good, bad := experiment("good", 0.5, nil), experiment("bad", 2, nil)
	for _, tt := range []struct {
		name           string
		experiments    []lab.Experiment
		code           int
		stdout, stderr string
	}{
		{"within", []lab.Experiment{good}, 0, "within what is claimed", "[1/1] good, about 1 s\ngood: half of it\n"},
		{"outside", []lab.Experiment{bad}, 1, "OUTSIDE what is claimed", ""},
		{"outside, then within", []lab.Experiment{bad, good}, 1, "== good: do good\n", "[2/2] good"},
		{
			"a program is missing",
			[]lab.Experiment{experiment("skip", 0, missing), good},
			1,
			"SKIPPED: redis-server is not installed: apt-get install redis-server", "skip: SKIPPED: redis-server is not installed",
		},
		{"failed", []lab.Experiment{experiment("fail", 0, errors.New("no luck")), good}, 1, "within what is claimed", "fail: FAILED: no luck"},
	} {
		code, out, errs := measured(t, t.Context(), labRun{}, tt.experiments...)
		if code != tt.code || !strings.Contains(out, tt.stdout) || !strings.Contains(errs, tt.stderr) {
			t.Errorf("%s: code %d, want %d\nstdout %q, want %q in it\nstderr %q, want %q in it", tt.name, code, tt.code, out, tt.stdout, errs, tt.stderr)
		}
	}
}

func TestLabJSON(t *testing.T) {
	_, out, _ := measured(t, t.Context(), labRun{json: true}, experiment("good", 0.5, nil), experiment("bad", 2, nil))
	d := json.NewDecoder(strings.NewReader(out))
	for _, want := range []string{"good true", "bad false"} {
		var got struct {
			Experiment string
			OK         bool
			Took       *float64 `json:"took_s"`
			Rows       []map[string]any
		}
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if fmt.Sprint(got.Experiment, " ", got.OK) != want || got.Took == nil || len(got.Rows) != 1 || got.Rows[0]["p50_ms"] == nil {
			t.Errorf("%+v, want %s and a row", got, want)
		}
	}
}

func TestLabFiles(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "good.md")
	if err := os.WriteFile(page, []byte("<!-- tables -->\n<!-- end of tables -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := labRun{html: filepath.Join(dir, "report.html"), docs: dir, plot: filepath.Join(dir, "plot.svg")}
	if code, _, errs := measured(t, t.Context(), o, experiment("good", 0.5, nil)); code != 0 {
		t.Fatal(errs)
	}
	for name, want := range map[string]string{"report.html": "<svg", "good.md": "| good | 0.5 |", "good.svg": "<svg", "plot.svg": "<svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q in %q, %v", name, want, text, err)
		}
	}
	o = labRun{html: filepath.Join(dir, "no", "report.html")}
	if code, _, errs := measured(t, t.Context(), o, experiment("good", 0.5, nil)); code != 1 || !strings.Contains(errs, "report.html") {
		t.Errorf("a file that cannot be written: code %d, %q", code, errs)
	}
}

// A run that is stopped keeps what it has found.
func TestLabStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	last := experiment("last", 0.5, nil)
	last.Run = func(context.Context, func(string)) (any, bool, error) { stop(); return nil, false, ctx.Err() }
	file := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := measured(t, ctx, labRun{html: file}, experiment("good", 0.5, nil), last, experiment("never", 0.5, nil))
	if code != 1 || strings.Contains(out+errs, "never") || !strings.Contains(errs, "lab: stopped in last") {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, errs)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `id="good"`) {
		t.Errorf("%v: no report of what was found", err)
	}
}
