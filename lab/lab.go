// Package lab measures on this machine what is claimed: experiments that start
// the servers they need, and say whether what came out is within the range that
// the claim allows.
package lab

import (
	"context"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// An Experiment measures one claim.
type Experiment struct {
	Name  string
	Does  string        // in one line
	Takes time.Duration // about
	// Run measures; progress is told what is being done. Rows is a slice of
	// structs whose JSON names are their columns (see [Table]); ok says that all
	// is well beside what Claims say of them.
	Run func(ctx context.Context, progress func(string)) (rows any, ok bool, err error)
	// Claims are the ranges in which figures of the rows must lie.
	Claims []Claim
	// Explains says in a sentence or two what the figures show.
	Explains string
	// Plot draws the rows; nil: bars of the first figure that is measured.
	Plot func(*Table) plot.Plot
}

// Experiments returns all experiments in the order in which they are listed.
func Experiments() []Experiment {
	return []Experiment{
		boundary,
		algorithms,
		bench,
		memoryUse,
		pipeline,
		nonatomic,
		skew,
		e2e,
		overhead,
		outage,
		failModes,
		hotkey,
		shards,
		fleet,
		changingRules,
	}
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
