package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice/servers"
)

// A sampleRow has a column of every kind.
type sampleRow struct {
	Way   string  `json:"way"`
	Limit int     `json:"limit" lab:"label" unit:"per s"`
	P50   float64 `json:"p50_ms"`
	Base  float64 `json:"base_ms"`
}

var sampleRows = []sampleRow{{"a", 1, 0.5, 0.25}, {"b|<&>", 2, 2000, 1000}}

// sample is an experiment that needs no time.
func sample(claims ...Claim) Experiment {
	return Experiment{
		Name: "sample", Does: "measure <nothing>", Explains: "Nothing & more.", Claims: claims,
		Run: func(context.Context, func(string)) (any, bool, error) { return sampleRows, true, nil },
	}
}

func failing(err error) Experiment {
	return Experiment{Name: "failing", Does: "fail", Run: func(context.Context, func(string)) (any, bool, error) { return nil, false, err }}
}

func ignore(string) {}

func TestClaims(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		claim    Claim
		figure   string
		claimed  string
		measured float64
		ok       bool
	}{
		{Claim{Row: "a 1", Column: "p50_ms", Max: 0.5}, "a 1: p50_ms", "at most 0.5", 0.5, true},
		{Claim{Row: "a 1", Column: "p50_ms", Max: 0.4}, "a 1: p50_ms", "at most 0.4", 0.5, false},
		{Claim{Row: "a 1", Column: "p50_ms", Min: 0.6, Max: inf}, "a 1: p50_ms", "at least 0.6", 0.5, false},
		{Claim{Row: "a 1", Column: "p50_ms", Min: 0.5, Max: 0.5}, "a 1: p50_ms", "0.5", 0.5, true},
		{Claim{Row: "a 1", Column: "p50_ms", Less: "base_ms", Min: -inf, Max: 0.25}, "a 1: p50_ms - base_ms", "at most 0.25", 0.25, true},
		{Claim{Row: "b|<&> 2", Column: "p50_ms", Of: "base_ms", Min: 150, Max: 199}, "b|<&> 2: p50_ms in % of base_ms", "150 to 199", 200, false},
		{Claim{Column: "p50_ms", Max: 1}, "p50_ms", "at most 1", 2000, false},
		{Claim{Column: "p50_ms", Max: 3000}, "p50_ms", "at most 3,000", 2000, true},
		{Claim{Column: "p50_ms", Min: 0.1, Max: inf}, "p50_ms", "at least 0.1", 0.5, true},
		{Claim{Column: "p50_ms", Median: true, Max: 1001}, "median of p50_ms", "at most 1,001", 1000.25, true},
		{Claim{Row: "c", Column: "p50_ms", Max: inf}, "c: p50_ms", "at least 0", math.NaN(), false},
		{Claim{Column: "p99_ms", Max: inf}, "p99_ms", "at least 0", math.NaN(), false},
	} {
		r := sample(tt.claim).Measure(t.Context(), ignore)
		f := r.Findings[0]
		same := f.Measured == tt.measured || math.IsNaN(f.Measured) && math.IsNaN(tt.measured)
		if f.Figure() != tt.figure || f.Range() != tt.claimed || !same || f.OK != tt.ok || r.OK != tt.ok {
			t.Errorf("%+v: %q is %g of %q, ok %v and %v; want %q is %g of %q, ok %v", tt.claim,
				f.Figure(), f.Measured, f.Range(), f.OK, r.OK, tt.figure, tt.measured, tt.claimed, tt.ok)
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	r := sample().Measure(t.Context(), ignore)
	r.Took = 1.5
	got, err := json.Marshal(r)
	want := `{"experiment":"sample","ok":true,"took_s":1.5,"rows":[` +
		`{"way":"a","limit":1,"p50_ms":0.5,"base_ms":0.25},{"way":"b|\u003c\u0026\u003e","limit":2,"p50_ms":2000,"base_ms":1000}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// The names of the rows that scripts read are kept.
func TestRowsAsJSON(t *testing.T) {
	for _, tt := range []struct{ row, want any }{
		{BoundaryRow{}, "algorithm limit worst_window"},
		{MemoryRow{}, "algorithm limit bytes_per_key"},
		{NonatomicRow{}, "mode keys without_ttl still_refused"},
		{E2ERow{}, "store expected allowed refused"},
		{OverheadRow{}, "p50_off_ms p50_on_ms p95_off_ms p95_on_ms p99_off_ms p99_on_ms"},
	} {
		text, err := json.Marshal(tt.row)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		d := json.NewDecoder(bytes.NewReader(text))
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			if name, ok := token.(string); ok && name != "" {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%T: %s, want %s", tt.row, got, tt.want)
		}
	}
}

func TestReportAsText(t *testing.T) {
	r := sample(
		Claim{Row: "a 1", Column: "p50_ms", Max: 1, Reference: "about 0.4"},
		Claim{Row: "b|<&> 2", Column: "p50_ms", Max: 1},
	).Measure(t.Context(), ignore)
	r.Took = 3
	want := `way    limit (per s)  p50_ms   reference  base_ms
a      1              0.5      about 0.4  0.25
b|<&>  2              2,000 !             1,000

figure           measured  claimed    reference  
a 1: p50_ms      0.5       at most 1  about 0.4  ok
b|<&> 2: p50_ms  2,000     at most 1             OUTSIDE

OUTSIDE what is claimed, in 3 s
`
	wantText(t, r, want)
	wantText(t, failing(errors.New("no luck")).Measure(t.Context(), ignore), "FAILED: no luck\n")
	missing := fmt.Errorf("x is %w: apt-get install x", servers.ErrNotInstalled)
	wantText(t, failing(missing).Measure(t.Context(), ignore), "SKIPPED: x is not installed: apt-get install x\n")
}

func wantText(t *testing.T, r *Report, want string) {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReportAsHTML(t *testing.T) {
	reports := []*Report{
		sample(Claim{Column: "p50_ms", Max: 1, Reference: "about 0.4"}).Measure(t.Context(), ignore),
		failing(errors.New("no <luck>")).Measure(t.Context(), ignore),
	}
	var b strings.Builder
	if err := WriteHTML(&b, reports, "2 cores", time.Date(2027, 1, 2, 3, 4, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 cores. Measured 2 January 2027, 03:04 UTC", `<section id="sample">`, "b|&lt;&amp;&gt;", "<svg ", "p50 (ms)",
		"about 0.4", "OUTSIDE what is claimed", "no &lt;luck&gt;", `class="n outside"`, "Nothing &amp; more.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, outside := range []string{"<script", "src=", "<link", "url(", "@import", "ZgotmplZ"} {
		if strings.Contains(b.String(), outside) {
			t.Errorf("%q in a page that is to stand alone", outside)
		}
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestExperimentsAreDescribed(t *testing.T) {
	names, total := map[string]bool{"all": true}, time.Duration(0)
	for _, e := range Experiments() {
		if names[e.Name] || e.Name == "" || e.Does == "" || e.Takes <= 0 || e.Run == nil {
			t.Errorf("%q is not described, or there are two of it", e.Name)
		}
		names[e.Name] = true
		total += e.Takes
	}
	if total > 10*time.Minute {
		t.Errorf("all take %v: want at most ten minutes", total)
	}
}
