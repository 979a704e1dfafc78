package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSameResultFromEveryForm(t *testing.T) {
	data, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	s := perIP(t, "10/m burst 5")
	want := core(replay(t, s, Options{Top: 1 << 20}, open(t, sample)))
	// Lines end with LF or CRLF, the last perhaps with nothing; two gzip files
	// in one are what a rotation may leave.
	half := bytes.LastIndexByte(data[:len(data)/2], '\n') + 1
	crlf := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n", "\r\n")
	forms := map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(bytes.NewReader(data)),
		"CRLF":               strings.NewReader(crlf),
		"no last newline":    bytes.NewReader(bytes.TrimRight(data, "\n")),
		"byte order mark":    strings.NewReader("\xef\xbb\xbf" + string(data)),
		"gzip":               bytes.NewReader(zipped(t, string(data))),
		"gzip twice":         bytes.NewReader(append(zipped(t, string(data[:half])), zipped(t, string(data[half:]))...)),
	}
	for name, r := range forms {
		in, err := Open("-", r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, core(replay(t, s, Options{Top: 1 << 20}, in))); diff != "" {
			t.Errorf("%s (-plain +form):\n%s", name, diff)
		}
	}
}

func TestLogsOfSeveralMachinesAreInterleaved(t *testing.T) {
	data, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	s := perIP(t, "10/m burst 5")
	want := core(replay(t, s, Options{Top: 1 << 20}, open(t, sample)))
	var even, odd, first, second strings.Builder
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		[]*strings.Builder{&even, &odd}[i%2].Write(line)
		[]*strings.Builder{&first, &second}[i*2/len(lines)].Write(line)
	}
	for name, parts := range map[string][2]string{
		"two machines":          {even.String(), odd.String()},
		"rotated":               {first.String(), second.String()},
		"rotated, newest first": {second.String(), first.String()},
	} {
		got := core(replay(t, s, Options{Top: 1 << 20}, text(parts[0]), text(parts[1])))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-whole +parts):\n%s", name, diff)
		}
	}
}

func TestLinesTooLongAreBad(t *testing.T) {
	long := at(1, "192.0.2.1") + strings.Repeat("x", maxLine)
	longer := at(2, "192.0.2.1") + strings.Repeat("y", 4*readBytes)
	r := replay(t, perIP(t, "9/h"), Options{}, text(at(0, "192.0.2.1"), long, longer, at(3, "192.0.2.1"), longer))
	if r.Requests != 2 || r.BadLines != 3 || r.Lines != 5 {
		t.Errorf("requests, bad, lines = %d, %d, %d, want 2, 3, 5", r.Requests, r.BadLines, r.Lines)
	}
	if b := r.Bad[0]; b.Line != 2 || b.Reason != errLong.Error() || len(b.Text) > shownBytes+3 {
		t.Errorf("bad = %+v", b)
	}
	if b := r.Bad[2]; b.Line != 5 {
		t.Errorf("line = %d, want 5", b.Line)
	}
}

func TestBlankLinesAreNone(t *testing.T) {
	r := replay(t, perIP(t, "9/h"), Options{}, text("", at(0, "192.0.2.1"), "  \r", "bad", ""))
	if r.Requests != 1 || r.BadLines != 1 || r.Lines != 2 || r.Bad[0].Line != 4 {
		t.Errorf("result = %+v", r)
	}
}

func TestLogsThatCannotBeReadToTheirEnd(t *testing.T) {
	whole := zipped(t, strings.Repeat(at(0, "192.0.2.1")+"\n", 1000))
	for name, broken := range map[string]io.Reader{
		"cut gzip":   bytes.NewReader(whole[:len(whole)-12]),
		"wrong gzip": strings.NewReader("\x1f\x8b nothing"),
		"bad disk":   iotest.TimeoutReader(iotest.HalfReader(strings.NewReader(at(0, "192.0.2.1") + "\n"))),
	} {
		inputs := []Input{{Name: "broken.gz", Reader: broken}, text(at(1, "192.0.2.2"), at(2, "192.0.2.3"))}
		r, err := Run(t.Context(), perIP(t, "9/h"), inputs, Options{})
		if err == nil || !strings.Contains(err.Error(), "broken.gz") {
			t.Errorf("%s: err = %v, want one that names the file", name, err)
		}
		if r.Keys < 2 || r.Requests < 2 {
			t.Errorf("%s: requests = %d, want also those of the other log", name, r.Requests)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v, want not exist", err)
	}
	if _, err := Open(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("err = %v, want directory", err)
	}
	in := open(t, sample)
	if info, err := os.Stat(sample); err != nil || in.Size != info.Size() {
		t.Errorf("size = %d, want that of the file", in.Size)
	}
}

func TestProgress(t *testing.T) {
	var last Progress
	in := open(t, sample)
	r := replay(t, perIP(t, "9/h"), Options{Progress: func(p Progress) {
		if p.Lines < last.Lines || p.Bytes < last.Bytes || p.Bytes > p.Total {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}}, in)
	if want := (Progress{Lines: r.Lines, Bytes: in.Size, Total: in.Size}); last != want {
		t.Errorf("last progress = %+v, want %+v", last, want)
	}
}
