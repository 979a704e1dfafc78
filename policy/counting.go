package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// A counting is how a limit and its overrides count.
type counting struct {
	// words are what [sluice.ParseLimit] takes behind a rate.
	words string
	// unknown says that algorithm or calendar is wrong. The words are then
	// those that ask the least of a rate.
	unknown bool
}

// bucket says whether a burst may stand beside the rate.
func (c counting) bucket() bool {
	algorithm, _, _ := strings.Cut(c.words, " ")
	return c.unknown || algorithm == "" || algorithm == "token_bucket" || algorithm == "gcra"
}

// counting reads algorithm and calendar.
func (d *decoder) counting(m strictyaml.Mapping) counting {
	algorithm, calendar := m.Get("algorithm"), m.Get("calendar")
	name := algorithm.OneOf("", "token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_log")
	lost := m.Misspelt("algorithm") || algorithm.Exists() && name == ""
	switch {
	case m.Misspelt("calendar") || lost && !calendar.Exists():
		return counting{words: "fixed_window", unknown: true}
	case !calendar.Exists():
		return counting{words: name}
	case name != "" && name != "fixed_window":
		algorithm.Problem("%s beside a calendar: want fixed_window, or leave the algorithm out", name)
		return counting{words: "fixed_window", unknown: true}
	}
	return counting{words: "fixed_window calendar " + zone(calendar)}
}

// zone reads the zone of a calendar; UTC stands for one that is wrong.
func zone(calendar strictyaml.Node) string {
	if !calendar.IsMapping() {
		calendar.Problem("want {zone: UTC}, or another zone; day or month stands in the limit, as in 1000/month")
		return "UTC"
	}
	n := calendar.Mapping("zone").Get("zone")
	text := n.Text()
	if text == "" && !n.IsText() {
		return "UTC"
	}
	if _, err := sluice.ParseLimit("1/day fixed_window calendar " + text); err != nil || len(strings.Fields(text)) != 1 {
		n.Problem("unknown time zone: want an IANA name such as Asia/Ho_Chi_Minh or UTC")
		return "UTC"
	}
	return text
}

// rate reads limit and burst.
func (d *decoder) rate(m strictyaml.Mapping, how counting) (limit sluice.Limit, unlimited bool) {
	n, burst := m.Need("limit", wantLimit), m.Get("burst")
	text := n.TextAs(wantLimit)
	if text == "unlimited" {
		if burst.Exists() {
			burst.Problem("beside unlimited: want none")
		}
		return limit, true
	}
	size, ok := readBurst(m)
	if !ok || how.unknown && size > 0 {
		// How much passes at once is not known, nor what that allows.
		d.fail("limit", "tolerance", "shards")
		size = 0
	}
	switch {
	case !n.IsText():
	case !how.bucket() && burst.Exists():
		algorithm, _, _ := strings.Cut(how.words, " ")
		burst.Problem("only a token_bucket has a burst: want none, since a %s lets through its limit", algorithm)
	case hasOptions(text):
		n.Problem("%q: want the rate only; burst, algorithm and calendar are fields of their own", text)
	default:
		limit, err := sluice.ParseLimit(strings.TrimSpace(text + burstWords(size) + " " + how.words))
		if err == nil {
			return limit, false
		}
		cause := firstCause(err)
		m.Problem(fieldOf(cause), "%s", cause)
	}
	d.fail("limit")
	return limit, false
}

// readBurst returns the burst, 0 if there is none; ok is false if it is wrong.
func readBurst(m strictyaml.Mapping) (size int64, ok bool) {
	n := m.Get("burst")
	if !n.Exists() {
		return 0, !m.Misspelt("burst")
	}
	if n.IsText() && n.Text() != "" && strings.Trim(n.Text(), "0") == "" {
		n.Problem("%q: want 1 or more, or no burst, which then is the amount of the limit: 10 of 10/s", n.Text())
		return 0, false
	}
	size = n.Int(0, 1, sluice.MaxTokens)
	return size, size > 0
}

// hasOptions says whether words stand behind the rate.
func hasOptions(text string) bool {
	for word := range strings.FieldsSeq(text) {
		if _, err := sluice.ParseAlgorithm(word); err == nil || word == "burst" || word == "calendar" {
			return true
		}
	}
	return false
}

func burstWords(size int64) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprintf(" burst %d", size)
}

// firstCause returns what a rate's error says behind the text that was parsed,
// which is not quite the one in the file.
func firstCause(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// tolerance is read with the bounds that hold for every limit; what the burst
// says of it is judged with the burst.
func tolerance(m strictyaml.Mapping) int64 {
	n := m.Get("tolerance")
	v := n.Millionths(-1, 0, million)
	switch {
	case v == 0:
		n.Problem("0%%: want more than 0 and at most 50%%; none for an exact limit")
	case v > maxTolerance:
		n.Problem("%s: want more than 0 and at most 50%%", share(v))
	case v > 0:
		return v
	}
	return 0
}

func shards(m strictyaml.Mapping) int {
	return int(m.Get("shards").Int(0, 1, maxShards))
}
