package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

// A Result says what a policy would have done with the requests of logs. Its
// JSON is the form that other programs may rely on.
type Result struct {
	// Requests is Allowed + Refused + CostErrors. A request is refused if a
	// limit that is not a shadow refused it.
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	Refused  int64 `json:"refused"`
	// BadLines could not be read and are no requests.
	BadLines int64 `json:"bad_lines"`
	// LateLines were further out of order than the window reaches; they are
	// requests decided at the time reached.
	LateLines int64 `json:"late_lines"`
	// Keys is the counters used, the sum over all limits.
	Keys   int64         `json:"keys"`
	Limits []LimitResult `json:"limits"`

	// Lines is all lines read but blank ones.
	Lines int64 `json:"lines"`
	// Unmatched is the requests allowed since no limit matched.
	Unmatched int64 `json:"unmatched"`
	// CostErrors is the requests whose cost makes no sense or can never pass:
	// a gateway answers 400. CostError is the first.
	CostErrors int64  `json:"cost_errors"`
	CostError  string `json:"cost_error,omitempty"`
	// Evicted is the counters forgotten before they were idle, since the store
	// was full: if not 0, some requests were allowed that would not have been.
	Evicted int64 `json:"evicted"`
	// LateBy is how late the latest of the late lines was, in seconds.
	LateBy float64 `json:"late_by_s,omitempty"`
	// WindowFull is the lines decided before their time since more lines came
	// within the window than may be held.
	WindowFull int64 `json:"window_full,omitempty"`
	// From and To are the times of the first and the last request; nil if
	// there was none.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Bad shows the first bad lines.
	Bad []BadLine `json:"bad,omitempty"`
	// Hints says, a sentence each, what may not be meant.
	Hints []string `json:"hints,omitempty"`
	// Timeline counts the requests over time.
	Timeline Timeline `json:"timeline"`

	Took        float64 `json:"took_s"`
	LinesPerSec float64 `json:"lines_per_s"`
}

// A LimitResult says what one limit said, whatever the others did.
type LimitResult struct {
	Name string `json:"name"`
	// Allowed and Refused count the requests that matched. A shadow limit
	// counts what it would have refused.
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
	// Keys is the counters used; beyond Options.MaxKeys it is that number, and
	// what other keys did is in OtherAllowed and OtherRefused.
	Keys int64 `json:"keys"`
	// Top is the keys with the most refusals, then the most requests.
	Top []KeyResult `json:"top"`

	OtherAllowed int64 `json:"other_allowed,omitempty"`
	OtherRefused int64 `json:"other_refused,omitempty"`
	// KeysRefused is how many of the keys were ever refused.
	KeysRefused int64 `json:"keys_refused"`
	// Unlimited counts the requests that an override let pass uncounted.
	Unlimited int64    `json:"unlimited,omitempty"`
	Shadow    bool     `json:"shadow,omitempty"`
	Key       []string `json:"key"`
	Algorithm string   `json:"algorithm,omitempty"`
	Limit     string   `json:"limit"`
	// Peak is the most tokens that all keys together asked in one period of
	// the limit, aligned to the clock.
	Peak int64 `json:"peak"`
}

// A KeyResult says how one key fared.
type KeyResult struct {
	// Key is the value of the limit's attribute; of several,
	// "tenant=shop-a|route=order" with | and % in values written %7C and %25.
	Key          string     `json:"key"`
	Allowed      int64      `json:"allowed"`
	Refused      int64      `json:"refused"`
	FirstRefused *time.Time `json:"first_refused"`
	// Peak is the most tokens that the key asked, refused ones too, in one
	// period of the limit in force, aligned to the clock: to the Unix epoch,
	// or to the calendar.
	Peak int64 `json:"peak"`
}

// A BadLine is a line that could not be read.
type BadLine struct {
	File   string `json:"file"`
	Line   int64  `json:"line"` // from 1
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning
}

func logTime(nanos int64) *time.Time {
	t := time.Unix(0, nanos).UTC()
	return &t
}

