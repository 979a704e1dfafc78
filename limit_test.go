package sluice

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestValidateNamesTheBound(t *testing.T) {
	month := Calendar{Unit: CalendarMonth}
	for _, tt := range []struct {
		name  string
		limit Limit
		want  string // part of the error; "" for a valid limit
	}{
		{"the zero value", Limit{}, "tokens is 0"},
		{"C38: a rate of 0", Limit{Per: time.Second, Burst: 100}, "tokens is 0: want 1 to 4294967296"},
		{"a rate below 0", Limit{Tokens: -1, Per: time.Second}, "tokens is -1"},
		{"no period", Limit{Tokens: 1}, "period is 0s: want 1ms to 366 days"},
		{"a period below 0", Limit{Tokens: 1, Per: -time.Second}, "period is -1s"},
		{"a period too short", Limit{Tokens: 1, Per: 999 * time.Microsecond}, "period is 999µs"},
		{"the shortest period", Limit{Tokens: 1, Per: MinPer}, ""},
		{"the longest period", Limit{Tokens: 1, Per: MaxPer}, ""},
		{"a period too long", Limit{Tokens: 1, Per: MaxPer + time.Second}, "want 1ms to 366 days"},
		{"a period of nanoseconds", Limit{Tokens: 1, Per: time.Second + 1}, "whole microseconds"},
		{"C41: a burst of 0 is the limit", Limit{Tokens: 1, Per: time.Second}, ""},
		{"a burst below 0", Limit{Tokens: 1, Per: time.Second, Burst: -1}, "burst is -1"},
		{"a burst too large", Limit{Tokens: 1, Per: time.Second, Burst: MaxTokens + 1}, "burst is 4294967297"},
		{"the highest rate", Limit{Tokens: 1e6, Per: time.Second}, ""},
		{"a rate too high", Limit{Tokens: 1e6 + 1, Per: time.Second}, "rate is over 1000000/s"},
		{"C46: a bucket that fills in a year", Limit{Tokens: 1, Per: MaxPer, Burst: 1}, ""},
		{"a bucket that fills in two", Limit{Tokens: 1, Per: MaxPer, Burst: 2}, "over 366 days to fill"},
		{"a bucket whose time to fill has 80 bits", Limit{Tokens: 1, Per: MaxPer, Burst: MaxTokens}, "to fill"},
		{"C48: 980000000 per 10 s in a bucket", Limit{Tokens: 980000000, Per: 10 * time.Second}, "rate is over"},
		{"C48: 980000000 per 10 s in a window", Limit{Tokens: 980000000, Per: 10 * time.Second, Algorithm: SlidingWindow}, ""},
		{"the largest window", Limit{Tokens: MaxTokens, Per: MaxPer, Algorithm: SlidingWindow}, ""},
		{"a window with a burst", Limit{Tokens: 1, Per: time.Second, Burst: 2, Algorithm: FixedWindow}, "only token_bucket has a burst"},
		{"the largest log", Limit{Tokens: MaxLogTokens, Per: time.Second, Algorithm: SlidingLog}, ""},
		{"a log too large", Limit{Tokens: MaxLogTokens + 1, Per: time.Second, Algorithm: SlidingLog}, "or a sliding_window"},
		{"an unknown algorithm", Limit{Tokens: 1, Per: time.Second, Algorithm: 9}, "algorithm 9 does not exist"},
		{"a month", Limit{Tokens: 1, Algorithm: FixedWindow, Calendar: month}, ""},
		{"a month in a bucket", Limit{Tokens: 1, Calendar: month}, "needs algorithm fixed_window"},
		{"a month and a period", Limit{Tokens: 1, Per: day, Algorithm: FixedWindow, Calendar: month}, "want one of them"},
		{"D65: a calendar week", Limit{Tokens: 1, Algorithm: FixedWindow, Calendar: Calendar{Unit: 3}}, "want day or month"},
		{"a zone without a unit", Limit{Tokens: 1, Per: time.Second, Calendar: Calendar{Zone: "UTC"}}, "needs algorithm"},
		{"D66: a zone that is unknown", Limit{Tokens: 1, Algorithm: FixedWindow, Calendar: Calendar{CalendarDay, "Mars/Base"}}, "IANA name"},
		{"D66: the zone of the machine", Limit{Tokens: 1, Algorithm: FixedWindow, Calendar: Calendar{CalendarDay, "Local"}}, "IANA name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.limit.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate(%+v) = %v, want %q", tt.limit, err, tt.want)
			}
		})
	}
}

func TestValidateReportsAllThatIsWrong(t *testing.T) {
	err := Limit{Tokens: -1, Burst: -1, Per: -1, Algorithm: 7}.Validate()
	for _, want := range []string{"algorithm", "tokens", "burst", "period"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want also %q", err, want)
		}
	}
}

