package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"text/tabwriter"

	"github.com/sluice-limiter/sluice/lab"
)

const labHelp = `Measures on this machine what is claimed, with real servers that it starts
itself. Without a name it lists the experiments. It exits with 1 if a result is
outside the range that the claim allows.

Example:
  sluice lab outage
  sluice lab -plot hotkey.svg hotkey`

func (p *program) lab(ctx context.Context, args []string) int {
	f := p.flags("lab", "[EXPERIMENT]", labHelp)
	asJSON := f.Bool("json", false, "print JSON")
	plot := f.String("plot", "", "write a plot to this SVG `FILE`")
	names, code, done := p.parse(f, args)
	switch {
	case done:
		return code
	case len(names) == 0:
		for _, e := range lab.Experiments() {
			fmt.Fprintf(p.stdout, "%-10s %4.0f s  %s\n", e.Name, e.Takes.Seconds(), e.Does)
		}
		return exitOK
	case len(names) > 1:
		return p.misuse(f, "one experiment at a time, not %d", len(names))
	}
	e, ok := lab.Find(names[0])
	if !ok {
		return p.misuse(f, "unknown experiment %q: sluice lab lists them", names[0])
	}
	if *plot != "" && e.Plot == nil {
		return p.misuse(f, "experiment %q has no plot: leave out -plot", e.Name)
	}
	report, err := e.Measure(ctx, func(step string) { fmt.Fprintf(p.stderr, "%s: %s\n", e.Name, step) })
	if err != nil {
		return p.fail(err)
	}
	if *asJSON {
		err = json.NewEncoder(p.stdout).Encode(report)
	} else {
		err = p.printReport(report)
	}
	if err == nil && *plot != "" {
		err = writeExperimentPlot(*plot, e, report)
	}
	switch {
	case err != nil:
		return p.fail(err)
	case !report.OK:
		return exitFailed
	}
	return exitOK
}

func writeExperimentPlot(file string, e lab.Experiment, r *lab.Report) error {
	svg, err := e.Plot(r.Rows)
	if err != nil {
		return err
	}
	return os.WriteFile(file, svg, 0o644)
}

// printReport prints the rows as a table, a column for each field.
func (p *program) printReport(r *lab.Report) error {
	rows := reflect.ValueOf(r.Rows)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for i := range rows.Len() {
		row := rows.Index(i)
		if i == 0 {
			for j := range row.NumField() {
				fmt.Fprintf(w, "%s\t", row.Type().Field(j).Tag.Get("json"))
			}
			fmt.Fprintln(w)
		}
		for _, field := range row.Fields() {
			if v, ok := field.Interface().(float64); ok {
				fmt.Fprintf(w, "%s\t", shortNumber(v))
			} else {
				fmt.Fprintf(w, "%v\t", field.Interface())
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	verdict := "within what is claimed"
	if !r.OK {
		verdict = "OUTSIDE what is claimed"
	}
	fmt.Fprintf(p.stdout, "\n%s, in %.0f s\n", verdict, r.Took)
	return nil
}

// shortNumber writes two digits behind the point, and of less than 10 four.
func shortNumber(v float64) string {
	digits := 2
	if v > -10 && v < 10 {
		digits = 4
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
