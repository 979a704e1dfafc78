package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A subject is a fresh store under test.
type subject struct {
	sluice.Store
	ctx     context.Context // the suite's, for the time of one rule
	harness *Harness
	prefix  string // of keys, so that rules do not meet on one server
}

func (h *Harness) subject(ctx context.Context, name string) (*subject, error) {
	store, err := h.New()
	if err != nil {
		return nil, fmt.Errorf("make a store: %w", err)
	}
	return &subject{Store: store, ctx: ctx, harness: h, prefix: name + "/"}, nil
}

// charge asks n tokens of a key of this rule.
func (s *subject) charge(key string, limit sluice.Limit, n int64) sluice.Charge {
	return sluice.Charge{Key: s.prefix + key, Limit: limit, N: n}
}

// call takes charges in one call and checks what holds of every answer.
func (s *subject) call(charges ...sluice.Charge) ([]sluice.Decision, error) {
	decisions, err := s.Take(s.ctx, nil, charges)
	if err != nil {
		return nil, fmt.Errorf("Take(%s) failed: %w", show(charges), err)
	}
	if len(decisions) != len(charges) {
		return nil, fmt.Errorf("Take(%s) = %d decisions, want %d", show(charges), len(decisions), len(charges))
	}
	for i := range charges {
		if err := sound(&charges[i], &decisions[i]); err != nil {
			return nil, fmt.Errorf("Take(%s)[%d] = %+v: %w", show(charges), i, decisions[i], err)
		}
	}
	return decisions, nil
}

// show writes charges for an error message, with long keys cut.
func show(charges []sluice.Charge) string {
	var b strings.Builder
	for i, c := range charges[:min(len(charges), 8)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.60q %v N=%d Unit=%d Group=%d", c.Key, c.Limit, c.N, c.Unit, c.Group)
	}
	if len(charges) > 8 {
		fmt.Fprintf(&b, ", and %d more", len(charges)-8)
	}
	return b.String()
}

// sound checks what holds of every decision.
func sound(c *sluice.Charge, d *sluice.Decision) error {
	switch {
	case d.Limit != c.Limit.Capacity():
		return fmt.Errorf("its Limit is %d, want the capacity, %d", d.Limit, c.Limit.Capacity())
	case d.Remaining < 0 || d.Remaining > d.Limit:
		return fmt.Errorf("its Remaining is out of 0 to %d", d.Limit)
	case d.RetryAfter < 0 || d.ResetAfter < 0:
		return errors.New("a time is negative")
	case d.Granted < 0 || d.Granted > c.N:
		return fmt.Errorf("its Granted is out of 0 to %d", c.N)
	case c.N > 0 && !d.Allowed && d.RetryAfter == 0:
		return errors.New("a refusal has RetryAfter 0")
	case d.Granted == c.N && d.Allowed && d.RetryAfter != 0:
		return errors.New("a whole grant has RetryAfter")
	case !d.Allowed && d.Granted != 0:
		return errors.New("a refusal granted tokens")
	}
	return nil
}

// one takes n tokens of a key.
func (s *subject) one(key string, limit sluice.Limit, n int64) (sluice.Decision, error) {
	decisions, err := s.call(s.charge(key, limit, n))
	if err != nil {
		return sluice.Decision{}, err
	}
	return decisions[0], nil
}

// want takes n tokens of a key and checks whether they are granted, whole, and
// what remains.
func (s *subject) want(key string, limit sluice.Limit, n int64, allowed bool, remaining int64) error {
	d, err := s.one(key, limit, n)
	if err != nil {
		return err
	}
	granted := int64(0)
	if allowed {
		granted = n
	}
	if d.Allowed != allowed || d.Granted != granted || d.Remaining != remaining {
		return fmt.Errorf("%d tokens of %v: got %+v, want Allowed %v, Granted %d, Remaining %d", n, limit, d, allowed, granted, remaining)
	}
	return nil
}

// wantRoom peeks and checks what remains.
func (s *subject) wantRoom(key string, limit sluice.Limit, remaining int64) error {
	if err := s.want(key, limit, 0, true, remaining); err != nil {
		return fmt.Errorf("peek: %w", err)
	}
	return nil
}

// exhaust takes a key's tokens one by one until it is refused, and returns the
// refusal.
func (s *subject) exhaust(key string, limit sluice.Limit) (sluice.Decision, error) {
	for range 3*limit.Capacity() + 10 {
		d, err := s.one(key, limit, 1)
		if err != nil || !d.Allowed {
			return d, err
		}
	}
	return sluice.Decision{}, fmt.Errorf("%v never refuses", limit)
}

// wait lets d pass for the store.
func (s *subject) wait(d time.Duration) error {
	if s.harness.Clock != nil {
		s.harness.Clock.Advance(d)
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// now returns the store's time as well as the suite knows it.
func (s *subject) now() time.Time {
	if s.harness.Clock != nil {
		return s.harness.Clock.Now()
	}
	return time.Now()
}

// period returns a period of about an hour whose present window is far from
// both its edges, so that no rule is disturbed by a window that ends.
func (s *subject) period() time.Duration {
	best, margin := time.Hour, time.Duration(0)
	for per := 50 * time.Minute; per <= 70*time.Minute; per += time.Minute {
		into := time.Duration(s.now().UnixNano() % int64(per))
		if m := min(into, per-into); m > margin {
			best, margin = per, m
		}
	}
	return best
}

// kinds returns one limit of each algorithm with a capacity; no token comes
// back for minutes.
func (s *subject) kinds(capacity int64) []sluice.Limit {
	per := s.period()
	limits := []sluice.Limit{{Tokens: 1, Per: per, Burst: capacity}}
	for _, a := range []sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow, sluice.SlidingLog} {
		limits = append(limits, sluice.Limit{Tokens: capacity, Per: per, Algorithm: a})
	}
	return limits
}

// each runs a check for one limit of each algorithm, on keys of its own.
func (s *subject) each(capacity int64, check func(key string, limit sluice.Limit) error) error {
	var errs []error
	for _, limit := range s.kinds(capacity) {
		if err := check(limit.Algorithm.String(), limit); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", limit.Algorithm, err))
		}
	}
	return errors.Join(errs...)
}

// steps runs steps until one fails.
func steps(list ...func() error) error {
	for i, step := range list {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}
