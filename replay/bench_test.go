package replay

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkRun replays a log of lines in the combined format, repeated with
// its times shifted, and reports lines a second and the most memory of the
// process, in megabytes.
func BenchmarkRun(b *testing.B) {
	name, copies := realLog, 100
	if _, err := os.Stat(realLog); err != nil {
		b.Fatalf("the benchmark needs %s, a log of 10,000 lines", realLog)
	}
	path, lines := repeatLog(b, name, copies)
	s := perIP(b, "30/m burst 10")
	b.ReportAllocs()
	for b.Loop() {
		r := replay(b, s, Options{}, open(b, path))
		if r.Lines != int64(lines) || r.LateLines != 0 {
			b.Fatalf("lines, late = %d, %d, want %d, 0", r.Lines, r.LateLines, lines)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(peakMB(b), "peak-MB")
}

func BenchmarkSuggest(b *testing.B) {
	path, lines := repeatLog(b, sample, 1000)
	for b.Loop() {
		if _, err := Suggest(b.Context(), []string{"ip"}, []Input{open(b, path)}, SuggestOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkLine reads one line.
func BenchmarkLine(b *testing.B) {
	for name, line := range map[string]string{
		"combined": at(0, "192.0.2.1"),
		"json":     `{"ts":1700000000.25,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a?b","headers":{"User-Agent":["test/1"]}},"status":200,"size":12}`,
	} {
		b.Run(name, func(b *testing.B) {
			src := &source{}
			src.json = newObject(nil, &src.time)
			text := []byte(line)
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if err := src.parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// peakMB returns the most memory that the process held, where the system tells.
func peakMB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.Sys) / 1e6
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1000
		}
	}
	return 0
}
