package sluice

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	monthly := Limit{Tokens: 1e6, Algorithm: FixedWindow, Calendar: Calendar{CalendarMonth, "Asia/Ho_Chi_Minh"}}
	for _, tt := range []struct {
		in   string
		want Limit
		text string
	}{
		{"100/s", Limit{Tokens: 100, Per: time.Second}, "100/s"},
		{"5/15m", Limit{Tokens: 5, Per: 15 * time.Minute}, "5/15m"},
		{"1000/day", Limit{Tokens: 1000, Per: day}, "1000/day"},
		{"0.5/s", Limit{Tokens: 1, Per: 2 * time.Second}, "1/2s"},
		{"0.50/s", Limit{Tokens: 1, Per: 2 * time.Second}, "1/2s"},
		{"1.0/s", Limit{Tokens: 1, Per: time.Second}, "1/s"},
		{"0.004/day", Limit{Tokens: 1, Per: 250 * day}, "1/250days"},
		{"1.5/s", Limit{Tokens: 3, Per: 2 * time.Second, Burst: 2}, "3/2s burst 2"},
		{"99.9/s", Limit{Tokens: 999, Per: 10 * time.Second, Burst: 100}, "999/10s burst 100"},
		{"1.5/s burst 7", Limit{Tokens: 3, Per: 2 * time.Second, Burst: 7}, "3/2s burst 7"},
		{"1.5/s sliding_log", Limit{Tokens: 3, Per: 2 * time.Second, Algorithm: SlidingLog}, "3/2s sliding_log"},
		{"1M/month", Limit{Tokens: 1e6, Per: 30 * day}, "1000000/30days"},
		{"2.5k/min burst 10", Limit{Tokens: 2500, Per: time.Minute, Burst: 10}, "2500/m burst 10"},
		{"1M/month fixed_window calendar Asia/Ho_Chi_Minh", monthly, "1000000/month fixed_window calendar Asia/Ho_Chi_Minh"},
		{"1M/month calendar Asia/Ho_Chi_Minh", monthly, "1000000/month fixed_window calendar Asia/Ho_Chi_Minh"},
		{"10 per second", Limit{Tokens: 10, Per: time.Second}, "10/s"},
		{"10 requests per 2 minutes", Limit{Tokens: 10, Per: 2 * time.Minute}, "10/2m"},
		{"10r/s", Limit{Tokens: 10, Per: time.Second}, "10/s"},
		{"1_000_000/h", Limit{Tokens: 1e6, Per: time.Hour}, "1000000/h"},
		{"7 / 2 days sliding_log", Limit{Tokens: 7, Per: 2 * day, Algorithm: SlidingLog}, "7/2days sliding_log"},
		{"5/1h30m", Limit{Tokens: 5, Per: 90 * time.Minute}, "5/90m"},
		{"5/1500us", Limit{Tokens: 5, Per: 1500 * time.Microsecond}, "5/1500us"},
		{"5/2000µs", Limit{Tokens: 5, Per: 2 * time.Millisecond}, "5/2ms"},
		{"5/year gcra", Limit{Tokens: 5, Per: 365 * day}, "5/365days"},
		{"5/s sliding_window burst 5", Limit{Tokens: 5, Per: time.Second, Burst: 5, Algorithm: SlidingWindow}, "5/s burst 5 sliding_window"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseLimit(tt.in)
			if err != nil || got != tt.want {
				t.Fatalf("ParseLimit(%q) = %#v, %v, want %#v", tt.in, got, err, tt.want)
			}
			if got.String() != tt.text {
				t.Errorf("ParseLimit(%q).String() = %q, want %q", tt.in, got, tt.text)
			}
			if again, err := ParseLimit(got.String()); err != nil || again != got {
				t.Errorf("ParseLimit(%q) = %v, %v, want %v", got.String(), again, err, got)
			}
		})
	}
}

