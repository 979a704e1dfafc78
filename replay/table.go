package replay

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteTable writes the result for people: the totals, each limit with its top
// keys, the first bad lines, and hints.
func (r *Result) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	writeTotals(out, r)
	for i := range r.Limits {
		writeLimit(out, &r.Limits[i])
	}
	if len(r.Bad) > 0 {
		if r.BadLines == 1 {
			fmt.Fprint(out, "\nThe bad line:\n")
		} else {
			fmt.Fprintf(out, "\n%s, the first:\n", plural(r.BadLines, "bad line"))
		}
		for _, b := range r.Bad {
			fmt.Fprintf(out, "  %s:%d: %s\n      %s\n", printable(b.File), b.Line, b.Reason, printable(b.Text))
		}
	}
	for i, hint := range r.Hints {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "Note: %s\n", printable(hint))
	}
	return out.Flush()
}

const secondLayout = "2006-01-02 15:04:05"

func writeTotals(out io.Writer, r *Result) {
	fmt.Fprintf(out, "%s of log", plural(r.Lines, "line"))
	if r.From != nil && r.To != nil {
		fmt.Fprintf(out, ", %s to %s UTC (%s)", r.From.Format(secondLayout), r.To.Format(secondLayout),
			roughly(r.To.Sub(*r.From)))
	}
	fmt.Fprintf(out, ", read in %.1f s (%s lines/s)\n\n", r.Took, grouped(int64(r.LinesPerSec)))
	t := table{right: []bool{false, true, true}}
	add := func(name string, n int64) { t.add(name, grouped(n), percent(n, r.Requests)) }
	add("requests", r.Requests)
	add("allowed", r.Allowed)
	add("refused", r.Refused)
	for _, row := range [...]struct {
		name string
		n    int64
	}{
		{"cost errors", r.CostErrors}, {"met no limit", r.Unmatched}, {"late lines", r.LateLines},
	} {
		if row.n > 0 {
			add(row.name, row.n)
		}
	}
	t.add("bad lines", grouped(r.BadLines), "")
	t.write(out, "")
	if r.CostError != "" {
		fmt.Fprintf(out, "first cost error: %s\n", printable(r.CostError))
	}
}

func writeLimit(out io.Writer, l *LimitResult) {
	fmt.Fprintf(out, "\n%s: %s", printable(l.Name), l.Limit)
	if len(l.Key) > 0 {
		fmt.Fprintf(out, " by %s", printable(strings.Join(l.Key, ", ")))
	}
	if l.Shadow {
		fmt.Fprint(out, " (shadow: refuses nobody)")
	}
	refused := "refused"
	if l.Shadow {
		refused = "would have refused"
	}
	fmt.Fprintf(out, "\nallowed %s, %s %s (%s); %s, %s ever refused; peak %s a period",
		grouped(l.Allowed), refused, grouped(l.Refused), percent(l.Refused, l.Allowed+l.Refused),
		plural(l.Keys, "key"), grouped(l.KeysRefused), grouped(l.Peak))
	if l.Unlimited > 0 {
		fmt.Fprintf(out, "; unlimited %s", grouped(l.Unlimited))
	}
	fmt.Fprintln(out)
	if len(l.Top) == 0 {
		return
	}
	t := table{right: []bool{false, true, true, true, false}}
	t.add("KEY", "ALLOWED", "REFUSED", "PEAK", "FIRST REFUSED")
	for _, k := range l.Top {
		first := "-"
		if k.FirstRefused != nil {
			first = k.FirstRefused.UTC().Format(secondLayout)
		}
		t.add(shownKey(k.Key, len(l.Key)), grouped(k.Allowed), grouped(k.Refused), grouped(k.Peak), first)
	}
	if l.OtherAllowed+l.OtherRefused > 0 {
		t.add("(other keys)", grouped(l.OtherAllowed), grouped(l.OtherRefused), "", "")
	}
	t.write(out, "  ")
}

// shownKey names the key that all requests share and the value that is none.
func shownKey(key string, attributes int) string {
	switch {
	case attributes == 0:
		return "(everyone)"
	case key == "":
		return "(none)"
	}
	return middle(printable(key), 48)
}

// A table is rows of cells, written in columns as wide as their widest cell.
type table struct {
	right []bool // beside the columns
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(out io.Writer, indent string) {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// grouped writes a number with a comma between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// percent writes a share; a share that is not 0 or all is never shown as such.
func percent(n, of int64) string {
	if of == 0 {
		return ""
	}
	share := 100 * float64(n) / float64(of)
	switch {
	case n > 0 && share < 0.01:
		return "<0.01%"
	case n < of && share > 99.99:
		return ">99.99%"
	}
	return strconv.FormatFloat(share, 'f', 2, 64) + "%"
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped(n) + " " + noun
}

// roughly writes a duration in its two largest units.
func roughly(d time.Duration) string {
	d = d.Round(time.Second)
	units := [...]struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.length {
			continue
		}
		text := grouped(int64(d/u.length)) + u.name
		if rest := d % u.length; i+1 < len(units) && rest >= units[i+1].length {
			text += " " + strconv.Itoa(int(rest/units[i+1].length)) + units[i+1].name
		}
		return text
	}
	return "0s"
}

// printable makes text safe to show: logs hold what strangers sent, also bytes
// that command a terminal.
func printable(s string) string {
	clean := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		size := utf8.RuneLen(r)
		if clean(r) {
			b.WriteRune(r)
			continue
		}
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(s[i:])
		}
		for _, c := range []byte(s[i : i+size]) {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// middle cuts the middle out of a text that is too wide, since keys differ at
// either end.
func middle(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	head := (width - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}
