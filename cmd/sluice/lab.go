package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sluice-limiter/sluice/lab"
)

const labHelp = `Measures on this machine what is claimed, with real servers that it starts
itself. Without a name it lists the experiments; all runs every one of them,
whatever becomes of the others. It exits with 1 if a result is outside the range
that is claimed, or could not be measured.

Examples:
  sluice lab boundary
  sluice lab -plot hotkey.svg hotkey
  sluice lab all -html report.html`

// A labRun is what the flags of lab ask for.
type labRun struct {
	json bool
	plot string // a file
	html string // a file
	docs string // a folder
}

func (p *program) lab(ctx context.Context, args []string) int {
	f := p.flags("lab", "[EXPERIMENT | all]", labHelp)
	var o labRun
	f.BoolVar(&o.json, "json", false, "print JSON, an object for each experiment")
	f.StringVar(&o.plot, "plot", "", "also write the plot to this SVG `FILE`")
	f.StringVar(&o.html, "html", "", "also write a report with plots to `FILE`")
	f.StringVar(&o.docs, "docs", "", "also bring figures and plots of the pages in `DIR` up to date")
	names, code, done := p.parse(f, args)
	switch {
	case done:
		return code
	case len(names) == 0 && o == labRun{}:
		return p.listExperiments()
	case len(names) == 0:
		return p.misuse(f, "no experiment is named: want a name or all")
	case len(names) > 1:
		return p.misuse(f, "one experiment at a time, not %d; all runs every one", len(names))
	}
	experiments := lab.Experiments()
	if names[0] != "all" {
		e, ok := lab.Find(names[0])
		if !ok {
			return p.misuse(f, "unknown experiment %q: sluice lab lists them", names[0])
		}
		experiments = []lab.Experiment{e}
	} else if o.plot != "" {
		return p.misuse(f, "-plot is for one experiment: want its name, or -html for all")
	}
	return p.measure(ctx, experiments, o)
}

func (p *program) listExperiments() int {
	total := time.Duration(0)
	for _, e := range lab.Experiments() {
		fmt.Fprintf(p.stdout, "%-10s %4.0f s  %s\n", e.Name, e.Takes.Seconds(), e.Does)
		total += e.Takes
	}
	fmt.Fprintf(p.stdout, "%-10s %4.0f s  every one of them\n", "all", total.Seconds())
	return exitOK
}

// measure runs experiments, one after the other, and prints each as soon as it
// is done.
func (p *program) measure(ctx context.Context, experiments []lab.Experiment, o labRun) int {
	code := exitOK
	var reports []*lab.Report
	for i, e := range experiments {
		fmt.Fprintf(p.stderr, "[%d/%d] %s, about %.0f s\n", i+1, len(experiments), e.Name, e.Takes.Seconds())
		report := e.Measure(ctx, func(step string) { fmt.Fprintf(p.stderr, "%s: %s\n", e.Name, step) })
		if ctx.Err() != nil { // what was cut off says nothing
			code = p.fail(fmt.Errorf("lab: stopped in %s", e.Name))
			break
		}
		reports = append(reports, report)
		if err := p.printReport(e, report, o.json, len(experiments) > 1); err != nil {
			return p.fail(err)
		}
		if !report.OK {
			code = exitFailed
		}
	}
	if err := p.keepReports(ctx, reports, o); err != nil {
		return p.fail(err)
	}
	return code
}

func (p *program) printReport(e lab.Experiment, r *lab.Report, asJSON, titled bool) error {
	if r.Error != "" {
		fmt.Fprintf(p.stderr, "%s: %s: %s\n", e.Name, r.Verdict(), r.Error)
	}
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	if titled {
		fmt.Fprintf(p.stdout, "== %s: %s\n\n", e.Name, e.Does)
	}
	err := r.WriteText(p.stdout)
	if titled && err == nil {
		_, err = fmt.Fprintln(p.stdout)
	}
	return err
}

// keepReports writes the files that were asked for.
func (p *program) keepReports(ctx context.Context, reports []*lab.Report, o labRun) error {
	for _, r := range reports {
		if o.docs != "" {
			if err := r.UpdatePage(o.docs); err != nil {
				return err
			}
		}
		if o.plot != "" && r.Error == "" {
			if err := writeTo(o.plot, r.WritePlot); err != nil {
				return err
			}
		}
	}
	if o.html == "" || len(reports) == 0 {
		return nil
	}
	return writeTo(o.html, func(w io.Writer) error {
		// A run that was stopped is worth its report as well.
		return lab.WriteHTML(w, reports, lab.Machine(context.WithoutCancel(ctx)), time.Now())
	})
}

// writeTo writes a file.
func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