func TestParseLimitSaysWhatIsWrong(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "want an amount per period",
		"100":                               "want an amount per period",
		"/s":                                "want a number",
		"100/":                              "want a unit",
		"0/s":                               "want more than 0",
		"-5/s":                              "want a number",
		"0.0/s":                             "want more than 0",
		"1e3/s":                             "10k or 1M, without an exponent",
		"1,000/s":                           "1_000_000, 10k or 1M, without a comma",
		"100/s burst 1,000":                 "want a whole number",
		"1./s":                              "want a number",
		"_1/s":                              "want a number",
		"1m/s":                              "1M; a small m could mean two things",
		"0x10/s":                            "want a number",
		"٣/s":                               "want a number",
		"0.0000000001/s":                    "at most 9 decimals",
		"99999999999999999999/s":            "want at most 4294967296",
		"9999999999G/s":                     "want at most 4294967296",
		"5G/day fixed_window":               "want 1 to 4294967296",
		"100/M":                             "want a unit",
		"100/fortnight":                     "want a unit",
		"100/0s":                            "want a unit",
		"100/400days":                       "want at most 366 days",
		"100/99999999999999999999s":         "want at most 366 days",
		"0.001/day":                         "the longest period",
		"100/us":                            "want 1ms",
		"2000000/s":                         "over 1000000/s",
		"100/s burst":                       "want a value",
		"100/s burst x":                     "want a whole number",
		"100/s burst 1.5":                   "want a whole number",
		"100/s burst 0":                     "want a whole number",
		"100/s burst 5 burst 6":             "want one burst",
		"100/s gcra sliding_log":            "want one algorithm",
		"100/s twice":                       "want burst N",
		"100/s calendar UTC":                "want day or month",
		"100/2day calendar UTC":             "want day or month",
		"1.5/day calendar UTC":              "whole amount",
		"100/day calendar Mars/Base":        "IANA name",
		"100/day calendar ../../etc/hosts":  "IANA name",
		"100/day calendar":                  "want a value",
		"100/day token_bucket calendar UTC": "needs algorithm fixed_window",
		"1M/month sliding_log calendar UTC": "needs algorithm fixed_window",
	} {
		if l, err := ParseLimit(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLimit(%q) = %v, %v, want an error with %q", in, l, err, want)
		}
	}
}

func TestLimitAsText(t *testing.T) {
	var config struct{ Limit Limit }
	if err := json.Unmarshal([]byte(`{"Limit": "5/15m sliding_log"}`), &config); err != nil {
		t.Fatal(err)
	}
	if want := (Limit{Tokens: 5, Per: 15 * time.Minute, Algorithm: SlidingLog}); config.Limit != want {
		t.Errorf("Unmarshal = %v, want %v", config.Limit, want)
	}
	if text, err := json.Marshal(config); err != nil || string(text) != `{"Limit":"5/15m sliding_log"}` {
		t.Errorf("Marshal = %s, %v", text, err)
	}
	before := config.Limit
	if err := config.Limit.UnmarshalText([]byte("many")); err == nil || config.Limit != before {
		t.Errorf("UnmarshalText(many) = %v and left %v", err, config.Limit)
	}
	if text, err := (Limit{Tokens: 1}).MarshalText(); err == nil {
		t.Errorf("MarshalText of an invalid limit = %s", text)
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, in := range []string{
		"100/s", "5/15m burst 7", "0.5/s", "1M/month calendar UTC", "10 per second", "10r/s", "7 / 2 days sliding_log",
		"5/1h30m", "1_000/µs", "99.999999999G/y gcra", "3/day fixed_window calendar America/New_York", "1/366days burst 1",
	} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		l, err := ParseLimit(in)
		if err != nil {
			if l != (Limit{}) {
				t.Fatalf("ParseLimit(%q) = %+v, %v", in, l, err)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("ParseLimit(%q) = %+v, which is not valid: %v", in, l, err)
		}
		if again, err := ParseLimit(l.String()); err != nil || again != l {
			t.Fatalf("ParseLimit(%q) = %+v, then of %q %+v, %v", in, l, l, again, err)
		}
		text, err := l.MarshalText()
		var back Limit
		if err != nil || back.UnmarshalText(text) != nil || back != l {
			t.Fatalf("%+v as text is %q, %v, and back %+v", l, text, err, back)
		}
	})
}
