package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// sample is a small log made for the tests; realLog is a log of a public site,
// which is not part of the module and used where it is there.
const (
	sample  = "testdata/access.log"
	realLog = "../../shared/data/access.log"
)

// logs returns the logs to test with.
func logs(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(realLog); err != nil {
		t.Logf("%s is not there: testing with %s alone", realLog, sample)
		return []string{sample}
	}
	return []string{sample, realLog}
}

func limit(t testing.TB, text string) sluice.Limit {
	t.Helper()
	l, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func set(t testing.TB, limits ...policy.Limit) *policy.Set {
	t.Helper()
	s, err := policy.NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// perIP is the policy that most tests replay.
func perIP(t testing.TB, text string) *policy.Set {
	return set(t, policy.Limit{Name: "per-ip", Key: []string{"ip"}, Default: limit(t, text)})
}

func text(lines ...string) Input {
	return Input{Name: "test.log", Reader: strings.NewReader(strings.Join(lines, "\n"))}
}

func open(t testing.TB, name string) Input {
	t.Helper()
	in, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

func replay(t testing.TB, s *policy.Set, o Options, inputs ...Input) *Result {
	t.Helper()
	r, err := Run(t.Context(), s, inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// at writes a line of a client at a number of seconds.
func at(second int, ip string) string {
	when := time.Unix(1_700_000_000+int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf(`%s - - [%s] "GET /a HTTP/1.1" 200 12 "-" "test/1"`, ip, when)
}

// repeatLog writes the log n times, each copy's times shifted behind those of
// the copy before, and returns the file and its lines.
func repeatLog(t testing.TB, name string, n int) (path string, lines int) {
	t.Helper()
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "repeated.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range n {
		shift := time.Duration(i) * 4 * 24 * time.Hour
		for line := range bytes.Lines(original) {
			writeShifted(t, w, line, shift)
			lines++
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, lines
}

func writeShifted(t testing.TB, w io.Writer, line []byte, shift time.Duration) {
	const layout = "02/Jan/2006:15:04:05 -0700"
	from := bytes.IndexByte(line, '[') + 1
	when, err := time.Parse(layout, string(line[from:min(len(line), from+len(layout))]))
	if err != nil {
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		return
	}
	fmt.Fprintf(w, "%s%s%s", line[:from], when.Add(shift).Format(layout), line[from+len(layout):])
}
