package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// hotkey lets several instances ask one Redis for more of one key than its limit
// lets pass, and asks what a decision costs the server and how exact it is: with
// leases of several tolerances, and with the shortcuts that are well known.
var hotkey = Experiment{
	Name:  "hotkey",
	Does:  "ask 4 instances for 1.5x the limit of one key: calls to Redis a decision, admissions against the exact limiter, the worst window",
	Takes: 75 * time.Second,
	Run:   runHotkey,
	Plot:  plotHotkey,
	Claims: []Claim{
		{Row: "sluice 0", Column: "admitted_ratio", Min: 1 - exactMostUnder, Max: 1 + exactMostOver},
		{Row: "sluice 0.01", Column: "admitted_ratio", Min: 1 - hotMostOff, Max: 1 + hotMostOff},
		// As much for the 25,000/s that a small machine is able to ask.
		{Row: "sluice 0.01", Column: "calls_per_decision", Max: 0.032},
		{Row: "sluice 0", Column: "worst_window_over_bound"},
		{Row: "sluice 0.005", Column: "worst_window_over_bound"},
		{Row: "sluice 0.01", Column: "worst_window_over_bound"},
		{Row: "sluice 0.05", Column: "worst_window_over_bound"},
	},
	Explains: "Four instances ask one Redis for half as much again as one key's limit lets pass. " +
		"With a tolerance they claim tokens in lots and spend them without asking; beside them stand shortcuts that are well known, for what they cost and what they let pass.",
}

// A HotkeyRow is what one way of limiting did.
type HotkeyRow struct {
	Variant          string  `json:"variant"`
	Tolerance        float64 `json:"tolerance" lab:"label"`
	CallsPerDecision float64 `json:"calls_per_decision"`
	// AdmittedRatio is admissions by what an exact limiter would have admitted
	// in the same time.
	AdmittedRatio float64 `json:"admitted_ratio"`
	// WorstOver is by how much of its bound, (1 + tolerance) x burst + rate x W,
	// the worst window is over; 0: none is.
	WorstOver float64 `json:"worst_window_over_bound"`
	Limit     int64   `json:"limit_per_s"`
	Offered   float64 `json:"decisions_per_s"`
	Local     int64   `json:"local"`     // decisions by local counters
	RedisCPU  float64 `json:"redis_cpu"` // cores
}

const (
	hotInstances = 4
	hotOverload  = 1.5 // of the limit is asked
	hotMeasured  = 5 * time.Second
)

// What the rows of sluice must show.
const (
	hotJudged  = 0.01 // the tolerance of which it is claimed:
	hotMostOff = 0.01
	// exactMostOver and exactMostUnder are for tolerance 0. A machine that stands
	// still at the end of a run does not ask for what it might have got.
	exactMostOver, exactMostUnder = 0.0001, 0.005
)

// hotMostCalls is 2 n / (t x burst): each of n instances claims half of its share
// at a time. At 100,000/s it is 0.008; asking whether the limit is still reached
// costs about as much again.
func hotMostCalls(limit int64) float64 {
	return max(0.02, 2*hotInstances/(hotJudged*float64(limit)))
}

const ours = "sluice"

func (r *HotkeyRow) ok() bool {
	if r.Variant != ours {
		return true // reported, not judged
	}
	if r.WorstOver > 0 || r.Local > 0 {
		return false
	}
	off := r.AdmittedRatio - 1
	switch r.Tolerance {
	case 0:
		return off <= exactMostOver && off >= -exactMostUnder
	case hotJudged:
		return math.Abs(off) <= hotMostOff && r.CallsPerDecision <= hotMostCalls(r.Limit)
	}
	return true
}

// A hotVariant is a way to limit one key on several instances.
type hotVariant struct {
	name      string
	tolerance int64    // millionths
	commands  []string // that it sends, as INFO commandstats names them
	warm      time.Duration
	windows   bool // it counts by whole seconds, and its decisions have no store time
	open      func(ctx context.Context, addr string, limit sluice.Limit) (hotLimiter, error)
}

// A hotLimiter is the instances of a variant.
type hotLimiter struct {
	first hotTake // to be asked once before the others; nil: none
	takes []hotTake
	close func()
}

func hotVariants() []hotVariant {
	var all []hotVariant
	for _, tolerance := range []int64{0, 5_000, 10_000, 50_000} {
		all = append(all, leasing(tolerance))
	}
	return append(all, wellKnown()...)
}

// leasing is this project's stack.
func leasing(tolerance int64) hotVariant {
	return hotVariant{
		name:      ours,
		tolerance: tolerance,
		commands:  []string{"eval", "evalsha"},
		warm:      hotWarm,
		open: func(ctx context.Context, addr string, limit sluice.Limit) (hotLimiter, error) {
			return openHotFleet(ctx, addr, sluice.Charge{Key: "hot", Limit: limit, N: 1, Tolerance: tolerance})
		},
	}
}

