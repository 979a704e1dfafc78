package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

func TestSpecificationPasses(t *testing.T) {
	var clock Clock
	Run(t, Harness{
		New: func() (sluice.Store, error) {
			return newModel(func() int64 { return sluice.Ticks(clock.Now()) }), nil
		},
		Clock: &clock,
	})
}

func TestSpecificationPassesInRealTime(t *testing.T) {
	Run(t, Harness{New: func() (sluice.Store, error) {
		return newModel(func() int64 { return sluice.Ticks(time.Now()) }), nil
	}})
}

// bare hides what a store can do beyond Take.
type bare struct{ sluice.Store }

func TestAbilitiesAreOptional(t *testing.T) {
	var clock Clock
	if err := Check(t.Context(), Harness{
		New: func() (sluice.Store, error) {
			return bare{newModel(func() int64 { return sluice.Ticks(clock.Now()) })}, nil
		},
		Clock: &clock,
	}); err != nil {
		t.Error(err)
	}
}

func TestExceptNamesRules(t *testing.T) {
	newStore := func() (sluice.Store, error) {
		return newModel(func() int64 { return sluice.Ticks(time.Now()) }), nil
	}
	err := Check(t.Context(), Harness{New: newStore, Except: map[string]string{"refunds are free": "they are not"}})
	if err == nil || !strings.Contains(err.Error(), "refunds are free") {
		t.Errorf("Check = %v, want an error about the name that is no rule", err)
	}
}

// A faulty store is the specification but for one planted fault.
type faulty struct {
	*model
	take   func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error)
	settle func(m *model, settlements []sluice.Settlement) error
}

func (f faulty) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if f.take == nil {
		return f.model.Take(ctx, dst, charges)
	}
	return f.take(f.model, dst, charges)
}

func (f faulty) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if f.settle == nil {
		return f.model.Settle(ctx, settlements)
	}
	return f.settle(f.model, settlements)
}

// changed answers as the specification does, then changes the new decisions.
func changed(change func(c *sluice.Charge, d *sluice.Decision)) faulty {
	return faulty{take: func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
		n := len(dst)
		dst, err := m.Take(context.Background(), dst, charges)
		for i := range dst[n:] {
			change(&charges[i], &dst[n+i])
		}
		return dst, err
	}}
}

// asked answers changed charges.
func asked(change func(c *sluice.Charge)) faulty {
	return faulty{take: func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
		charges = slices.Clone(charges)
		for i := range charges {
			change(&charges[i])
		}
		return m.Take(context.Background(), dst, charges)
	}}
}

// afterwards does more than the specification once it has answered.
func afterwards(more func(m *model, c *sluice.Charge, d sluice.Decision)) faulty {
	return faulty{take: func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
		n := len(dst)
		dst, err := m.Take(context.Background(), dst, charges)
		for i, d := range dst[n:] {
			more(m, &charges[i], d)
		}
		return dst, err
	}}
}

// consume charges n tokens as if they had been asked.
func consume(m *model, c *sluice.Charge, n int64) {
	charge := *c
	charge.N = n
	_ = m.Settle(context.Background(), []sluice.Settlement{{Charge: charge}})
}

