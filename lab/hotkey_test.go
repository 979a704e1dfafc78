package lab

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

func TestWorst(t *testing.T) {
	at := func(sent, answered time.Duration, n int64) Admission {
		return Admission{Sent: sent * time.Millisecond, Answered: answered * time.Millisecond, N: n}
	}
	b := Bound{Burst: 100, Rate: 1000}
	for _, tt := range []struct {
		name string
		in   []Admission
		want float64
	}{
		{"nothing", nil, 0},
		{"the burst", []Admission{at(0, 1, 100)}, 0},
		{"what a window gains is the bound's", []Admission{at(0, 1, 100), at(99, 100, 100)}, 0},
		{"one that may have passed later", []Admission{at(0, 1, 100), at(1, 100, 100)}, 0},
		{"over", []Admission{at(0, 10, 50), at(0, 10, 82)}, 22. / 110},
		{"the worst of two", []Admission{at(0, 10, 132), at(1000, 1100, 300)}, 100. / 200},
		{"before the window", []Admission{at(0, 1, 5), at(2000, 2010, 121)}, 11. / 110},
	} {
		if got := b.Worst(tt.in); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: over by %g of the bound, want %g", tt.name, got, tt.want)
		}
	}
}

func TestRatios(t *testing.T) {
	second := sluice.DurationTicks(time.Second)
	tally := hotTally{admissions: []hotAdmission{
		{Admission{Answered: time.Second, N: 100}, 5 * second},
		{Admission{Answered: 2 * time.Second, N: 50}, 6 * second},
		{Admission{Answered: 3 * time.Second, N: 120}, 7 * second},
	}}
	if got := tally.ratioByStore(perSecond(100)); got != 0.9 {
		t.Errorf("by the store: %g, want 270 of 300", got)
	}
	if got := tally.ratioOfSeconds(100, 2*time.Second, 2*time.Second); got != 0.85 {
		t.Errorf("of seconds: %g, want 170 of 200", got)
	}
	if got := new(hotTally).ratioByStore(perSecond(100)); got != 0 {
		t.Errorf("nothing: %g", got)
	}
}

func TestHotkeyRowsAreJudged(t *testing.T) {
	good := HotkeyRow{Variant: ours, Tolerance: 0.01, CallsPerDecision: 0.02, AdmittedRatio: 0.991, Limit: 100_000}
	exact := HotkeyRow{Variant: ours, CallsPerDecision: 0.3, AdmittedRatio: 0.9999, Limit: 100_000}
	for _, tt := range []struct {
		name   string
		row    HotkeyRow
		change func(*HotkeyRow)
		ok     bool
	}{
		{"good", good, func(*HotkeyRow) {}, true},
		{"calls", good, func(r *HotkeyRow) { r.CallsPerDecision = 0.021 }, false},
		{"calls of a small limit", good, func(r *HotkeyRow) { r.CallsPerDecision, r.Limit = 0.03, 25_000 }, true},
		{"ratio", good, func(r *HotkeyRow) { r.AdmittedRatio = 0.98 }, false},
		{"window", good, func(r *HotkeyRow) { r.WorstOver = 0.0001 }, false},
		{"local", good, func(r *HotkeyRow) { r.Local = 1 }, false},
		{"another tolerance", good, func(r *HotkeyRow) { r.Tolerance, r.CallsPerDecision = 0.005, 0.04 }, true},
		{"exact", exact, func(*HotkeyRow) {}, true},
		{"exact, over", exact, func(r *HotkeyRow) { r.AdmittedRatio = 1.001 }, false},
		{"exact, under", exact, func(r *HotkeyRow) { r.AdmittedRatio = 0.99 }, false},
		{"another's", exact, func(r *HotkeyRow) { r.Variant, r.WorstOver = "incrby", 1 }, true},
	} {
		row := tt.row
		tt.change(&row)
		if got := row.ok(); got != tt.ok {
			t.Errorf("%s: ok %v, want %v", tt.name, got, tt.ok)
		}
	}
}

// Every variant limits on a real server, and what it sends is counted.
func TestHotVariants(t *testing.T) {
	for _, v := range append(wellKnown(), leasing(200_000), leasing(0)) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			limit := perSecond(2000)
			run, err := v.run(t.Context(), limit, hotOverload, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			passed := int64(0)
			for _, a := range run.tally.admissions {
				passed += a.N
			}
			// Windows let the limit pass in each second that is touched.
			if most := int64(v.warm.Seconds()+3) * 2 * limit.Tokens; passed == 0 || passed > most {
				t.Errorf("%d passed, want 1 to %d", passed, most)
			}
			if run.calls == 0 || run.tally.decisions == 0 || run.tally.decisions > 100_000 {
				t.Errorf("%d calls for %d decisions", run.calls, run.tally.decisions)
			}
			if v.windows {
				return
			}
			bound := BoundOf(limit, 1)
			bound.Burst += bound.Burst * v.tolerance / 1e6
			if over := bound.Worst(run.tally.all()); over > 0 && run.tally.local == 0 {
				t.Errorf("over the bound by %g of it", over)
			}
		})
	}
}

func TestHotkeyPlot(t *testing.T) {
	rows := []HotkeyRow{{Variant: ours, Tolerance: 0.01, CallsPerDecision: 0.01, AdmittedRatio: 1}, {Variant: "a <b>", CallsPerDecision: 2}}
	var svg bytes.Buffer
	if err := plotHotkey(tableOf(rows)).WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sluice, tolerance 1%", "a &lt;b&gt;", ">0.01<", ">2<"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("no %q in\n%s", want, svg.String())
		}
	}
}