func perSecond(tokens int64) sluice.Limit { return sluice.Limit{Tokens: tokens, Per: time.Second} }

// hotLimits are tried from the first on: not every machine can ask for more than
// 100,000 tokens a second of every limiter.
var hotLimits = []int64{100_000, 50_000, 25_000, 10_000}

// hotEnough is how many times its limit a limiter must at least have been asked.
const hotEnough = 1.2

func runHotkey(ctx context.Context, progress func(string)) (any, bool, error) {
	var rows []HotkeyRow
	ok := true
	for _, v := range hotVariants() {
		row, err := v.overload(ctx, progress)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", v.name, err)
		}
		ok = ok && row.ok()
		rows = append(rows, *row)
	}
	return rows, ok, nil
}

// overload measures a variant by the largest limit that this machine can ask
// enough of.
func (v *hotVariant) overload(ctx context.Context, progress func(string)) (*HotkeyRow, error) {
	for _, limit := range hotLimits {
		progress(fmt.Sprintf("%s, tolerance %g%%, %d/s", v.name, float64(v.tolerance)/1e4, limit))
		row, err := v.measure(ctx, perSecond(limit))
		if err != nil || row.Offered >= hotEnough*float64(limit) {
			return row, err
		}
	}
	return nil, errors.New("this machine is too busy to ask 12,000 decisions a second: end other programs")
}

// measure runs a variant and says what it did.
func (v *hotVariant) measure(ctx context.Context, limit sluice.Limit) (*HotkeyRow, error) {
	run, err := v.run(ctx, limit, hotOverload, hotMeasured)
	if err != nil {
		return nil, err
	}
	tolerance := float64(v.tolerance) / 1e6
	bound := BoundOf(limit, 1)
	bound.Burst += int64(tolerance * float64(bound.Burst))
	row := &HotkeyRow{
		Variant:          v.name,
		Tolerance:        tolerance,
		CallsPerDecision: float64(run.calls) / float64(run.tally.decisions),
		AdmittedRatio:    run.tally.ratioByStore(limit),
		WorstOver:        bound.Worst(run.tally.all()),
		Limit:            limit.Tokens,
		Offered:          float64(run.tally.decisions) / hotMeasured.Seconds(),
		Local:            run.tally.local,
		RedisCPU:         run.cpu / hotMeasured.Seconds(),
	}
	if v.windows {
		row.AdmittedRatio = run.tally.ratioOfSeconds(limit.Tokens, v.warm, hotMeasured)
	}
	return row, nil
}

// A hotRun is what a variant did in the measured time.
type hotRun struct {
	tally *hotTally
	calls int64   // to the server
	cpu   float64 // of the server, in seconds
}

// run starts a server and asks a variant for so many times its limit.
func (v *hotVariant) run(ctx context.Context, limit sluice.Limit, overload float64, measured time.Duration) (*hotRun, error) {
	server, err := servers.StartRedis(ctx)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	limiter, err := v.open(ctx, server.Addr, limit)
	if err != nil {
		return nil, err
	}
	defer limiter.close()
	load := hotLoad{first: limiter.first, takes: limiter.takes, rate: overload * float64(limit.Tokens), warm: v.warm, measured: measured}
	done := make(chan *hotTally, 1)
	start := time.Now()
	go func() { done <- load.run(ctx, start) }()
	sleep(ctx, v.warm-time.Since(start))
	before, err := serverLoad(server, v.commands)
	sleep(ctx, v.warm+measured-time.Since(start))
	after, err2 := serverLoad(server, v.commands)
	tally := <-done
	if err = errors.Join(err, err2, tally.err, ctx.Err()); err != nil {
		return nil, err
	}
	if tally.decisions == 0 {
		return nil, errors.New("nothing was decided")
	}
	return &hotRun{tally: tally, calls: after.calls - before.calls, cpu: after.cpu - before.cpu}, nil
}

// A serverUse is what a server has done since its start.
type serverUse struct {
	calls int64
	cpu   float64 // seconds
}

// serverLoad counts calls of some commands. Those that scripts make count under
// names of their own, as those of callers do.
func serverLoad(server *servers.Redis, commands []string) (serverUse, error) {
	stats, err := server.Do("INFO", "commandstats")
	if err != nil {
		return serverUse{}, err
	}
	cpu, err := server.Do("INFO", "cpu")
	if err != nil {
		return serverUse{}, err
	}
	var u serverUse
	for _, name := range commands {
		u.calls += int64(infoNumber(stats, "cmdstat_"+name+":calls="))
	}
	u.cpu = infoNumber(cpu, "used_cpu_sys:") + infoNumber(cpu, "used_cpu_user:")
	return u, nil
}

// infoNumber returns the number that follows a name at the beginning of a line of
// INFO; 0 if none does.
func infoNumber(info, name string) float64 {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.ParseFloat(number, 64)
			return n
		}
	}
	return 0
}
