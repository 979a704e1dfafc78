// Package lab measures on this machine what is claimed: experiments that start
// the servers they need, and say whether what came out is within the range that
// the claim allows.
package lab

import (
	"context"
	"time"
)

// A Report is what an experiment found.
type Report struct {
	Experiment string  `json:"experiment"`
	OK         bool    `json:"ok"` // every row is within its claim
	Took       float64 `json:"took_s"`
	Rows       any     `json:"rows"`
}

// An Experiment measures one claim.
type Experiment struct {
	Name  string
	Does  string        // in one line
	Takes time.Duration // about
	// Run measures; progress is told what is being done. Rows is a slice of
	// structs whose JSON names are their columns.
	Run func(ctx context.Context, progress func(string)) (rows any, ok bool, err error)
	// Plot draws the rows as an SVG; nil: there is no plot.
	Plot func(rows any) ([]byte, error)
}

// Experiments returns all experiments in the order in which they are listed.
func Experiments() []Experiment {
	return []Experiment{outage, hotkey, shards, fleet, changingRules}
}

// Find returns the experiment of a name.
func Find(name string) (Experiment, bool) {
	for _, e := range Experiments() {
		if e.Name == name {
			return e, true
		}
	}
	return Experiment{}, false
}

// Measure runs an experiment and reports.
func (e Experiment) Measure(ctx context.Context, progress func(string)) (*Report, error) {
	began := time.Now()
	rows, ok, err := e.Run(ctx, progress)
	if err != nil {
		return nil, err
	}
	return &Report{Experiment: e.Name, OK: ok, Took: time.Since(began).Seconds(), Rows: rows}, nil
}
