package sluice

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTicksCountFrom2026(t *testing.T) {
	for _, tt := range []struct {
		at   string
		want int64
	}{
		{"2026-01-01T00:00:00Z", 0},
		{"2026-01-01T00:00:01Z", ticksPerSecond},
		{"2026-01-01T00:00:00.000000062Z", 0}, // rounded down
		{"2026-01-01T00:00:00.000000063Z", 1},
		{"2025-12-31T23:59:59.999999999Z", -1},
		{"1970-01-01T00:00:00Z", -epochSeconds * ticksPerSecond},
		{"2015-05-17T10:05:03Z", (1431857103 - epochSeconds) * ticksPerSecond},
	} {
		if got := Ticks(instant(t, tt.at)); got != tt.want {
			t.Errorf("Ticks(%s) = %d, want %d", tt.at, got, tt.want)
		}
	}
	if got := Ticks(time.Time{}); got >= 0 {
		t.Errorf("Ticks of the zero time = %d, want a time long ago", got)
	}
	if got := MicroTicks(epochMicros + 5); got != 5*ticksPerMicro {
		t.Errorf("MicroTicks = %d, want %d", got, 5*ticksPerMicro)
	}
}

// TestTicksAndTimeAgree holds that rounding never shortens a wait: whoever
// waits TicksDuration sees at least that many ticks go by.
func TestTicksAndTimeAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := epoch.Add(time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(t, "at")))
		ticks := rapid.Int64Range(-1e15, 1e15).Draw(t, "ticks")
		if got := Ticks(TicksTime(ticks)); got != ticks {
			t.Errorf("Ticks(TicksTime(%d)) = %d", ticks, got)
		}
		if got := DurationTicks(TicksDuration(ticks)); got != ticks {
			t.Errorf("DurationTicks(TicksDuration(%d)) = %d", ticks, got)
		}
		if got := Ticks(at.Add(TicksDuration(ticks))); ticks >= 0 && got < Ticks(at)+ticks {
			t.Errorf("%v after %v, %d of %d ticks have passed", TicksDuration(ticks), at, got-Ticks(at), ticks)
		}
		if back := TicksTime(Ticks(at)); back.After(at) || at.Sub(back) > 63 {
			t.Errorf("TicksTime(Ticks(%v)) = %v", at, back)
		}
	})
}

func TestDivisionsRound(t *testing.T) {
	for _, tt := range []struct{ a, b, floor, ceil int64 }{
		{7, 2, 3, 4},
		{-7, 2, -4, -3},
		{6, 2, 3, 3},
		{-6, 2, -3, -3},
		{0, 5, 0, 0},
	} {
		if f, c := floorDiv(tt.a, tt.b), ceilDiv(tt.a, tt.b); f != tt.floor || c != tt.ceil {
			t.Errorf("%d / %d = %d, %d, want %d, %d", tt.a, tt.b, f, c, tt.floor, tt.ceil)
		}
	}
}
