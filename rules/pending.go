package rules

import (
	"container/heap"
	"strconv"
	"strings"
	"time"
)

// pending is what changed and was not fetched yet. What a notification holds is
// not believed: it only says where to look.
type pending struct {
	ids map[int64]bool
	all bool
	at  time.Time // when to fetch; zero: nothing is pending
}

// maxPending is how many rows are fetched by their numbers.
const maxPending = 20_000

// note reads a notification, the numbers of rows; false: it is about more than
// rows that can be fetched by their numbers.
func (p *pending) note(payload string, at time.Time) bool {
	if p.all {
		return true // as they are fetched anyway
	}
	for word := range strings.SplitSeq(payload, ",") {
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil || len(p.ids) >= maxPending {
			return false
		}
		if p.ids == nil {
			p.ids = make(map[int64]bool)
		}
		p.ids[id] = true
	}
	if p.at.IsZero() {
		p.at = at
	}
	return true
}

// everything notes that all is to be looked at.
func (p *pending) everything(at time.Time) {
	if !p.all {
		p.all, p.ids, p.at = true, nil, at
	}
}

func (p *pending) due(now time.Time) bool { return !p.at.IsZero() && !now.Before(p.at) }

// An expiry is when a row stops to count, by the clock of the database.
type expiry struct {
	at time.Time
	id int64
}

// expiries are those to come, the next one first. A row that was changed
// meanwhile is told from the one meant by its time.
type expiries []expiry

// Len implements [heap.Interface].
func (e expiries) Len() int { return len(e) }

// Less implements [heap.Interface].
func (e expiries) Less(i, j int) bool { return e[i].at.Before(e[j].at) }

// Swap implements [heap.Interface].
func (e expiries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements [heap.Interface].
func (e *expiries) Push(x any) { *e = append(*e, x.(expiry)) }

// Pop implements [heap.Interface].
func (e *expiries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// due takes out a row that expired before now.
func (e *expiries) due(now time.Time) (x expiry, ok bool) {
	if len(*e) == 0 || (*e)[0].at.After(now) {
		return expiry{}, false
	}
	return heap.Pop(e).(expiry), true
}
