package sluice

import (
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Limit
		text string
	}{
		{"100/s", Limit{Tokens: 100, Per: time.Second}, "100/s"},
		{"5/15m", Limit{Tokens: 5, Per: 15 * time.Minute}, "5/15m"},
		{"1000/day", Limit{Tokens: 1000, Per: day}, "1000/day"},
		{"0.5/s", Limit{Tokens: 1, Per: 2 * time.Second}, "1/2s"},
		{"1M/month", Limit{Tokens: 1e6, Per: 30 * day}, "1000000/30days"},
		{"2.5k/min burst 10", Limit{Tokens: 2500, Per: time.Minute, Burst: 10}, "2500/m burst 10"},
		{"1M/month fixed_window calendar Asia/Ho_Chi_Minh", Limit{Tokens: 1e6, Algorithm: FixedWindow, Calendar: Calendar{CalendarMonth, "Asia/Ho_Chi_Minh"}}, "1000000/month fixed_window calendar Asia/Ho_Chi_Minh"},
		{"10 per second", Limit{Tokens: 10, Per: time.Second}, "10/s"},
		{"10r/s", Limit{Tokens: 10, Per: time.Second}, "10/s"},
		{"7 / 2 days sliding_log", Limit{Tokens: 7, Per: 2 * day, Algorithm: SlidingLog}, "7/2days sliding_log"},
	} {
		got, err := ParseLimit(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseLimit(%q) = %#v, %v, want %#v", tt.in, got, err, tt.want)
			continue
		}
		if got.String() != tt.text {
			t.Errorf("ParseLimit(%q).String() = %q, want %q", tt.in, got, tt.text)
		}
		if again, err := ParseLimit(got.String()); err != nil || again != got {
			t.Errorf("ParseLimit(%q) = %v, %v, want %v", got.String(), again, err, got)
		}
	}
}
