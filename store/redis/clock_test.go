package redis

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	var c clock
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		name     string
		at, want time.Duration
	}{
		{"the first reading", 0, 0},
		{"time goes on", time.Minute, time.Minute},
		{"corrected by a little: held", time.Minute - 999*time.Millisecond, time.Minute},
		{"caught up", time.Minute + time.Millisecond, time.Minute + time.Millisecond},
		{"set back: followed", time.Second, time.Second},
		{"and on from there", 2 * time.Second, 2 * time.Second},
		{"set forward: followed", time.Hour, time.Hour},
	} {
		if got, want := c.read(start.Add(step.at)), start.Add(step.want).UnixMicro(); got != want {
			t.Errorf("%s: %d, want %d", step.name, got, want)
		}
	}
}

// A server that did not answer the probe is not taken for one whose clock may be
// read.
func TestWhoseClock(t *testing.T) {
	k := &keeper{link: &link{}, clocked: make(map[string]bool)}
	for _, step := range []struct {
		report Report
		own    bool
	}{
		{Report{Node: "a"}, false},
		{Report{Node: "a", Scripts: true, tried: true}, true},
		{Report{Node: "b", Scripts: true, TimeInScripts: true, tried: true}, true},
		{Report{Node: "a"}, true},
		{Report{Node: "a", Scripts: true, TimeInScripts: true, tried: true}, false},
		{Report{Node: "b", tried: true}, false}, // no scripts at all: no clock helps
	} {
		k.setClock(step.report)
		if got := k.callersTime.Load(); got != step.own {
			t.Errorf("after %+v: by the caller's clock %v, want %v", step.report, got, step.own)
		}
	}
	k = &keeper{link: &link{}, clocked: make(map[string]bool)}
	k.setClock(Report{Node: "a"})
	if _, tried := k.clocked["a"]; tried {
		t.Error("a probe that was not answered is not repeated")
	}
}
