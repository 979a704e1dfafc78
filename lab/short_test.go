package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Short runs of the experiments: what must hold however busy the machine is.

func TestBoundaryShort(t *testing.T) {
	t.Parallel()
	rows, err := runBoundary(t.Context(), ignore, 1)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%v, %v, want 4 rows", rows, err)
	}
	most := map[string]int{"sliding_log": 100, "sliding_window": 199, "token_bucket": 200, "fixed_window": 200}
	for _, r := range rows {
		if r.WorstWindow < 1 || r.WorstWindow > most[r.Algorithm] {
			t.Errorf("%s: %d admitted in a second, want 1 to %d", r.Algorithm, r.WorstWindow, most[r.Algorithm])
		}
	}
}

func TestNonatomicShort(t *testing.T) {
	t.Parallel()
	rows, err := runNonatomic(t.Context(), ignore, 20)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v, want 2 rows", rows, err)
	}
	if r := rows[0]; r.WithoutTTL != 2 || r.StillRefused != 2 {
		t.Errorf("%+v: want 2 counts without an end, and their users refused", r)
	}
	if r := rows[1]; r.WithoutTTL != 0 || r.StillRefused != 0 {
		t.Errorf("%+v: want none", r)
	}
}

func TestPipelineShort(t *testing.T) {
	t.Parallel()
	rows, err := runPipeline(t.Context(), ignore, 20, 5)
	if err != nil || len(rows) != 8 {
		t.Fatalf("%v, %v, want 8 rows", rows, err)
	}
	for _, r := range rows {
		if r.P50 <= 0 || r.P99 < r.P50 || r.Saved >= 100 {
			t.Errorf("%+v: makes no sense", r)
		}
	}
	// Whatever else the machine does, a millisecond is a millisecond.
	if far := rows[4]; far.P50 < 3 {
		t.Errorf("%+v: want at least three round trips of 1 ms", far)
	}
}

func TestSkewShort(t *testing.T) {
	t.Parallel()
	rows, err := runSkew(t.Context(), ignore, 200*time.Millisecond)
	if err != nil || len(rows) != 2*len(skews) {
		t.Fatalf("%v, %v, want %d rows", rows, err, 2*len(skews))
	}
	for _, r := range rows {
		switch {
		case r.Clock == "store's" && float64(r.Admitted) > r.Bound:
			t.Errorf("%+v: over the bound", r)
		case r.Clock == "callers'" && r.Skew >= 5 && r.Admitted != r.Asked:
			t.Errorf("%+v: want all admitted, as the bucket seems full at every second call", r)
		}
	}
}

func TestMemoryShort(t *testing.T) {
	t.Parallel()
	rows, err := runMemory(t.Context(), ignore, 10)
	if err != nil || len(rows) != 7 {
		t.Fatalf("%v, %v, want 7 rows", rows, err)
	}
	for _, r := range rows {
		if r.BytesPerKey < 40 || r.BytesPerKey > 1000 {
			t.Errorf("%+v: want some bytes", r)
		}
	}
}

func TestBenchShort(t *testing.T) {
	t.Parallel()
	rows, err := runBench(t.Context(), ignore, 40)
	if err != nil || len(rows) != 5 || rows[0].OverGet != 1 {
		t.Fatalf("%v, %v, want 5 rows, the GET first", rows, err)
	}
}

// What needs no server and no time is measured in full.
func TestAlgorithmsKeepTheirClaims(t *testing.T) {
	r := algorithms.Measure(t.Context(), ignore)
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	for _, f := range r.Findings {
		if !f.OK {
			t.Errorf("%s is %g: want %s", f.Figure(), f.Measured, f.Range())
		}
	}
}

// buildSluice builds the program that some experiments start.
func buildSluice(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../cmd/sluice")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSitesShort(t *testing.T) {
	t.Parallel()
	program := buildSluice(t)
	rows, err := runE2E(t.Context(), ignore, program, time.Second)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v, want 2 rows", rows, err)
	}
	// Times of MONITOR are microseconds beside the script's.
	if r := rows[0]; float64(r.Allowed) > r.Expected+1 || r.Allowed < 1 {
		t.Errorf("%+v: want no more than expected", r)
	}
	pairs, err := runOverhead(t.Context(), ignore, program, 1, 300*time.Millisecond)
	if err != nil || len(pairs) != 1 || pairs[0].P50On <= 0 || pairs[0].P50Off <= 0 {
		t.Errorf("%v, %v, want a pair", pairs, err)
	}
}

func TestStoppedEarly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if r := skew.Measure(ctx, ignore); r.OK || r.Error == "" {
		t.Errorf("%+v: want an error", r)
	}
}

func TestMostWithin(t *testing.T) {
	start := time.Now()
	var times []time.Time
	for _, ms := range []int{1500, 0, 400, 999, 1000, 1100} {
		times = append(times, start.Add(time.Duration(ms)*time.Millisecond))
	}
	if got := mostWithin(times, time.Second); got != 4 {
		t.Errorf("mostWithin = %d, want 4: 400, 999, 1000 and 1100", got)
	}
	if got := mostWithin(nil, time.Second); got != 0 {
		t.Errorf("mostWithin(nil) = %d, want 0", got)
	}
}

func TestWritten(t *testing.T) {
	for line, want := range map[string]bool{
		"+1780000000.000042 [0 lua] \"SET\" \"rl:b:global\" \"12\" \"PX\" \"9\"\r\n": true,
		"+1780000000.000042 [0 lua] \"INCRBY\" \"rl:b:global\" \"12\"\r\n":           true,
		"+1780000000.000042 [0 lua] \"GET\" \"rl:b:global\"\r\n":                     false,
		"+1780000000.000042 [0 lua] \"SET\" \"rl:b:other\" \"global\"\r\n":           false,
		"+1780000000.000042 [0 127.0.0.1:5] \"SET\" \"rl:b:global\" \"1\"\r\n":       false,
		"+x [0 lua] \"SET\" \"rl:b:global\" \"1\"\r\n":                               false,
	} {
		at, ok := written(line, "global")
		if ok != want || ok && !at.Equal(time.Unix(1780000000, 42000)) {
			t.Errorf("written(%q) = %v, %v, want %v", line, at, ok, want)
		}
	}
}
