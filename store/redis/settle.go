package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-limiter/sluice"
)

// Forget implements [sluice.Forgetter].
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	var errs []error
	for i := range charges {
		key := string(appendKey(nil, s.prefix, &charges[i]))
		if err := s.client.Do(ctx, s.client.B().Del().Key(key).Build()).Error(); err != nil {
			errs = append(errs, fmt.Errorf("redis: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Settle implements [sluice.Settler]: all settlements in one call of the
// script.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	if err := s.oneSlot(len(settlements), func(i int) *sluice.Charge { return &settlements[i].Charge }); err != nil {
		return err
	}
	q := s.request()
	defer s.calls.Put(q)
	if err := q.encodeSettle(s.prefix, settlements); err != nil {
		return err
	}
	_, err := s.run(ctx, q)
	return err
}

// encodeSettle puts a call of settlements together.
func (r *request) encodeSettle(prefix string, settlements []sluice.Settlement) error {
	r.reset()
	for i := range settlements {
		c := &settlements[i].Charge
		m, err := c.Limit.Meter()
		if err != nil {
			return err
		}
		if c.N > sluice.MaxTokens || c.N < -sluice.MaxTokens {
			return fmt.Errorf("%w: amount %d", sluice.ErrCharge, c.N)
		}
		r.meters = append(r.meters, m)
		r.text = appendKey(r.text, prefix, c)
		r.ends = append(r.ends, len(r.text))
	}
	r.cutKeys()
	for i := range settlements {
		c := &settlements[i].Charge
		r.record(i, flagGroup|flagSettle, c.N, origin(&settlements[i], &r.meters[i]), &c.Limit)
	}
	r.mode = "g"
	r.finish()
	return nil
}

// origin says where the tokens given back came from, in the form that the
// script compares: see the flags in take.lua.
func origin(s *sluice.Settlement, m *sluice.Meter) int64 {
	if s.Charge.N > 0 {
		return 0
	}
	switch s.Charge.Limit.Algorithm {
	case sluice.TokenBucket:
		return s.From.At + sluice.DurationTicks(s.From.ResetAfter)
	case sluice.SlidingLog:
		return s.From.At
	}
	start, _ := m.Bounds(s.From.At)
	return sluice.TicksTime(start).UnixMicro()
}
