package lab

import (
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

func TestVirtually(t *testing.T) {
	began := time.Now()
	var passed time.Duration
	err := virtually(func() {
		start := time.Now()
		time.Sleep(24 * time.Hour)
		passed = time.Since(start)
	})
	if err != nil || passed != 24*time.Hour || time.Since(began) > time.Hour {
		t.Errorf("a day took %v by its own time and %v by ours, %v", passed, time.Since(began), err)
	}
}

// A small fleet keeps its bounds through all that happens to it, and a planted
// fault breaks them. It does not grow during the outage, which would multiply
// the bound.
func TestSimulation(t *testing.T) {
	set, err := policy.NewSet(simLimits())
	if err != nil {
		t.Fatal(err)
	}
	usual := Simulation{
		Seconds: 20, Rate: 1000, Hot: 20_000, Tenants: 50, Instances: []int{3, 2, 4},
		Skew: 50 * time.Millisecond, Outage: outageAt(8), Seed: 7,
	}
	for _, tt := range []struct {
		name   string
		change func(*Simulation)
		breaks bool
	}{
		{"all of it", func(*Simulation) {}, false},
		{"the caller's clock", func(s *Simulation) { s.Hot, s.Outage, s.Wrong.callersClock = 0, span{}, true }, true},
		{"claims are not debited", func(s *Simulation) { s.Outage, s.Wrong.freeClaims = span{}, true }, true},
		{"each leases as if alone", func(s *Simulation) { s.Outage, s.Wrong.wholeShares = span{}, true }, true},
		{"what comes back counts twice", func(s *Simulation) { s.Outage, s.Wrong.twiceBack = span{}, true }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := usual
			tt.change(&s)
			row, err := s.measure(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			if (row.OverBound > 0) != tt.breaks {
				t.Errorf("%d admissions over the bound: %+v", row.OverBound, row)
			}
			if row.Requests == 0 || row.Admitted == 0 || (row.Fallback > 0) != (s.Outage.to > 0) {
				t.Errorf("the run is not what it is to be: %+v", row)
			}
		})
	}
}