// faults are what the suite must find, each with a rule that must fail.
var faults = []struct {
	name, rule string
	store      faulty
}{
	{"one token too many", "exactly the capacity is granted", changed(func(c *sluice.Charge, d *sluice.Decision) {
		if d.Remaining == 0 && !d.Allowed && c.N == 1 && d.RetryAfter%7 != 0 {
			d.Allowed, d.Granted, d.RetryAfter = true, 1, 0
		}
	})},
	{"one token too few", "exactly the capacity is granted", changed(func(c *sluice.Charge, d *sluice.Decision) {
		if d.Granted > 0 && d.Remaining == 0 {
			d.Allowed, d.Granted, d.RetryAfter = false, 0, time.Second
		}
	})},
	{"a refused call that consumes", "refused calls consume nothing", afterwards(func(m *model, c *sluice.Charge, d sluice.Decision) {
		if !d.Allowed {
			consume(m, c, 1)
		}
	})},
	{"a peek that writes", "peeks write nothing", afterwards(func(m *model, c *sluice.Charge, _ sluice.Decision) {
		if c.N == 0 {
			consume(m, c, 1)
		}
	})},
	{"a peek that is refused", "peeks write nothing", changed(func(c *sluice.Charge, d *sluice.Decision) {
		if c.N == 0 && d.Remaining == 0 {
			d.Allowed, d.RetryAfter = false, time.Second
		}
	})},
	{"a unit that is ignored", "a unit allows a part", asked(func(c *sluice.Charge) { c.Unit = 0 })},
	{"a part that is no multiple of its unit", "a unit allows a part", asked(func(c *sluice.Charge) {
		if c.Unit > 1 && c.N > c.Unit {
			c.Unit = 1
		}
	})},
	{"a group that consumes in part", "a group passes together or consumes nothing", afterwards(func(m *model, c *sluice.Charge, d sluice.Decision) {
		if d.Allowed && d.Granted == 0 && c.N > 0 {
			consume(m, c, c.N)
		}
	})},
	{"groups that are not kept apart", "groups of one call are decided on their own and in order", asked(func(c *sluice.Charge) { c.Group = 0 })},
	{"groups that are torn apart", "a group passes together or consumes nothing", faulty{take: torn}},
	{"remaining one too high", "exactly the capacity is granted", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		d.Remaining = min(d.Limit, d.Remaining+1)
	})},
	{"remaining below zero", "exactly the capacity is granted", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		if !d.Allowed {
			d.Remaining--
		}
	})},
	{"retry-after too short", "whoever waits RetryAfter passes", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		if d.RetryAfter > time.Millisecond {
			d.RetryAfter -= time.Millisecond
		}
	})},
	{"retry-after too long", "nobody passes before RetryAfter", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		if !d.Allowed {
			d.RetryAfter += time.Second
		}
	})},
	{"retry-after of a grant", "exactly the capacity is granted", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		if d.Granted > 0 && d.RetryAfter == 0 {
			d.RetryAfter = time.Second
		}
	})},
	{"reset-after too short", "a key is full after ResetAfter", changed(func(_ *sluice.Charge, d *sluice.Decision) {
		d.ResetAfter /= 2
	})},
	{"keys cut to a prefix", "any bytes are a key and no two keys meet", asked(func(c *sluice.Charge) {
		c.Key = c.Key[:min(len(c.Key), 256)]
	})},
	{"keys cut at NUL", "any bytes are a key and no two keys meet", asked(func(c *sluice.Charge) {
		c.Key, _, _ = strings.Cut(c.Key, "\x00")
	})},
	{"keys made valid UTF-8", "any bytes are a key and no two keys meet", asked(func(c *sluice.Charge) {
		c.Key = strings.ToValidUTF8(c.Key, "?")
	})},
	{"kinds that share a state", "limits of different kinds do not meet", asked(func(c *sluice.Charge) {
		if c.Limit.Algorithm == sluice.FixedWindow && c.Limit.Calendar.Unit == 0 {
			c.Limit.Algorithm = sluice.SlidingWindow
		}
	})},
	{"a limit that is part of the key", "a lowered limit keeps what was used", asked(func(c *sluice.Charge) {
		c.Key = fmt.Sprint(c.Limit, c.Key)
	})},
	{"costs over the capacity that are refused", "costs over the capacity are ErrCost and leave no trace", faulty{take: refusesCosts}},
	{"errors that leave a trace", "costs over the capacity are ErrCost and leave no trace", faulty{take: oneByOneCall}},
	{"dst that is cut on an error", "dst is returned as it was on an error", faulty{take: func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
		got, err := m.Take(context.Background(), dst, charges)
		if err != nil {
			return nil, err
		}
		return got, nil
	}}},
	{"dst that is written over", "decisions are appended to dst in the order of the charges", faulty{take: func(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
		return m.Take(context.Background(), dst[:0], charges)
	}}},
	{"a give-back into the next window", "a give-back never reaches the next window", faulty{settle: func(m *model, settlements []sluice.Settlement) error {
		for i := range settlements {
			settlements[i].From.At = m.now()
		}
		return m.Settle(context.Background(), settlements)
	}}},
	{"a give-back to a refilled bucket", "a give-back to a bucket refilled since is dropped", faulty{settle: func(m *model, settlements []sluice.Settlement) error {
		for i := range settlements {
			settlements[i].From.ResetAfter = 100 * time.Hour
		}
		return m.Settle(context.Background(), settlements)
	}}},
	{"a give-back that is lost", "settling gives back what was granted", faulty{settle: func(m *model, settlements []sluice.Settlement) error {
		return m.Settle(context.Background(), slices.DeleteFunc(settlements, func(s sluice.Settlement) bool { return s.Charge.N < 0 }))
	}}},
	{"a charge after the fact that is lost when it would not pass", "settling charges after the fact", faulty{settle: func(m *model, settlements []sluice.Settlement) error {
		return m.Settle(context.Background(), slices.DeleteFunc(settlements, func(s sluice.Settlement) bool {
			peek := s.Charge
			peek.N, peek.Unit = 0, 0
			d, err := m.Take(context.Background(), nil, []sluice.Charge{peek})
			return err == nil && s.Charge.N > d[0].Remaining
		}))
	}}},
}

