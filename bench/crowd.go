package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// A take decides once on a key and says whether it passes. It is used by many
// goroutines at once.
type take func(key string) (allowed bool, err error)

// A draw returns the keys that a caller asks for, one after the other.
type draw func(*rand.Rand) func() string

// A tally is what the callers of one round came to.
type tally struct {
	decisions int64
	allowed   int64
	elapsed   time.Duration
	allocs    float64 // a decision, of the whole process
}

// crowd lets callers ask for the time of a round, each as soon as it is
// answered.
func crowd(callers int, round time.Duration, keys draw, take take) (tally, error) {
	counts, errs := make([]tally, callers), make([]error, callers)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	var wait sync.WaitGroup
	for n := range callers {
		wait.Go(func() { counts[n], errs[n] = ask(start, round, keys(source(n)), take) })
	}
	wait.Wait()
	all := tally{elapsed: time.Since(start)}
	runtime.ReadMemStats(&after)
	for n := range callers {
		if errs[n] != nil {
			return tally{}, errs[n]
		}
		all.decisions += counts[n].decisions
		all.allowed += counts[n].allowed
	}
	all.allocs = float64(after.Mallocs-before.Mallocs) / float64(all.decisions)
	return all, nil
}

// ask is one caller. It looks at the clock now and then: a remembered refusal
// takes little longer than that.
func ask(start time.Time, round time.Duration, next func() string, take take) (tally, error) {
	var t tally
	for t.decisions == 0 || t.decisions%16 != 0 || time.Since(start) < round {
		allowed, err := take(next())
		if err != nil {
			return t, err
		}
		t.decisions++
		if allowed {
			t.allowed++
		}
	}
	return t, nil
}

// passed reports a round in which not all was decided as it should be: it would
// measure something else.
func (t tally) passed(all bool) error {
	switch {
	case all && t.allowed != t.decisions:
		return fmt.Errorf("%d of %d decisions: %w", t.decisions-t.allowed, t.decisions, errRefused)
	case !all && t.allowed != 0:
		return fmt.Errorf("%d of %d decisions were allowed that should be refused", t.allowed, t.decisions)
	}
	return nil
}

// A figure makes a row's figure of a round.
type figure func(tally) float64

// perSecond is decisions a second.
func perSecond(t tally) float64 { return float64(t.decisions) / t.elapsed.Seconds() }

// micros is the microseconds that one caller alone waits for a decision.
func micros(t tally) float64 { return float64(t.elapsed) / 1e3 / float64(t.decisions) }

// perDecision is allocations a decision.
func perDecision(t tally) float64 { return t.allocs }
