package denied

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// A pair is a store with what this package remembers and one without, which are
// asked the same at the same times.
type pair struct {
	t           *rapid.T
	clock       storetest.Clock
	below       *counter
	with        *Store
	without     *memory.Store
	limits      []sluice.Limit
	grants      []grant
	denied, all int // charges
}

// A grant of both stores, to give back.
type grant struct {
	charge        sluice.Charge
	with, without sluice.Decision
}

func newPair(t *rapid.T, o Options) *pair {
	p := &pair{t: t, limits: rapid.SliceOfN(rapid.SampledFrom(propertyLimits), 1, 3).Draw(t, "limits")}
	p.below = &counter{Store: memory.New(memory.Options{Now: p.clock.Now})}
	p.with = newStore(p.below, o, newMonotonic(p.clock.Now).since)
	p.without = memory.New(memory.Options{Now: p.clock.Now})
	return p
}

var propertyLimits = []sluice.Limit{
	{Tokens: 10, Per: time.Second, Burst: 5},
	{Tokens: 10, Per: time.Second, Burst: 12},
	{Tokens: 3, Per: time.Minute},
	{Tokens: 6, Per: time.Second, Algorithm: sluice.FixedWindow},
	{Tokens: 9, Per: time.Second, Algorithm: sluice.FixedWindow},
	{Tokens: 6, Per: time.Second, Algorithm: sluice.SlidingWindow},
	{Tokens: 6, Per: 700 * time.Millisecond, Algorithm: sluice.SlidingLog},
}

func drawCharge(t *rapid.T, limits []sluice.Limit) sluice.Charge {
	c := sluice.Charge{
		Key:   rapid.SampledFrom([]string{"", "a"}).Draw(t, "key"),
		Limit: rapid.SampledFrom(limits).Draw(t, "limit"),
		N:     rapid.Int64Range(0, 5).Draw(t, "n"),
	}
	if c.Limit.Algorithm == sluice.TokenBucket {
		// A call under a lower limit repairs a bucket, also if it is refused:
		// not asked, it does not, and the bucket stays as empty as it was.
		c.Key += c.Limit.String()
	}
	if c.N > 0 && rapid.IntRange(0, 4).Draw(t, "part") == 0 {
		c.Unit = rapid.Int64Range(1, c.N).Draw(t, "unit")
	}
	return c
}

func (p *pair) take() {
	charges := []sluice.Charge{drawCharge(p.t, p.limits)}
	for rapid.IntRange(0, 2).Draw(p.t, "more") == 0 {
		c := drawCharge(p.t, p.limits)
		c.Group = (charges[len(charges)-1].Group + rapid.IntRange(0, 1).Draw(p.t, "next group")) % 2
		charges = append(charges, c)
	}
	kept := sluice.Decision{Remaining: 17}
	want, wantErr := p.without.Take(p.t.Context(), nil, charges)
	got, err := p.with.Take(p.t.Context(), []sluice.Decision{kept}, charges)
	if len(got) == 0 || got[0] != kept {
		p.t.Fatalf("Take(%+v) changed dst", charges)
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		p.t.Fatalf("Take(%+v) failed with %v, want %v", charges, err, wantErr)
	}
	if err != nil {
		return
	}
	if got = got[1:]; len(got) != len(want) {
		p.t.Fatalf("Take(%+v) = %d decisions, want %d", charges, len(got), len(want))
	}
	for i := 0; i < len(charges); {
		end := groupEnd(charges, i)
		p.compare(charges[i:end], got[i:end], want[i:end])
		i = end
	}
}

// compare holds the answers to one group against each other. Answers of the
// store are the same; a group known to be refused was refused, and what is told
// as refused is, for as long.
func (p *pair) compare(charges []sluice.Charge, got, want []sluice.Decision) {
	p.all += len(got)
	refused := func(d sluice.Decision) bool { return !d.Allowed }
	if slices.ContainsFunc(got, refused) != slices.ContainsFunc(want, refused) {
		p.t.Fatalf("Take(%+v) =\n%+v, want\n%+v", charges, got, want)
	}
	for i, g := range got {
		w := want[i]
		ok := g == w
		if g.Source == sluice.SourceDenied {
			p.denied++
			ok = g.Granted == 0 && w.Granted == 0 && g.Limit == w.Limit && g.Remaining >= 0 && g.Remaining <= g.Limit && g.ResetAfter >= 0
			if !g.Allowed {
				// A tick is 62.5 ns; both are rounded.
				ok = ok && !w.Allowed && g.RetryAfter > 0 && (g.RetryAfter-w.RetryAfter).Abs() < 130
			}
		}
		if !ok {
			p.t.Fatalf("Take(%+v)[%d] =\n%+v, want\n%+v", charges, i, g, w)
		}
		if w.Granted > 0 {
			p.grants = append(p.grants, grant{charges[i], g, w})
		}
	}
}

func (p *pair) giveBack() {
	if len(p.grants) == 0 {
		return
	}
	i := rapid.IntRange(max(0, len(p.grants)-5), len(p.grants)-1).Draw(p.t, "grant")
	g := p.grants[i]
	p.grants = p.grants[:i]
	g.charge.N = -rapid.Int64Range(1, g.with.Granted).Draw(p.t, "back")
	p.settle(sluice.Settlement{Charge: g.charge, From: g.with}, sluice.Settlement{Charge: g.charge, From: g.without})
}

func (p *pair) settle(with, without sluice.Settlement) {
	if err := p.with.Settle(p.t.Context(), []sluice.Settlement{with}); err != nil {
		p.t.Fatal(err)
	}
	if err := p.without.Settle(p.t.Context(), []sluice.Settlement{without}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) step() {
	switch rapid.IntRange(0, 30).Draw(p.t, "step") {
	case 0:
		c := []sluice.Charge{drawCharge(p.t, p.limits)}
		_ = p.with.Forget(p.t.Context(), c)
		_ = p.without.Forget(p.t.Context(), c)
	case 1, 2:
		p.giveBack()
	case 3:
		more := sluice.Settlement{Charge: drawCharge(p.t, p.limits)}
		p.settle(more, more)
	case 4, 5:
		longest := rapid.SampledFrom([]time.Duration{100, time.Millisecond, 200 * time.Millisecond, 2 * time.Second}).Draw(p.t, "scale")
		p.clock.Advance(time.Duration(rapid.Int64Range(0, int64(longest)).Draw(p.t, "advance")))
	default:
		p.take()
	}
}

func TestSameAnswersAsWithout(t *testing.T) {
	var denied, all int
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t, Options{MaxKeys: rapid.SampledFrom([]int{1, 3, 64}).Draw(t, "max keys")})
		for range 200 {
			p.step()
		}
		denied, all = denied+p.denied, all+p.all
	})
	if denied < all/50 {
		t.Errorf("%d of %d charges were answered from memory: the test proves little", denied, all)
	}
}