// took notes how long the run took.
func (r *Result) took(began time.Time) {
	took := time.Since(began).Seconds()
	r.Took = took
	if took > 0 {
		r.LinesPerSec = float64(r.Lines) / took
	}
}

// finish fills in what is known at the end.
func (r *run) finish(s *stream, limits []policy.Limit) {
	result := &r.result
	result.Lines, result.BadLines, result.Bad = s.lines, s.badAll, s.bad
	result.LateLines, result.LateBy = s.order.late, s.order.lateness().Seconds()
	result.WindowFull = s.order.early
	if result.Requests > 0 {
		result.To = logTime(r.now)
	}
	result.Timeline = r.timeline.export()
	result.Limits = []LimitResult{}
	for i := range limits {
		l := r.tallies[&limits[i]].export(r.o.Top)
		result.Keys += l.Keys
		result.Limits = append(result.Limits, l)
	}
	result.Hints = r.hints(limits)
}

// export describes the tally.
func (t *tally) export(top int) LimitResult {
	l := LimitResult{
		Name: t.limit.Name, Allowed: t.all.allowed, Refused: t.all.refused, Peak: t.all.peak,
		Keys: int64(len(t.keys)), Top: []KeyResult{}, Key: slices.Clone(t.limit.Key),
		OtherAllowed: t.other.allowed, OtherRefused: t.other.refused,
		Unlimited: t.unlimited, Shadow: t.limit.Shadow, Limit: "unlimited",
	}
	if l.Key == nil {
		l.Key = []string{}
	}
	if !t.limit.Unlimited {
		l.Algorithm, l.Limit = t.limit.Default.Algorithm.String(), t.limit.Default.String()
	}
	for i := range t.counts {
		if t.counts[i].refused > 0 {
			l.KeysRefused++
		}
	}
	for _, i := range t.top(top) {
		c := &t.counts[i]
		k := KeyResult{Key: t.keys[i], Allowed: c.allowed, Refused: c.refused, Peak: c.peak}
		if c.refused > 0 {
			k.FirstRefused = logTime(c.first)
		}
		l.Top = append(l.Top, k)
	}
	return l
}

// hints returns what the numbers suggest was not meant.
func (r *run) hints(limits []policy.Limit) []string {
	var hints []string
	hint := func(format string, args ...any) { hints = append(hints, fmt.Sprintf(format, args...)) }
	result := &r.result
	switch {
	case result.Lines == 0:
		hint("The logs are empty.")
	case result.Requests == 0:
		hint("No line could be read: the formats known are Apache common and combined, nginx combined, and JSON lines.")
	case len(limits) == 0:
		hint("The policy has no limits.")
	case result.Unmatched == result.Requests:
		hint("No request met any limit.")
	}
	if result.LateLines*100 > result.Requests {
		hint("%s came late, by up to %v: a longer window puts them in order.", plural(result.LateLines, "line"), r.lateBy())
	}
	// Without late lines the order was right all the same.
	if result.WindowFull > 0 && result.LateLines > 0 {
		hint("More lines came within the window than may be held; decided before it was over: %d.", result.WindowFull)
	}
	if result.Evicted > 0 {
		hint("Counters forgotten before they were idle: %d. For an exact answer raise the number of keys.", result.Evicted)
	}
	if result.Requests > 0 {
		for i := range limits {
			r.hintAttributes(&limits[i], hint)
		}
	}
	return hints
}

func (r *run) lateBy() time.Duration {
	return time.Duration(r.result.LateBy * float64(time.Second)).Round(time.Second)
}

// hintAttributes names the attributes of a limit that no request has.
func (r *run) hintAttributes(l *policy.Limit, hint func(string, ...any)) {
	for _, c := range l.Match {
		if r.read.missing(c.Attribute) {
			hint("Limit %s matches by %s, which no request in the logs has.", l.Name, c.Attribute)
		}
	}
	for _, name := range l.Key {
		if r.read.missing(name) && len(r.tallies[l].keys) > 0 {
			hint("Limit %s is keyed by %s, which no request in the logs has: they share counters.", l.Name, name)
		}
	}
}
