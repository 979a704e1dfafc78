package replay

import (
	"math"
	"math/bits"
	"sort"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A need finds, request by request, the least n such that a token bucket of n
// tokens per period and a burst of n never refuses a key.
//
// It follows the bucket of the present n. When that would refuse, n grows to
// the least that would have let all requests so far pass: what the bucket of
// another n would owe now is the most, over the requests i since the bucket was
// full last, of (requests since i) x (time of a token) - (time since i), which
// only requests on the upper convex hull of (number, time) can be. Whenever the
// bucket is full, what was before no longer matters, for any larger n either.
// So a key takes a few points, not its history.
type need struct {
	n        int64
	interval int64 // ticks a token
	full     int64 // when the bucket will be full, in ticks
	count    int64 // requests since it was full last
	hull     []point
}

// A point is a request: its number since the bucket was full, and its time.
type point struct{ number, at int64 }

// A yardstick holds what needs are measured with: the period and the largest n
// that is a valid limit.
type yardstick struct {
	per  int64 // ticks
	most int64
	unit time.Duration
}

func newYardstick(per time.Duration) (yardstick, error) {
	y := yardstick{per: int64(per) * 2 / 125, unit: per}
	if err := y.limit(1).Validate(); err != nil {
		return y, err
	}
	above := sort.Search(math.MaxInt32, func(n int) bool { return n > 0 && y.limit(int64(n)).Validate() != nil })
	y.most = int64(above) - 1
	return y, nil
}

func (y *yardstick) limit(n int64) sluice.Limit { return sluice.Limit{Tokens: n, Per: y.unit} }

// interval returns the ticks of one token, rounded up as a meter does.
func (y *yardstick) interval(n int64) int64 { return (y.per + n - 1) / n }

// add takes a request, none earlier than the one before. An n above y.most
// stands for a key that every limit would have refused.
func (d *need) add(y *yardstick, now int64) {
	if d.n > y.most {
		return
	}
	if d.n == 0 {
		d.n, d.interval, d.full = 1, y.interval(1), now
	}
	if d.full <= now {
		d.full, d.count, d.hull = now, 0, d.hull[:0]
	}
	d.push(point{d.count, now})
	d.count++
	d.full += d.interval
	if d.full-now > d.n*d.interval {
		d.grow(y, now)
	}
}

// push adds a point at the right of the hull, whose slopes fall.
func (d *need) push(p point) {
	for n := len(d.hull); n > 0; n-- {
		last := d.hull[n-1]
		if last.at == p.at {
			// Behind the first of a moment, the others never weigh more.
			return
		}
		if n < 2 || !below(d.hull[n-2], last, p) {
			break
		}
		d.hull = d.hull[:n-1]
	}
	d.hull = append(d.hull, p)
}

// below says whether b lies on or below the line from a to c.
func below(a, b, c point) bool {
	// (b.at-a.at) / (b.number-a.number) <= (c.at-b.at) / (c.number-b.number)
	hi1, lo1 := bits.Mul64(uint64(b.at-a.at), uint64(c.number-b.number))
	hi2, lo2 := bits.Mul64(uint64(c.at-b.at), uint64(b.number-a.number))
	return hi1 < hi2 || hi1 == hi2 && lo1 <= lo2
}

// debt returns what a bucket of another interval, at most the present one,
// would owe now, in ticks, and the point that says so.
func (d *need) debt(interval, now int64) (owed int64, from int) {
	from = sort.Search(len(d.hull)-1, func(i int) bool {
		a, b := d.hull[i], d.hull[i+1]
		return b.at-a.at <= (b.number-a.number)*interval
	})
	return (d.count-d.hull[from].number)*interval - (now - d.hull[from].at), from
}

// grow raises n to the least that lets the request at hand pass too.
func (d *need) grow(y *yardstick, now int64) {
	enough := func(n int64) bool {
		interval := y.interval(n)
		owed, _ := d.debt(interval, now)
		return owed <= n*interval
	}
	step := int64(1)
	for d.n+step <= y.most && !enough(d.n+step) {
		step *= 2
	}
	low, high := d.n+step/2+1, min(d.n+step, y.most+1)
	d.n = low + int64(sort.Search(int(high-low), func(i int) bool { return enough(low + int64(i)) }))
	if d.n > y.most {
		d.hull = nil
		return
	}
	d.interval = y.interval(d.n)
	owed, from := d.debt(d.interval, now)
	d.full = now + owed
	// n only grows: what lies before will never say more.
	d.hull = append(d.hull[:0], d.hull[from:]...)
}
