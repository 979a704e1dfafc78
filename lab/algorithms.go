package lab

import (
	"context"
	_ "embed" // the arrivals
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// algorithms lets each algorithm admit the same real traffic with the same
// limit. It computes with the algorithms alone, at the times of the traffic.
var algorithms = Experiment{
	Name:  "algorithms",
	Does:  "the same real traffic and limit for each algorithm: admitted, refused, how near to the exact log",
	Takes: time.Second,
	Run: func(_ context.Context, progress func(string)) (any, bool, error) {
		rows, err := runAlgorithms()
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "sliding_log 10/10s", Column: "worst_window", Max: 10},
		{Row: "sliding_window 10/10s", Column: "worst_window", Max: 19},
		{Row: "token_bucket 10/10s", Column: "worst_window", Max: 20},
		{Row: "fixed_window 10/10s", Column: "worst_window", Max: 20},
		{Row: "sliding_window 10/10s", Column: "agrees_percent", Min: 95, Max: 100, Reference: "about 95"},
		{Row: "token_bucket 10/10s", Column: "agrees_percent", Min: 95, Max: 100},
		{Row: "fixed_window 10/10s", Column: "agrees_percent", Min: 95, Max: 100},
		{Row: "sliding_window 10/30s", Column: "agrees_percent", Min: 90, Max: 95, Reference: "about 95"},
		{Row: "token_bucket 10/30s", Column: "agrees_percent", Min: 80, Max: 90},
		{Row: "fixed_window 10/30s", Column: "agrees_percent", Min: 90, Max: 95},
		{Row: "sliding_window 10/30s", Column: "agrees_pressed_percent", Min: 85, Max: 90},
	},
	Explains: "The requests of the 100 busiest clients of a public web site over four days meet a limit for each client: 10 per 10 s, which refuses few, and 10 per 30 s, which refuses one in five. " +
		"Agreement is the part of requests that are answered as the exact sliding log answers them: of all, and of those of clients who were ever refused (pressed).",
	Plot: plotAlgorithms,
}

// An AlgorithmRow is what one algorithm made of the traffic.
type AlgorithmRow struct {
	Algorithm   string  `json:"algorithm"`
	Limit       string  `json:"limit"`
	Allowed     int     `json:"allowed" unit:"requests"`
	Refused     int     `json:"refused" unit:"requests"`
	LongestWait float64 `json:"longest_wait_s"`
	WorstWindow int     `json:"worst_window" unit:"requests"`
	// Agrees is the part of all requests that are answered as the log answers
	// them; AgreesPressed that of clients whom either refused something.
	Agrees        float64 `json:"agrees_percent"`
	AgreesPressed float64 `json:"agrees_pressed_percent"`
}

// algorithmsLimits are one that most clients keep, and one that presses them.
var algorithmsLimits = [...]sluice.Limit{{Tokens: 10, Per: 10 * time.Second}, {Tokens: 10, Per: 30 * time.Second}}

//go:embed arrivals.txt
var arrivalsText string

// arrivalsStart is the time from which the arrivals count.
var arrivalsStart = time.Date(2015, 5, 17, 10, 5, 0, 0, time.UTC)

// arrivals returns the times at which each client asked.
func arrivals() ([][]time.Time, error) {
	var clients [][]time.Time
	for line := range strings.Lines(arrivalsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := arrivalsStart
		var times []time.Time
		for word := range strings.FieldsSeq(line) {
			seconds, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("arrivals.txt: %w", err)
			}
			at = at.Add(time.Duration(seconds) * time.Second)
			times = append(times, at)
		}
		clients = append(clients, times)
	}
	return clients, nil
}

func runAlgorithms() ([]AlgorithmRow, error) {
	clients, err := arrivals()
	if err != nil {
		return nil, err
	}
	var rows []AlgorithmRow
	for _, limit := range algorithmsLimits {
		var exact [][]answer // the first algorithm's
		for _, algorithm := range allAlgorithms {
			limit.Algorithm = algorithm
			var all [][]answer
			for _, times := range clients {
				answers, err := decideAll(limit, times)
				if err != nil {
					return nil, err
				}
				all = append(all, answers)
			}
			if exact == nil {
				exact = all
			}
			rows = append(rows, algorithmRow(limit, all, exact))
		}
	}
	return rows, nil
}

