package lab

import (
	"testing"
	"time"
)

func TestFailModesShort(t *testing.T) {
	t.Parallel()
	short := 200 * time.Millisecond
	rows, err := runFailModes(t.Context(), ignore, failTimes{before: short, fault: 2 * short, after: short})
	if err != nil || len(rows) != 10 {
		t.Fatalf("%v, %v, want 10 rows", rows, err)
	}
	for _, r := range rows {
		admitted := r.Ratio > 0
		ok := r.Errors == 0
		switch r.Mode {
		case saysAllow:
			ok = ok && admitted && r.Refused == 0
		case saysDeny:
			ok = ok && !admitted && r.Refused > 0
		case saysLocal, noBreaker:
			ok = ok && admitted
		case noGuard:
			ok = r.Errors > 0 && !admitted && (r.Fault != "stall" || r.Slowest >= 100)
		}
		if !ok {
			t.Errorf("%+v makes no sense", r)
		}
	}
}

func TestFailRow(t *testing.T) {
	r := &Record{
		Admissions: map[string][]Admission{"a": {{N: 1}, {N: 1}}, "b": {{N: 1}, {N: 1}}},
		Latencies:  []time.Duration{budget, 1, 1, 1, 1, 1, 1, time.Second},
		Errors:     []error{errRefused("a")},
	}
	// 20 keys at 20/s may have 4 in 10 ms.
	want := FailModeRow{Ratio: 1, Refused: 3, Errors: 1, Slowest: 1000, P99: 1000, Waited: 25}
	if got := failRow(r, 10*time.Millisecond); got != want {
		t.Errorf("failRow = %+v, want %+v", got, want)
	}
}
