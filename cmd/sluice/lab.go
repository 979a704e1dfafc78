package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"text/tabwriter"

	"github.com/sluice-limiter/sluice/lab"
)

const labHelp = `Measures on this machine what is claimed, with real servers that it starts
itself. Without a name it lists the experiments. It exits with 1 if a result is
outside the range that the claim allows.

Example:
  sluice lab outage`

func (p *program) lab(ctx context.Context, args []string) int {
	f := p.flags("lab", "[EXPERIMENT]", labHelp)
	asJSON := f.Bool("json", false, "print JSON")
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
	report, err := e.Measure(ctx, func(step string) { fmt.Fprintf(p.stderr, "%s: %s\n", e.Name, step) })
	if err != nil {
		return p.fail(err)
	}
	if *asJSON {
		err = json.NewEncoder(p.stdout).Encode(report)
	} else {
		err = p.printReport(report)
	}
	switch {
	case err != nil:
		return p.fail(err)
	case !report.OK:
		return exitFailed
	}
	return exitOK
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
				fmt.Fprintf(w, "%.2f\t", v)
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
