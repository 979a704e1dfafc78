package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A Traffic is callers who ask stores for tokens at a steady pace, and what
// they were answered.
type Traffic struct {
	// Stores are the instances; caller i asks the one numbered i modulo their
	// number.
	Stores []sluice.Store
	// Callers is how many ask at the same time.
	Callers int
	// Rate is how many calls all of them make a second.
	Rate int
	// Keys is how many keys they ask for, each with Limit.
	Keys  int
	Limit sluice.Limit
	// OnFailure is what the limit says of a store that does not answer.
	OnFailure sluice.FailureMode
	// Budget is the time of the bare timers that are measured beside them, as many
	// as there are callers and at their pace: a pause of this machine meets as
	// many of them as of decisions that wait for their budget.
	Budget time.Duration
}

// A Record is what one caller or all of them saw.
type Record struct {
	Admissions map[string][]Admission // by key
	Latencies  []time.Duration
	Errors     []error
	Timer      []time.Duration // how long timers of the budget took
	// Fallback is when decisions came from local counters, Store when they
	// came from the store, since the start.
	Fallback, Store []time.Duration
}

// Run asks until ctx ends. start is the time from which all times count.
func (t *Traffic) Run(ctx context.Context, start time.Time) *Record {
	records := make([]*Record, 2*t.Callers)
	var running sync.WaitGroup
	for i := range t.Callers {
		records[i] = &Record{Admissions: make(map[string][]Admission)}
		running.Go(func() { t.call(ctx, i, start, records[i]) })
		timers := &Record{}
		records[t.Callers+i] = timers
		running.Go(func() { t.measureTimer(ctx, i, timers) })
	}
	running.Wait()
	return merge(records)
}

// pace returns how often each caller calls.
func (t *Traffic) pace() time.Duration {
	return time.Duration(t.Callers) * time.Second / time.Duration(t.Rate)
}

// ticker returns one that ticks at the pace of a caller, when it is that one's
// turn: callers in step would ask all at once, and nobody in between.
func (t *Traffic) ticker(ctx context.Context, i int) *time.Ticker {
	sleep(ctx, time.Duration(i)*t.pace()/time.Duration(t.Callers))
	return time.NewTicker(t.pace())
}

// call is one caller: a call every so often, so that all together make the
// rate, and none before the last is answered.
func (t *Traffic) call(ctx context.Context, i int, start time.Time, r *Record) {
	random := rand.New(rand.NewPCG(uint64(i), 7))
	ticker := t.ticker(ctx, i)
	defer ticker.Stop()
	var decisions []sluice.Decision
	store := t.Stores[i%len(t.Stores)]
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		key := fmt.Sprintf("key-%03d", random.IntN(t.Keys))
		sent := time.Since(start)
		var err error
		decisions, err = store.Take(context.Background(), decisions[:0], []sluice.Charge{{Key: key, Limit: t.Limit, N: 1, OnFailure: t.OnFailure}})
		answered := time.Since(start)
		r.Latencies = append(r.Latencies, answered-sent)
		if err != nil {
			r.Errors = append(r.Errors, err)
			continue
		}
		r.note(key, decisions[0], sent, answered)
	}
}

func (r *Record) note(key string, d sluice.Decision, sent, answered time.Duration) {
	if d.Granted > 0 {
		r.Admissions[key] = append(r.Admissions[key], Admission{Sent: sent, Answered: answered, N: d.Granted})
	}
	switch d.Source {
	case sluice.SourceFallback:
		r.Fallback = append(r.Fallback, answered)
	case sluice.SourceStore:
		r.Store = append(r.Store, answered)
	}
}

// measureTimer measures how late this machine's timers are while the callers
// run: a decision that a timer ends cannot be earlier.
func (t *Traffic) measureTimer(ctx context.Context, i int, r *Record) {
	ticker := t.ticker(ctx, i)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		timer := time.NewTimer(t.Budget)
		<-timer.C
		r.Timer = append(r.Timer, time.Since(began))
	}
}

func merge(records []*Record) *Record {
	all := &Record{Admissions: make(map[string][]Admission)}
	for _, r := range records {
		for key, admissions := range r.Admissions {
			all.Admissions[key] = append(all.Admissions[key], admissions...)
		}
		all.Latencies = append(all.Latencies, r.Latencies...)
		all.Errors = append(all.Errors, r.Errors...)
		all.Timer = append(all.Timer, r.Timer...)
		all.Fallback = append(all.Fallback, r.Fallback...)
		all.Store = append(all.Store, r.Store...)
	}
	slices.Sort(all.Fallback)
	slices.Sort(all.Store)
	return all
}

// Over returns how many admissions break the bound, over all keys.
func (r *Record) Over(b Bound) int {
	over := 0
	for _, admissions := range r.Admissions {
		over += len(b.Over(admissions))
	}
	return over
}

// Quantile returns the value below which a share of all lie; 0 of none.
func Quantile(durations []time.Duration, share float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Clone(durations)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
