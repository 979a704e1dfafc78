package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-limiter/sluice"
)

// modelRules hold a store against the specification.
var modelRules = []rule{
	{name: "a random history gives the specification's answers", clock: true, check: exactHistory},
	{name: "a random history of a moment gives the specification's answers", check: momentHistory},
}

const historySteps = 4000

// exactHistory compares decisions in every field while the clock moves, also
// back, by up to a second: a store may forget a key that has been full for
// longer.
func exactHistory(s *subject) error {
	h := &history{
		subject: s,
		random:  rand.New(rand.NewPCG(2, 3)),
		limits: []sluice.Limit{
			{Tokens: 10, Per: time.Second, Burst: 20},
			{Tokens: 7, Per: time.Second, Burst: 3},
			{Tokens: 5, Per: 15 * time.Minute},
			{Tokens: 10, Per: 3 * time.Second, Algorithm: sluice.FixedWindow},
			{Tokens: 12, Per: 3 * time.Second, Algorithm: sluice.FixedWindow},
			{Tokens: 10, Per: time.Second, Algorithm: sluice.SlidingWindow},
			{Tokens: 8, Per: time.Second, Algorithm: sluice.SlidingWindow},
			{Tokens: 10, Per: 2 * time.Second, Algorithm: sluice.SlidingLog},
			{Tokens: 6, Per: 2 * time.Second, Algorithm: sluice.SlidingLog},
			{Tokens: 20, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarDay, Zone: "America/New_York"}},
		},
		same: func(got, want sluice.Decision) bool { return got == want },
		move: true,
	}
	return h.run()
}

// momentHistory compares decisions while no token comes back, so that a clock
// that cannot be set does not matter; times are compared to some seconds.
func momentHistory(s *subject) error {
	h := &history{subject: s, random: rand.New(rand.NewPCG(4, 5))}
	for _, capacity := range []int64{10, 3000, 500} {
		h.limits = append(h.limits, s.kinds(capacity)...)
	}
	h.same = func(got, want sluice.Decision) bool {
		near := func(a, b time.Duration) bool { return (a-b).Abs() < 30*time.Second && (a == 0) == (b == 0) }
		return got.Allowed == want.Allowed && got.Granted == want.Granted && got.Limit == want.Limit && got.Remaining == want.Remaining &&
			near(got.RetryAfter, want.RetryAfter) && near(got.ResetAfter, want.ResetAfter)
	}
	return h.run()
}

// A history plays random calls to a store and to the model.
type history struct {
	*subject
	random *rand.Rand
	limits []sluice.Limit
	same   func(got, want sluice.Decision) bool
	move   bool // the clock
	model  *model
	latest time.Time // that the clock showed
	grants []granted // to give back, the latest
}

// A granted decision, of the store and of the model.
type granted struct {
	charge    sluice.Charge
	got, want sluice.Decision
}

func (h *history) run() error {
	h.latest = h.now()
	h.model = newModel(func() int64 { return sluice.Ticks(h.now()) })
	for step := range historySteps {
		if err := h.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

func (h *history) step() error {
	if h.move {
		h.moveClock()
	}
	switch h.random.IntN(12) {
	case 0:
		return h.giveBack()
	case 1:
		return h.chargeMore()
	case 2:
		if h.random.IntN(10) == 0 {
			return h.forget()
		}
	}
	return h.take()
}

func (h *history) moveClock() {
	far := []time.Duration{0, 0, 100 * time.Microsecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, time.Minute}
	d := time.Duration(h.random.Int64N(int64(far[h.random.IntN(len(far))]) + 1))
	switch h.random.IntN(200) {
	case 0:
		d *= 1000
	case 1, 2, 3:
		d = h.latest.Add(-time.Duration(h.random.Int64N(int64(time.Second)))).Sub(h.now())
	}
	h.harness.Clock.Advance(d)
	if h.now().After(h.latest) {
		h.latest = h.now()
	}
}

func (h *history) charge() sluice.Charge {
	limit := h.limits[h.random.IntN(len(h.limits))]
	c := h.subject.charge(fmt.Sprint("key", h.random.IntN(4)), limit, 1+h.random.Int64N(4))
	switch h.random.IntN(12) {
	case 0:
		c.N = 0
	case 1:
		c.N = limit.Capacity() + h.random.Int64N(2)
	case 2, 3:
		c.Unit = 1 + h.random.Int64N(c.N)
	}
	return c
}

func (h *history) take() error {
	charges := []sluice.Charge{h.charge()}
	for h.random.IntN(3) == 0 {
		c := h.charge()
		c.Group = charges[len(charges)-1].Group + h.random.IntN(2)
		charges = append(charges, c)
	}
	want, wantErr := h.model.Take(h.ctx, nil, charges)
	got, err := h.Take(h.ctx, nil, charges)
	for _, sentinel := range []error{sluice.ErrCost, sluice.ErrCharge} {
		if errors.Is(err, sentinel) != errors.Is(wantErr, sentinel) {
			return fmt.Errorf("Take(%s) failed with %v, want %v", show(charges), err, wantErr)
		}
	}
	if wantErr != nil {
		return nil
	}
	if err != nil || len(got) != len(want) {
		return fmt.Errorf("Take(%s) = %d decisions, error %w, want %d", show(charges), len(got), err, len(want))
	}
	for i := range want {
		if !h.same(got[i], want[i]) {
			return fmt.Errorf("Take(%s)[%d] =\n%+v, want\n%+v", show(charges), i, got[i], want[i])
		}
		if want[i].Granted > 0 {
			h.grants = append(h.grants, granted{charges[i], got[i], want[i]})
		}
	}
	return nil
}

// giveBack gives back a part of a grant to both, or all of it.
func (h *history) giveBack() error {
	if len(h.grants) == 0 {
		return nil
	}
	i := max(0, len(h.grants)-1-h.random.IntN(6))
	g := h.grants[i]
	h.grants = h.grants[:i]
	g.charge.N = -(1 + h.random.Int64N(g.want.Granted))
	return h.settle(sluice.Settlement{Charge: g.charge, From: g.got}, sluice.Settlement{Charge: g.charge, From: g.want})
}

func (h *history) chargeMore() error {
	c := h.charge()
	settlement := sluice.Settlement{Charge: c}
	return h.settle(settlement, settlement)
}

func (h *history) settle(store, model sluice.Settlement) error {
	settler, ok := h.Store.(sluice.Settler)
	if !ok {
		return nil
	}
	if err := settler.Settle(h.ctx, []sluice.Settlement{store}); err != nil {
		return fmt.Errorf("settle %+v: %w", store, err)
	}
	return h.model.Settle(h.ctx, []sluice.Settlement{model})
}

func (h *history) forget() error {
	forgetter, ok := h.Store.(sluice.Forgetter)
	if !ok {
		return nil
	}
	charges := []sluice.Charge{h.charge(), h.charge()}
	if err := forgetter.Forget(h.ctx, charges); err != nil {
		return fmt.Errorf("forget %s: %w", show(charges), err)
	}
	return h.model.Forget(h.ctx, charges)
}
