package lab

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

// A Report is what an experiment found.
type Report struct {
	Experiment string  `json:"experiment"`
	OK         bool    `json:"ok"` // every row is within its claim
	Took       float64 `json:"took_s"`
	Rows       any     `json:"rows"` // a slice of structs; nil if there is an Error
	// Skipped says that a program is missing, and Error which one and how to
	// install it, or what else kept the experiment from measuring.
	Skipped bool   `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
	// Findings hold the rows against the claims.
	Findings []Finding `json:"-"`

	of Experiment
}

// Measure runs an experiment and reports. What goes wrong is a part of the
// report, so that the experiments after it are measured all the same.
func (e Experiment) Measure(ctx context.Context, progress func(string)) *Report {
	began := time.Now()
	rows, ok, err := e.Run(ctx, progress)
	r := &Report{Experiment: e.Name, Took: time.Since(began).Seconds(), of: e}
	if err != nil {
		r.Skipped, r.Error = errors.Is(err, servers.ErrNotInstalled), err.Error()
		return r
	}
	r.Rows, r.OK = rows, ok
	r.Findings = r.Table().check(e.Claims)
	for _, f := range r.Findings {
		r.OK = r.OK && f.OK
	}
	return r
}

// Table returns the rows as a table.
func (r *Report) Table() *Table { return tableOf(r.Rows) }

// Verdict says in a few words how the experiment ended.
func (r *Report) Verdict() string {
	switch {
	case r.Skipped:
		return "SKIPPED"
	case r.Error != "":
		return "FAILED"
	case !r.OK:
		return "OUTSIDE what is claimed"
	}
	return "within what is claimed"
}
