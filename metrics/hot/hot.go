// Package hot tells which keys are busiest and which are refused most: of each
// limit, over the last minute, in fixed memory of at most about two megabytes a
// limit. It sees what the limits said of each request, and costs next to nothing:
// of a limit with over 20,000 requests a second it counts a part that stands for
// all.
package hot

import (
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

// Keys counts keys by limit. It may be used from many goroutines and starts none.
// Make one with [New].
type Keys struct {
	current func() *policy.Set
	now     func() time.Duration // since any moment; never goes back
	seed    maphash.Seed
	roster  atomic.Pointer[roster]
}

// New returns keys of the limits of the set that current returns, such as an
// engine's Set: it is called for each verdict, from many goroutines, so it must be
// cheap, and it must not go back to a set from before. When it returns another
// set, limits that have gone are forgotten.
func New(current func() *policy.Set) *Keys {
	start := time.Now()
	return newKeys(current, func() time.Duration { return time.Since(start) })
}

func newKeys(current func() *policy.Set, now func() time.Duration) *Keys {
	k := &Keys{current: current, now: now, seed: maphash.MakeSeed()}
	k.roster.Store(new(roster))
	return k
}

// A roster holds the sketches of the limits in force. It is immutable but for
// them.
type roster struct {
	set     *policy.Set
	byLimit map[*policy.Limit]*sketch
	byName  map[string]*sketch
}

// succeed returns the roster of another set. Sketches go by a limit's name from
// one to the next.
func (r *roster) succeed(set *policy.Set, now time.Duration) *roster {
	next := &roster{set: set, byLimit: make(map[*policy.Limit]*sketch), byName: make(map[string]*sketch)}
	limits := set.Limits()
	for i := range limits {
		l := &limits[i]
		s := r.byName[l.Name]
		if s == nil {
			s = newSketch(now)
		}
		next.byLimit[l], next.byName[l.Name] = s, s
	}
	return next
}

// inForce returns the roster of the current set. The roster is read before the
// set, so that one that is put in its place is never of an older set.
func (k *Keys) inForce() *roster {
	for {
		r, set := k.roster.Load(), k.current()
		if r.set == set || set == nil {
			return r
		}
		if next := r.succeed(set, k.now()); k.roster.CompareAndSwap(r, next) {
			return next
		}
	}
}

// Observe is told every verdict, or the error in place of one, such as by
// httplimit's Observe. It waits for nobody, allocates nothing once the busy keys
// are known, and keeps neither the request nor the verdict. Peeks do not count.
func (k *Keys) Observe(_ *http.Request, v *policy.Verdict, err error) {
	if err != nil {
		return
	}
	var now time.Duration
	r := k.inForce()
	for i := range v.Results {
		result := &v.Results[i]
		s := r.byLimit[result.Limit]
		if s == nil { // of the set before a reload, or gone
			s = r.byName[result.Limit.Name]
		}
		if s == nil || result.Cost == 0 || s.skip() {
			continue
		}
		if now == 0 {
			now = k.now()
		}
		s.observe(k.seed, now, result.Key, !result.Decision.Allowed, result.Decision.Source)
	}
}

// Top returns the n busiest and the n most refused keys of each limit, in the
// order of the configuration; none of a limit that nothing met.
func (k *Keys) Top(n int) []Limit {
	r := k.inForce()
	if r.set == nil {
		return nil
	}
	limits := r.set.Limits()
	all := make([]Limit, 0, len(limits))
	for i := range limits {
		l := &limits[i]
		told := r.byLimit[l].tell(k.now(), n)
		told.Name, told.Shadow = l.Name, l.Shadow
		all = append(all, told)
	}
	return all
}
