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
