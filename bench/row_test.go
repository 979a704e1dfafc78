package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func made(res result, target ...bound) benchmark {
	return benchmark{
		name: "a/b", unit: "ns/op", target: target,
		measure: func(settings) (result, error) { return res, nil },
	}
}

func TestRowIsJudged(t *testing.T) {
	res := result{ours: 50, theirs: 100, ratio: 0.5, allocs: 0.004, paired: true, counted: true}
	for _, tt := range []struct {
		target []bound
		want   bool
	}{
		{nil, true},
		{[]bound{atMost("ratio", 0.5)}, true},
		{[]bound{atMost("ratio", 0.49)}, false},
		{[]bound{atLeast("ratio", 0.5)}, true},
		{[]bound{atLeast("ratio", 7)}, false},
		{[]bound{atMost("allocs", 0)}, true},
		{[]bound{atMost("value", 49)}, false},
		{[]bound{atMost("ratio", 1), atMost("value", 10)}, false},
		{[]bound{atMost("speed", 1)}, false},
		{[]bound{atMost("difference", -50)}, true},
		{[]bound{atMost("difference", -51)}, false},
	} {
		got, err := made(res, tt.target...).run(settings{})
		if err != nil || got.OK != tt.want {
			t.Errorf("ok of %v = %v, %v, want %v", tt.target, got.OK, err, tt.want)
		}
	}
	alone, err := made(result{ours: 50}, atMost("ratio", 1)).run(settings{})
	if err != nil || alone.OK {
		t.Errorf("ok of a ratio that was not measured = %v, %v, want false", alone.OK, err)
	}
}

func TestRowSaysNullForWhatWasNotMeasured(t *testing.T) {
	r, err := made(result{ours: 61.234}).run(settings{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"a/b","value":61.2,"unit":"ns/op","ours":61.2,"theirs":null,"ratio":null,"allocs":null,"target":null,"ok":true}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	rows := []benchmark{
		made(result{ours: 43.21, theirs: 102.4, ratio: 0.42, paired: true, counted: true}, atMost("ratio", 0.6), atMost("allocs", 0)),
		made(result{ours: 80}, atMost("value", 64)),
		made(result{ours: 1}),
	}
	var out bytes.Buffer
	if err := printTable(&out, rows, settings{pairs: 5}); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "\n\n")
	var got [][]string
	for line := range strings.Lines(table) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"name", "ours", "theirs", "unit", "ratio", "allocs", "ok", "target"},
		strings.Fields("a/b 43.2 102 ns/op 0.42 0 yes ratio <= 0.6, allocs <= 0"),
		strings.Fields("a/b 80 - ns/op - - no value <= 64"),
		strings.Fields("a/b 1 - ns/op - -"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestErrorNamesTheRow(t *testing.T) {
	broken := errors.New("broken")
	b := benchmark{name: "a/b", measure: func(settings) (result, error) { return result{}, broken }}
	r, err := b.run(settings{})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "a/b") {
		t.Errorf("run = %v, want an error that wraps %v and names a/b", err, broken)
	}
	if r.Name != "a/b" || r.OK {
		t.Errorf("row = %+v, want one of a/b that is not ok", r)
	}
}

func TestOneErrorLeavesTheOtherRows(t *testing.T) {
	missing := errors.New("wrk is not installed")
	rows := []benchmark{
		{name: "a/broken", measure: func(settings) (result, error) { return result{}, missing }},
		made(result{ours: 43.21}),
	}
	for name, print := range map[string]func(io.Writer, []benchmark, settings) error{"table": printTable, "JSON": printJSON} {
		var out bytes.Buffer
		err := print(&out, rows, settings{})
		if !errors.Is(err, missing) || !strings.Contains(out.String(), "a/broken") || !strings.Contains(out.String(), "43.2") {
			t.Errorf("%s: error %v, want %v, and both rows in:\n%s", name, err, missing, out.String())
		}
	}
}

func TestRound(t *testing.T) {
	for _, tt := range []struct{ in, want float64 }{
		{0, 0}, {0.0049, 0}, {0.01234, 0.0123}, {0.5678, 0.568}, {12.345, 12.3}, {123.4, 123}, {1234.5, 1235}, {-12.345, -12.3},
	} {
		if got := round(tt.in); got != tt.want {
			t.Errorf("round(%g) = %g, want %g", tt.in, got, tt.want)
		}
	}
}
