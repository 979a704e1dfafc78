package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-limiter/sluice/lab/plot"
	"github.com/sluice-limiter/sluice/policy"
)

// fleet simulates a whole fleet: more instances and tenants than a machine
// holds, and minutes of it in seconds.
var fleet = Experiment{
	Name:   "fleet",
	Does:   "simulate 20 instances and 100,000 tenants in virtual time: every admission against the stated bounds",
	Takes:  60 * time.Second,
	Run:    runFleet,
	Claims: fleetClaims(),
	Explains: "The layers of every instance run as they are, over a store and a network that are simulated, in virtual time; every admission is held against the stated bound. " +
		"Faults are planted to see that the check finds them.",
	Plot: func(t *Table) plot.Plot {
		return t.bars("Admissions over the stated bound; planted faults must have some", "admissions over the bound", "over_bound", nil)
	},
}

// fleetClaims demands that planted faults are found, and nothing else is.
func fleetClaims() []Claim {
	var claims []Claim
	for _, s := range simulations(1) {
		c := Claim{Row: s.Name, Column: "over_bound"}
		if s.Wrong != (wrong{}) {
			c.Min, c.Max = 1, math.Inf(1)
		}
		claims = append(claims, c)
		if s.judged() {
			claims = append(claims, Claim{Row: s.Name, Column: "admitted_ratio", Min: leastRatio, Max: mostRatio})
		}
	}
	return claims
}

// A FleetRow is one scenario.
type FleetRow struct {
	Scenario  string  `json:"scenario"`
	Instances int     `json:"instances"` // the most at once
	Tenants   int     `json:"tenants"`
	Requests  int     `json:"requests"`
	Admitted  int     `json:"admitted"`
	Fallback  int     `json:"fallback"` // decided without the store
	OverBound int     `json:"over_bound"`
	Ratio     float64 `json:"admitted_ratio"` // against one exact counter for all
	Calls     float64 `json:"redis_calls_per_decision"`
	P99Added  float64 `json:"p99_added_ms"`
	Seed      uint64  `json:"seed"`
	Took      float64 `json:"took_s"`
}

// simulations returns the scenarios. Those with a planted fault must break the
// bound, or the others prove nothing.
func simulations(seed uint64) []Simulation {
	usual := Simulation{Seconds: 6, Rate: 50_000, Tenants: 100_000, Instances: []int{20}, Seed: seed}
	with := func(name string, change func(*Simulation)) Simulation {
		s := usual
		s.Name = name
		change(&s)
		return s
	}
	hot := func(s *Simulation) { s.Rate, s.Hot = 43_500, 20_000 }
	// Few others, so that the hot tenant has all that its own limits allow.
	alone := func(s *Simulation) { s.Seconds, s.Rate, s.Hot = 20, 3000, 20_000 }
	growing := []int{10, 10, 14, 18, 22, 26, 30, 30, 30, 20}
	return []Simulation{
		with("steady", func(*Simulation) {}),
		with("10 to 30 instances and back", func(s *Simulation) { s.Instances, s.Seconds = growing, 20; hot(s) }),
		with("Redis away for 5 s", func(s *Simulation) { s.Seconds, s.Outage = 14, outageAt(3); hot(s) }),
		with("clocks 50 ms apart", func(s *Simulation) { s.Skew = 50 * time.Millisecond }),
		with("one tenant at 20,000/s", hot),
		with("hardly anybody else", alone),
		with("all of it", func(s *Simulation) {
			s.Seconds, s.Instances, s.Skew, s.Outage = 60, growing, 50*time.Millisecond, outageAt(43)
			hot(s)
		}),
		with("planted: the caller's clock decides", func(s *Simulation) {
			s.Rate, s.Skew, s.Wrong.callersClock = 30_000, 50*time.Millisecond, true
		}),
		with("planted: claims are not debited", func(s *Simulation) { alone(s); s.Wrong.freeClaims = true }),
		with("planted: each leases as if alone", func(s *Simulation) { alone(s); s.Wrong.wholeShares = true }),
		with("planted: what comes back counts twice", func(s *Simulation) { alone(s); s.Wrong.twiceBack = true }),
	}
}

// outageAt is 5 s without the store, from a second of the traffic.
func outageAt(second int) span {
	from := warming + time.Duration(second)*time.Second
	return span{from, from + 5*time.Second}
}

// What is admitted against what one exact counter would admit: at most what leases
// may hold in advance more.
const (
	leastRatio = 0.98
	mostRatio  = 1.02
)

// judged says whether that can be told: everyone asks for more than there is all
// the time, and the store is not away.
func (s *Simulation) judged() bool {
	most := simLimits()[2].Default
	return s.Wrong == (wrong{}) && s.Outage.to == 0 && s.Rate > int(most.Tokens)
}

func (r *FleetRow) ok(s *Simulation) bool {
	if s.Wrong != (wrong{}) {
		return r.OverBound > 0
	}
	return r.OverBound == 0 && (!s.judged() || r.Ratio >= leastRatio && r.Ratio <= mostRatio)
}

func runFleet(ctx context.Context, progress func(string)) (any, bool, error) {
	set, err := policy.NewSet(simLimits())
	if err != nil {
		return nil, false, err
	}
	var rows []FleetRow
	ok := true
	for _, s := range simulations(1) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		progress(fmt.Sprintf("%s: %d s at %d/s, seed %d", s.Name, s.Seconds, s.Rate+s.Hot, s.Seed))
		row, err := s.measure(ctx, set)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", s.Name, err)
		}
		ok = ok && row.ok(&s)
		rows = append(rows, *row)
	}
	return rows, ok, nil
}

// measure runs the simulation and checks every admission.
func (s Simulation) measure(ctx context.Context, set *policy.Set) (*FleetRow, error) {
	began := time.Now()
	var r *simRun
	if err := virtually(func() { r = s.start(set); r.run(ctx) }); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.errs) > 0 {
		return nil, fmt.Errorf("%d requests failed: %w", len(r.errs), errors.Join(r.errs[:min(3, len(r.errs))]...))
	}
	most := 0
	for _, n := range s.Instances {
		most = max(most, n)
	}
	return &FleetRow{
		Scenario: s.Name, Instances: most, Tenants: s.Tenants, Seed: s.Seed,
		Requests: len(r.waits), Admitted: len(r.everyone), Fallback: r.fallback,
		OverBound: r.over(),
		Ratio:     round(r.ratio(), 4),
		Calls:     round(float64(r.store.calls)/float64(len(r.waits)), 4),
		P99Added:  round(Quantile(r.waits, 0.99).Seconds()*1000, 3),
		Took:      round(time.Since(began).Seconds(), 1),
	}, nil
}

// round keeps so many digits behind the point.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}
