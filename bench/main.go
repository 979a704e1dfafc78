// Command bench measures Sluice against other rate limiters, each figure as a
// ratio of two things measured by turns in one run. It reports; it judges
// nothing but the column "ok", and exits 0 whatever the figures are. A row that
// could not be measured is not ok, says why on standard error, and makes it exit
// 1 when the others are through.
//
// It is a module of its own, so that the peers are no dependencies of Sluice.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// settings say how long to measure.
type settings struct {
	pairs int           // rounds of each side
	round time.Duration // what one round should take

	programs *programs // of the whole run
}

// benchmarks returns every benchmark in the order of the report. Another group
// of rows is one more function here.
func benchmarks() []benchmark {
	return slices.Concat(memoryBenchmarks(), heapBenchmarks(), policyBenchmarks(),
		redisBenchmarks(), gatewayBenchmarks(), toleranceBenchmarks(), accuracyBenchmarks())
}

// run returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.Bool("list", false, "print the names and measure nothing")
	asJSON := flags.Bool("json", false, "print one JSON object instead of a table")
	pick := flags.String("run", "", "measure only names that match this regular `expression`")
	s := settings{programs: &programs{}}
	defer s.programs.close()
	flags.IntVar(&s.pairs, "pairs", 5, "rounds of each side; the figures are medians")
	flags.DurationVar(&s.round, "round", 400*time.Millisecond, "time of one round")
	upstream := flags.String("proxy", "", "measure nothing: be the bare proxy before `URL` that gateways are compared with")
	listen := flags.String("listen", "127.0.0.1:0", "`ADDRESS` of that proxy")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *upstream != "" {
		fmt.Fprintln(stderr, "bench:", serveBare(*listen, *upstream))
		return 1
	}
	chosen, err := choose(benchmarks(), *pick)
	if err != nil || flags.NArg() > 0 || s.pairs < 1 || s.round <= 0 {
		fmt.Fprintln(stderr, "bench: bad arguments:", err, flags.Args())
		return 2
	}
	switch {
	case *list:
		for _, b := range chosen {
			fmt.Fprintln(stdout, b.name)
		}
	case *asJSON:
		err = printJSON(stdout, chosen, s)
	default:
		err = printTable(stdout, chosen, s)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// choose keeps the benchmarks whose names match; none left is an error.
func choose(all []benchmark, pick string) ([]benchmark, error) {
	expression, err := regexp.Compile(pick)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(all, func(b benchmark) bool { return !expression.MatchString(b.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no benchmark matches %q; -list names them", pick)
	}
	return chosen, nil
}

// printJSON prints all rows, and returns why some could not be measured.
func printJSON(w io.Writer, chosen []benchmark, s settings) error {
	rows, errs := make([]row, 0, len(chosen)), make([]error, len(chosen))
	for i, b := range chosen {
		var r row
		r, errs[i] = b.run(s)
		rows = append(rows, r)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	errs = append(errs, encoder.Encode(struct {
		Rows []row `json:"rows"`
	}{rows}))
	return errors.Join(errs...)
}

// printTable prints each row as soon as it is measured: a whole run takes
// minutes.
func printTable(w io.Writer, chosen []benchmark, s settings) error {
	fmt.Fprintf(w, "%s, %d cores, median of %d pairs\n\n", runtime.Version(), runtime.GOMAXPROCS(0), s.pairs)
	fmt.Fprintln(w, header)
	errs := make([]error, len(chosen))
	for i, b := range chosen {
		var r row
		r, errs[i] = b.run(s)
		fmt.Fprintln(w, r)
	}
	return errors.Join(errs...)
}