// An answer is what one request was told.
type answer struct {
	at      time.Time
	allowed bool
	wait    time.Duration // if not allowed
}

// decideAll lets one client's requests meet the limit.
func decideAll(limit sluice.Limit, times []time.Time) ([]answer, error) {
	meter, err := limit.Meter()
	if err != nil {
		return nil, err
	}
	charges := []sluice.Charge{{Limit: limit, N: 1}}
	meters, states := []sluice.Meter{meter}, []*sluice.State{new(sluice.State)}
	var answers []answer
	for _, at := range times {
		d := sluice.Decide(nil, charges, meters, states, sluice.Ticks(at))[0]
		answers = append(answers, answer{at, d.Allowed, d.RetryAfter})
	}
	return answers, nil
}

func algorithmRow(limit sluice.Limit, clients, exact [][]answer) AlgorithmRow {
	row := AlgorithmRow{Algorithm: limit.Algorithm.String()}
	row.Limit = fmt.Sprintf("%d/%.0fs", limit.Tokens, limit.Per.Seconds())
	row.Agrees, row.AgreesPressed = agreement(clients, exact)
	for _, answers := range clients {
		var admitted []time.Time
		for _, a := range answers {
			if a.allowed {
				admitted = append(admitted, a.at)
				continue
			}
			row.Refused++
			row.LongestWait = max(row.LongestWait, a.wait.Seconds())
		}
		row.Allowed += len(admitted)
		row.WorstWindow = max(row.WorstWindow, mostWithin(admitted, limit.Per))
	}
	return row
}

// agreement returns which part of the requests are answered as exactly, in
// percent; pressed looks only at clients whom either refused something, as the
// others put nothing to the test.
func agreement(clients, exact [][]answer) (all, pressed float64) {
	var same, asked, samePressed, askedPressed int
	for i, answers := range clients {
		equal := 0
		for j, a := range answers {
			if a.allowed == exact[i][j].allowed {
				equal++
			}
		}
		same, asked = same+equal, asked+len(answers)
		if refuses(answers) || refuses(exact[i]) {
			samePressed, askedPressed = samePressed+equal, askedPressed+len(answers)
		}
	}
	return 100 * float64(same) / float64(max(asked, 1)), 100 * float64(samePressed) / float64(max(askedPressed, 1))
}

func refuses(answers []answer) bool {
	for _, a := range answers {
		if !a.allowed {
			return true
		}
	}
	return false
}

// plotAlgorithms draws the busiest minute of a client.
func plotAlgorithms(*Table) plot.Plot {
	l := &plot.Lines{X: plot.Axis{Label: "time (s)"}, Y: plot.Axis{Label: "requests admitted"}}
	clients, err := arrivals()
	if err != nil {
		return l
	}
	times := busiestMinute(clients)
	l.Title = fmt.Sprintf("One minute of the busiest client of a web site, who asks %d times, under a limit of 10 per 30 s", len(times))
	for _, algorithm := range allAlgorithms {
		limit := algorithmsLimits[1]
		limit.Algorithm = algorithm
		answers, err := decideAll(limit, times)
		if err != nil {
			return l
		}
		l.Series = append(l.Series, admittedSeries(algorithm.String(), answers))
	}
	return l
}

func admittedSeries(name string, answers []answer) plot.LineSeries {
	s := plot.LineSeries{Name: name, Steps: true}
	n := 0
	for _, a := range answers {
		if a.allowed {
			n++
		}
		s.X, s.Y = append(s.X, a.at.Sub(answers[0].at).Seconds()), append(s.Y, float64(n))
	}
	return s
}

// busiestMinute returns the requests of the client who asks most within a minute,
// in this.
func busiestMinute(clients [][]time.Time) []time.Time {
	var most []time.Time
	for _, times := range clients {
		first := 0
		for i, at := range times {
			for at.Sub(times[first]) >= time.Minute {
				first++
			}
			if i-first+1 > len(most) {
				most = times[first : i+1]
			}
		}
	}
	return most
}
