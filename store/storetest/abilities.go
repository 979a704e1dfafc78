package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
)

// abilityRules are about what not every store can do.
var abilityRules = []rule{
	{name: "settling charges after the fact", check: settleCharges},
	{name: "settling gives back what was granted", check: settleGivesBack},
	{name: "a give-back never reaches the next window", check: giveBackStays},
	{name: "a give-back to a bucket refilled since is dropped", check: giveBackRefilled},
	{name: "settlements without sense are ErrCharge and leave no trace", check: senselessSettlements},
	{name: "forgetting makes a key as if never used", check: forgetting},
}

// settle settles n tokens of a key.
func (s *subject) settle(key string, limit sluice.Limit, n int64, from sluice.Decision) error {
	settler, ok := s.Store.(sluice.Settler)
	if !ok {
		return errSkip
	}
	settlement := sluice.Settlement{Charge: s.charge(key, limit, n), From: from}
	if err := settler.Settle(s.ctx, []sluice.Settlement{settlement}); err != nil {
		return fmt.Errorf("settle %d of %v: %w", n, limit, err)
	}
	return nil
}

func settleCharges(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		charge := func(n int64) func() error {
			return func() error { return s.settle(key, limit, n, sluice.Decision{}) }
		}
		room := func(n int64) func() error {
			return func() error { return s.wantRoom(key, limit, n) }
		}
		return steps(charge(3), room(7), charge(5), room(2), charge(5), room(0), charge(1), room(0), charge(1000), room(0))
	})
}

func settleGivesBack(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		first, err := s.one(key, limit, 4)
		if err != nil {
			return err
		}
		second, err := s.one(key, limit, 6)
		if err != nil {
			return err
		}
		back := func(n int64, from sluice.Decision) func() error {
			return func() error { return s.settle(key, limit, -n, from) }
		}
		room := func(n int64) func() error {
			return func() error { return s.wantRoom(key, limit, n) }
		}
		return steps(
			back(1, second), room(1), back(5, second), room(6),
			func() error { return s.want(key, limit, 6, true, 0) },
			back(4, first), room(4),
			back(0, first), room(4),
			func() error { return s.settle(key+" unused", limit, -5, first) },
			func() error { return s.wantRoom(key+" unused", limit, 10) },
		)
	})
}

func giveBackStays(s *subject) error {
	limit := sluice.Limit{Tokens: 10, Per: 500 * time.Millisecond, Algorithm: sluice.FixedWindow}
	const tries = 5
	for try := range tries {
		key := fmt.Sprint("key", try)
		old, err := s.one(key, limit, 3)
		if err != nil {
			return err
		}
		if err := s.wait(old.ResetAfter); err != nil {
			return err
		}
		before, err := s.one(key, limit, 2)
		if err != nil {
			return err
		}
		if err := s.settle(key, limit, -3, old); err != nil {
			return err
		}
		after, err := s.one(key, limit, 0)
		if err != nil {
			return err
		}
		if after.ResetAfter == 0 || after.ResetAfter > before.ResetAfter || before.Granted != 2 {
			continue // the real clock went on to yet another window
		}
		if after.Remaining != 8 {
			return fmt.Errorf("%v: 2 tokens taken in a window leave %d after a give-back from the one before, want 8", limit, after.Remaining)
		}
		return nil
	}
	return fmt.Errorf("in none of %d tries were three calls in one window of %v", tries, limit.Per)
}

func giveBackRefilled(s *subject) error {
	limit := sluice.Limit{Tokens: 1, Per: time.Hour, Burst: 10}
	fast := sluice.Limit{Tokens: 1000, Per: time.Second, Burst: 10}
	old, err := s.one("key", fast, 10)
	if err != nil {
		return err
	}
	return steps(
		func() error { return s.wait(old.ResetAfter) },
		func() error { return s.want("key", limit, 5, true, 5) },
		func() error { return s.settle("key", limit, -5, old) },
		func() error { return s.wantRoom("key", limit, 5) },
	)
}

func senselessSettlements(s *subject) error {
	settler, ok := s.Store.(sluice.Settler)
	if !ok {
		return errSkip
	}
	limit := s.kinds(10)[0]
	good := sluice.Settlement{Charge: s.charge("key", limit, 5)}
	bad := sluice.Settlement{Charge: s.charge("key", sluice.Limit{Tokens: -1, Per: time.Second}, 5)}
	if err := settler.Settle(s.ctx, []sluice.Settlement{good, bad}); !errors.Is(err, sluice.ErrCharge) {
		return fmt.Errorf("a settlement with an invalid limit: error %v, want ErrCharge", err)
	}
	return s.wantRoom("key", limit, 10)
}

func forgetting(s *subject) error {
	forgetter, ok := s.Store.(sluice.Forgetter)
	if !ok {
		return errSkip
	}
	limits := s.kinds(10)
	for i, limit := range limits {
		for _, l := range limits {
			for _, key := range []string{"key", "other"} {
				if err := forgetter.Forget(s.ctx, []sluice.Charge{s.charge(key, l, 0)}); err != nil {
					return fmt.Errorf("forget: %w", err)
				}
				if err := s.want(key, l, 4, true, 6); err != nil {
					return err
				}
			}
		}
		if err := forgetter.Forget(s.ctx, []sluice.Charge{s.charge("key", limit, 99), s.charge("unknown", limit, 0)}); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
		for j, l := range limits {
			want := int64(6)
			if i == j {
				want = 10
			}
			if err := s.wantRoom("key", l, want); err != nil {
				return fmt.Errorf("after %v was forgotten: %w", limit.Algorithm, err)
			}
			if err := s.wantRoom("other", l, 6); err != nil {
				return fmt.Errorf("another key after %v was forgotten: %w", limit.Algorithm, err)
			}
		}
	}
	return nil
}
