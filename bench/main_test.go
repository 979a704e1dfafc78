package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run([]string{"-list"}, &out, &errs); status != 0 || errs.Len() > 0 {
		t.Fatalf("run(-list) = %d, %q, want 0 and no complaint", status, errs.String())
	}
	names := strings.Fields(out.String())
	if !slices.Contains(names, "memory/serial/xtime") {
		t.Errorf("names = %v, want memory/serial/xtime among them", names)
	}
	form := regexp.MustCompile(`^[a-z]+(/[a-z0-9_-]+)+$`)
	seen := map[string]bool{}
	for _, name := range names {
		if !form.MatchString(name) || seen[name] {
			t.Errorf("name %q is malformed or there twice", name)
		}
		seen[name] = true
	}
}

func TestJSON(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"-json", "-run", "^memory/serial/xtime$", "-pairs", "1", "-round", "1ms"}
	if status := run(args, &out, &errs); status != 0 {
		t.Fatalf("run(%v) = %d, %s", args, status, errs.String())
	}
	var report map[string][]map[string]any
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if len(report) != 1 || len(report["rows"]) != 1 {
		t.Fatalf("report = %v, want one list of one row", report)
	}
	r := report["rows"][0]
	for key, want := range map[string]any{
		"name": "", "value": 0.0, "unit": "", "ours": 0.0, "theirs": 0.0,
		"ratio": 0.0, "allocs": 0.0, "target": "", "ok": false,
	} {
		got, there := r[key]
		switch want.(type) {
		case string:
			_, there = got.(string)
		case float64:
			_, there = got.(float64)
		case bool:
			_, there = got.(bool)
		}
		if !there {
			t.Errorf("row[%q] = %v, want a %T", key, got, want)
		}
	}
	if len(r) != 9 || r["name"] != "memory/serial/xtime" || r["value"].(float64) <= 0 {
		t.Errorf("row = %v, want nine fields of a row that was measured", r)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-run", "("}, {"-run", "no such row"}, {"stray"}, {"-pairs", "0"}, {"-round", "-1s"}, {"-x"},
	} {
		var out, errs bytes.Buffer
		if status := run(args, &out, &errs); status != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("run(%v) = %d, out %q, errors %q, want 2 and only a complaint", args, status, out.String(), errs.String())
		}
	}
}
