package replay

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTable(t *testing.T) {
	lines := []string{"\x1b[31mbad"}
	for i := range 1200 {
		lines = append(lines, at(i/600, "192.0.2.1"))
	}
	lines = append(lines, at(3, "a-name-of-a-client-that-is-far-too-long-to-be-shown.example.org"))
	r := replay(t, perIP(t, "30/m burst 10"), Options{}, text(lines...))
	r.Took, r.LinesPerSec = 0.25, 4808
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `1,202 lines of log, 2023-11-14 22:13:20 to 2023-11-14 22:13:23 UTC (3s), read in 0.2 s (4,808 lines/s)

requests   1,201  100.00%
allowed       11    0.92%
refused    1,190   99.08%
bad lines      1

per-ip: 30/m burst 10 by ip
allowed 11, refused 1,190 (99.08%); 2 keys, 1 ever refused; peak 1,201 a period
  KEY                                               ALLOWED  REFUSED   PEAK  FIRST REFUSED
  192.0.2.1                                              10    1,190  1,200  2023-11-14 22:13:20
  a-name-of-a-client-that…-to-be-shown.example.org        1        0      1  -

The bad line:
  test.log:1: no quoted request: want the combined format, IP - USER [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT", or a JSON object
      \x1b[31mbad
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPrintableIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		shown := middle(printable(s), 20)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q is shown as %q", s, shown)
		}
		if n := utf8.RuneCountInString(shown); n > 20 {
			t.Errorf("%q is %d wide", shown, n)
		}
	})
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
	for _, tt := range []struct {
		n, of int64
		want  string
	}{{0, 0, ""}, {0, 5, "0.00%"}, {5, 5, "100.00%"}, {1, 1e6, "<0.01%"}, {1e6 - 1, 1e6, ">99.99%"}} {
		if got := percent(tt.n, tt.of); got != tt.want {
			t.Errorf("percent(%d, %d) = %q, want %q", tt.n, tt.of, got, tt.want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 83*time.Hour + time.Minute: "3d 11h", 1000*24*time.Hour + time.Second: "1,000d",
	} {
		if got := roughly(d); got != want {
			t.Errorf("roughly(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestTimelineKeepsEveryRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var line timeline
		second := rapid.Int64Range(-7_000_000_000, 1_700_000_000).Draw(t, "start")
		first := second
		counts := map[bool]int64{}
		for range rapid.IntRange(1, 500).Draw(t, "n") {
			allowed := rapid.Bool().Draw(t, "allowed")
			line.add(second, allowed)
			counts[allowed]++
			if second < 7_000_000_000 {
				second += rapid.SampledFrom([]int64{0, 1, 1, 60, 3600, 86400 * 100}).Draw(t, "step")
			}
		}
		out := line.export()
		if len(out.Allowed) > maxSteps || len(out.Allowed) != len(out.Refused) {
			t.Fatalf("%d and %d steps", len(out.Allowed), len(out.Refused))
		}
		if got := sum(out.Allowed); got != counts[true] || sum(out.Refused) != counts[false] {
			t.Errorf("%d allowed, %d refused, want %v", got, sum(out.Refused), counts)
		}
		start := out.Start.Unix()
		if floorDiv(start, out.Step)*out.Step != start || first < start || first >= start+out.Step {
			t.Errorf("start = %d with a step of %d, want the step of %d", start, out.Step, first)
		}
		if last := start + out.Step*int64(len(out.Allowed)); last <= first || out.Allowed[0]+out.Refused[0] == 0 {
			t.Errorf("the first step is empty")
		}
	})
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

var coordinate = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// checkPlot checks that a plot is sound XML and that all it shows lies within.
func checkPlot(t *testing.T, r *Result) string {
	t.Helper()
	var b strings.Builder
	if err := r.WritePlot(&b); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("not sound XML: %v\n%s", err, b.String())
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			most, ok := map[string]float64{"x": plotWidth, "x1": plotWidth, "x2": plotWidth, "y": plotHeight, "y1": plotHeight, "y2": plotHeight}[a.Name.Local]
			if !ok {
				continue
			}
			value, err := strconv.ParseFloat(a.Value, 64)
			if err != nil || !coordinate.MatchString(a.Value) || value < 0 || value > most {
				t.Errorf("%s %s=%q lies outside", element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

func TestPlot(t *testing.T) {
	for _, name := range logs(t) {
		svg := checkPlot(t, replay(t, perIP(t, "30/m burst 10"), Options{}, open(t, name)))
		for _, want := range []string{"requests per ", "time (UTC)", "allowed: ", "refused: ", "per-ip: 30/m burst 10 by ip"} {
			if !strings.Contains(svg, want) {
				t.Errorf("the plot of %s does not say %q", name, want)
			}
		}
	}
}

func TestPlotOfAnything(t *testing.T) {
	checkPlot(t, &Result{})
	checkPlot(t, replay(t, perIP(t, "1/h"), Options{}, text("bad")))
	evil := replay(t, perIP(t, "1/h"), Options{}, text(at(0, "192.0.2.1")))
	evil.Limits[0].Name = `"<script>&` + "\x00\xff\x1b" + strings.Repeat("long ", 100)
	if svg := checkPlot(t, evil); strings.Contains(svg, "<script") {
		t.Error("a name is not escaped")
	}
	for _, step := range steps {
		for _, n := range []int{1, 2, 60, 61, 299, 300} {
			start := time.Unix(floorDiv(1_431_857_103, step)*step, 0).UTC()
			r := &Result{Timeline: Timeline{Start: &start, Step: step}}
			for i := range n {
				r.Timeline.Allowed = append(r.Timeline.Allowed, int64(i)*int64(i)*step)
				r.Timeline.Refused = append(r.Timeline.Refused, int64(i))
			}
			svg := checkPlot(t, r)
			if ticks := strings.Count(svg, `y2="`+pixels(baseline+5)+`"`); ticks > mostTicks+3 || n > 2 && ticks < 2 {
				t.Errorf("%d ticks for %d steps of %d s", ticks, n, step)
			}
		}
	}
}

// TestPlotFile writes the plots of the logs where PLOT_DIR says, to be looked at.
func TestPlotFile(t *testing.T) {
	dir := os.Getenv("PLOT_DIR")
	if dir == "" {
		t.Skip("set PLOT_DIR to write the plots there")
	}
	for i, name := range logs(t) {
		f, err := os.Create(dir + "/plot" + strconv.Itoa(i) + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		err = replay(t, perIP(t, "10/m burst 5"), Options{}, open(t, name)).WritePlot(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
