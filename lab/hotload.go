package lab

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A hotTake asks an instance for one token. It is used by many goroutines.
type hotTake func(ctx context.Context) (hotAnswer, error)

// A hotAnswer is what an instance decided.
type hotAnswer struct {
	passed bool
	local  bool  // by local counters
	tokens int64 // that passed; 0: one if it did
	at     int64 // the store's time in ticks; 0: not told
}

// A hotLoad asks several instances for one key at a steady rate.
type hotLoad struct {
	first          hotTake // is asked once before the others, if not nil
	takes          []hotTake
	rate           float64 // decisions a second
	warm, measured time.Duration
}

const (
	hotCallers = 32 // of each instance
	// hotPause is how often a caller wakes up. What has become due meanwhile is
	// asked one after the other, so that timers cost less than decisions.
	hotPause = 5 * time.Millisecond
	// hotArrears is how far behind its times a caller may be and still make up
	// for it.
	hotArrears = 100 * time.Millisecond
)

// A hotAdmission is an admission and the store's time of it, in ticks.
type hotAdmission struct {
	Admission
	at int64
}

// A hotTally is what one caller or all of them were answered.
type hotTally struct {
	admissions []hotAdmission // since the start
	decisions  int64          // in the measured time
	local      int64          // by local counters, since the start
	refused    int64
	err        error
}

// run asks until the measured time is over. start is the time from which all
// times count.
func (l *hotLoad) run(ctx context.Context, start time.Time) *hotTally {
	tallies := make([]hotTally, hotCallers*len(l.takes))
	if l.first != nil {
		answer, err := l.first(ctx)
		if err != nil {
			return &hotTally{err: err}
		}
		tallies[0].note(answer, Admission{Answered: time.Since(start), N: answer.tokens}, l.warm)
	}
	var wait sync.WaitGroup
	for i := range tallies {
		wait.Go(func() { l.call(ctx, i, start, &tallies[i]) })
	}
	wait.Wait()
	all := &hotTally{}
	for i := range tallies {
		t := &tallies[i]
		all.admissions = append(all.admissions, t.admissions...)
		all.decisions += t.decisions
		all.local += t.local
		all.refused += t.refused
		all.err = errors.Join(all.err, t.err)
	}
	return all
}

// call is one caller.
func (l *hotLoad) call(ctx context.Context, i int, start time.Time, t *hotTally) {
	every := time.Duration(float64(hotCallers*len(l.takes)) / l.rate * float64(time.Second))
	take, end := l.takes[i%len(l.takes)], l.warm+l.measured
	due := time.Duration(rand.Int64N(int64(hotPause)))
	for sent := time.Since(start); sent < end && ctx.Err() == nil; sent = time.Since(start) {
		if sent < due {
			sleep(ctx, max(due-sent, hotPause))
			continue
		}
		due = max(due+every, sent-hotArrears)
		answer, err := take(ctx)
		if err != nil {
			t.err = err
			return
		}
		t.note(answer, Admission{Sent: sent, Answered: time.Since(start), N: max(1, answer.tokens)}, l.warm)
	}
}

func (t *hotTally) note(answer hotAnswer, a Admission, warm time.Duration) {
	if a.Sent >= warm {
		t.decisions++
	}
	if answer.local {
		t.local++
	}
	if !answer.passed {
		t.refused++
		return
	}
	t.admissions = append(t.admissions, hotAdmission{a, answer.at})
}

// all returns the admissions without the store's times.
func (t *hotTally) all() []Admission {
	all := make([]Admission, len(t.admissions))
	for i := range t.admissions {
		all[i] = t.admissions[i].Admission
	}
	return all
}

// ratioByStore returns all admissions by burst + rate x time, which is from the
// first to the last by the store's clock. Before the first, nothing was used.
func (t *hotTally) ratioByStore(l sluice.Limit) float64 {
	admitted := int64(0)
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, a := range t.admissions {
		admitted += a.N
		first, last = min(first, a.at), max(last, a.at)
	}
	if admitted == 0 {
		return 0
	}
	took := sluice.TicksDuration(last - first)
	return float64(admitted) / (float64(l.Capacity()) + float64(l.Tokens)*took.Seconds()/l.Per.Seconds())
}

// ratioOfSeconds is the same for limiters that count whole seconds: as many as are
// measured let the rate pass each, wherever they begin.
func (t *hotTally) ratioOfSeconds(rate int64, warm, measured time.Duration) float64 {
	admitted := int64(0)
	for _, a := range t.admissions {
		if a.Answered >= warm && a.Answered < warm+measured {
			admitted += a.N
		}
	}
	return float64(admitted) / (float64(rate) * measured.Seconds())
}