// TestMeterRejectsWhatValidateRejects tries values at and about every bound.
func TestMeterRejectsWhatValidateRejects(t *testing.T) {
	amounts := rapid.OneOf(
		rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, 999, 1e5, 1e5 + 1, 1e6, MaxTokens - 1, MaxTokens, MaxTokens + 1, 1 << 59, 1 << 60, math.MaxInt64}),
		rapid.Int64Range(1, 2000), rapid.Int64())
	periods := rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 1, -1, MinPer - 1, MinPer, MinPer + 1, time.Second, MaxPer, MaxPer + 1, math.MaxInt64, math.MinInt64}),
		rapid.Map(rapid.Int64Range(1, 1e10), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond }))
	calendars := rapid.SampledFrom([]Calendar{{}, {}, {}, {}, {Unit: CalendarDay}, {Zone: "UTC"}, {CalendarMonth, "Nowhere"}, {Unit: 7}})
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			l := Limit{
				Tokens: amounts.Draw(t, "tokens"), Burst: amounts.Draw(t, "burst"), Per: periods.Draw(t, "per"),
				Algorithm: Algorithm(rapid.IntRange(0, 4).Draw(t, "algorithm")), Calendar: calendars.Draw(t, "calendar"),
			}
			m, err := l.Meter()
			invalid := l.Validate()
			if (err == nil) != (invalid == nil) || err != nil && !errors.Is(err, ErrCharge) {
				t.Fatalf("%+v: Meter says %v, Validate %v", l, err, invalid)
			}
			if err == nil && (m.Capacity() != l.Capacity() || m.span > maxFillTicks) {
				t.Fatalf("%+v: Meter = %+v", l, m)
			}
		}
	})
}

// TestLargestLimitsStayBelow2To53 holds the results of all arithmetic to what a
// server's Lua computes exactly, in 2041.
func TestLargestLimitsStayBelow2To53(t *testing.T) {
	now := Ticks(time.Date(2041, 12, 31, 0, 0, 0, 0, time.UTC))
	for _, l := range []Limit{
		{Tokens: 1, Per: MaxPer},
		{Tokens: 1e6, Per: time.Second, Burst: MaxTokens},
		{Tokens: MaxTokens, Per: MaxPer, Algorithm: FixedWindow},
		{Tokens: MaxTokens, Per: MaxPer, Algorithm: SlidingWindow},
		{Tokens: MaxTokens, Per: MinPer, Algorithm: SlidingWindow},
		{Tokens: 3, Per: MaxPer, Algorithm: SlidingLog},
	} {
		k := newKey(t, l)
		first := k.take(now, l.Capacity())
		again := k.take(now, 1)
		if !first.Allowed || again.Allowed || again.RetryAfter <= 0 || again.ResetAfter > 2*MaxPer+time.Second {
			t.Errorf("%v: %+v, then %+v", l, first, again)
		}
		if k.state.Time >= 1<<53 || now+durationTicks(again.ResetAfter) >= 1<<53 {
			t.Errorf("%v: stored time %d and reset %v leave 53 bits", l, k.state.Time, again.ResetAfter)
		}
		if late := k.take(now+durationTicks(again.RetryAfter), 1); !late.Allowed {
			t.Errorf("%v: refused after %v", l, again.RetryAfter)
		}
	}
}

func TestEffectiveRate(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  float64
		under float64 // most that may be lost, as a share
	}{
		{"5/15m", 5.0 / 900, 0},
		{"0.5/s", 0.5, 0},
		{"100/s", 100, 0},
		{"9999/s", 9999, 0.001},
		{"10000/s", 10000, 0},
		{"999999/s", 999999, 0.07},
		{"300/s sliding_window", 300, 0},
		{"90000/day calendar UTC", 1, 0},
		{"1M/month calendar UTC", 1e6 / (31*86400 + 3600.0), 0},
	} {
		got := newKey(t, tt.limit).limit.EffectiveRate()
		if got > tt.want*(1+1e-12) || got < tt.want*(1-tt.under)*(1-1e-12) {
			t.Errorf("%s: EffectiveRate = %v, want %v", tt.limit, got, tt.want)
		}
	}
	if got := (Limit{}).EffectiveRate(); got != 0 {
		t.Errorf("the zero limit's EffectiveRate = %v, want 0", got)
	}
}

func TestKindsSayWhichStatesMeet(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"5/s", "7/m burst 20", true},
		{"5/s fixed_window", "9/s fixed_window", true},
		{"5/s fixed_window", "5/m fixed_window", false},
		{"5/s fixed_window", "5/s sliding_window", false},
		{"5/s", "5/s sliding_log", false},
		{"5/day calendar UTC", "5/month calendar UTC", false},
		{"5/day calendar UTC", "5/day calendar Asia/Tokyo", false},
		{"5/day calendar UTC", "5/day fixed_window", false},
	} {
		if same := newKey(t, tt.a).limit.Kind() == newKey(t, tt.b).limit.Kind(); same != tt.same {
			t.Errorf("%s and %s are of one kind: %v, want %v", tt.a, tt.b, same, tt.same)
		}
	}
	utc, empty := Limit{Calendar: Calendar{CalendarDay, "UTC"}, Algorithm: FixedWindow}, Limit{Calendar: Calendar{Unit: CalendarDay}, Algorithm: FixedWindow}
	if utc.Kind() != empty.Kind() {
		t.Error("UTC by name and by default are of two kinds")
	}
}

func TestAlgorithmNames(t *testing.T) {
	for _, a := range algorithms {
		if got, err := ParseAlgorithm(a.String()); got != a || err != nil {
			t.Errorf("ParseAlgorithm(%q) = %v, %v", a, got, err)
		}
	}
	if got, err := ParseAlgorithm("gcra"); got != TokenBucket || err != nil {
		t.Errorf("ParseAlgorithm(gcra) = %v, %v", got, err)
	}
	if _, err := ParseAlgorithm("leaky"); err == nil || !strings.Contains(err.Error(), "sliding_log") {
		t.Errorf("ParseAlgorithm(leaky) = %v, want the names", err)
	}
	if got := Algorithm(9).String(); got != "algorithm(9)" {
		t.Errorf("Algorithm(9) = %q", got)
	}
}