// torn decides each charge of a group by itself.
func torn(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if err := sluice.CheckCharges(charges); err != nil {
		return dst, err
	}
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Group = i
	}
	return m.Take(context.Background(), dst, charges)
}

// oneByOneCall checks and decides one charge after the other.
func oneByOneCall(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	got := dst
	for i := range charges {
		var err error
		if got, err = m.Take(context.Background(), got, charges[i:i+1]); err != nil {
			return dst, err
		}
	}
	return got, nil
}

// refusesCosts answers what can never pass with a refusal.
func refusesCosts(m *model, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for i := range charges {
		if err := sluice.CheckCharges(charges[i : i+1]); err != nil {
			return append(dst, make([]sluice.Decision, len(charges))...), nil
		}
	}
	return m.Take(context.Background(), dst, charges)
}

func TestSuiteFindsPlantedFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			var clock Clock
			err := Check(t.Context(), Harness{
				New: func() (sluice.Store, error) {
					store := fault.store
					store.model = newModel(func() int64 { return sluice.Ticks(clock.Now()) })
					return store, nil
				},
				Clock: &clock,
			})
			if err == nil {
				t.Fatal("the suite passes a store with this fault")
			}
			if !strings.Contains("\n"+err.Error(), "\n"+fault.rule+": ") {
				t.Errorf("rule %q passes; found instead:\n%v", fault.rule, err)
			}
		})
	}
}

// racy forgets the lock between looking and taking.
type racy struct{ *model }

func (r racy) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	peeks := slices.Clone(charges)
	for i := range peeks {
		peeks[i].N, peeks[i].Unit = 0, 0
	}
	n := len(dst)
	dst, err := r.model.Take(ctx, dst, peeks)
	if err != nil {
		return dst, err
	}
	for range 100 {
		runtime.Gosched() // others look meanwhile
	}
	for i := range charges {
		d, c := &dst[n+i], &charges[i]
		if d.Allowed = d.Remaining >= c.N; !d.Allowed {
			d.RetryAfter = time.Second
			continue
		}
		d.Granted, d.Remaining = c.N, d.Remaining-c.N
		consume(r.model, c, c.N)
	}
	return dst, nil
}

func TestSuiteFindsRaces(t *testing.T) {
	var clock Clock
	h := Harness{
		New: func() (sluice.Store, error) {
			return racy{newModel(func() int64 { return sluice.Ticks(clock.Now()) })}, nil
		},
		Clock: &clock,
	}
	for _, r := range rules {
		if r.name != "concurrent calls are granted exactly the capacity" {
			continue
		}
		if err := h.prove(t.Context(), r); err == nil {
			t.Error("the suite passes a store that looks and takes in two steps")
		}
	}
}
