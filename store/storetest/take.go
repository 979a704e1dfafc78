package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
)

// takeRules are about one charge at a time and about what a call may be.
var takeRules = []rule{
	{name: "exactly the capacity is granted", check: exactCapacity},
	{name: "refused calls consume nothing", check: refusedConsumeNothing},
	{name: "a unit allows a part", check: unitAllowsPart},
	{name: "peeks write nothing", check: peeksWriteNothing},
	{name: "costs over the capacity are ErrCost and leave no trace", check: costOverCapacity},
	{name: "charges without sense are ErrCharge and leave no trace", check: senselessCharges},
	{name: "decisions are appended to dst in the order of the charges", check: appendsInOrder},
	{name: "dst is returned as it was on an error", check: dstUnchangedOnError},
	{name: "a call without charges is no error", check: emptyCall},
	{name: "concurrent calls are granted exactly the capacity", check: exactUnderConcurrency},
}

func exactCapacity(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		for left := int64(9); left >= 0; left-- {
			if err := s.want(key, limit, 1, true, left); err != nil {
				return err
			}
		}
		return steps(
			func() error { return s.want(key, limit, 1, false, 0) },
			func() error { return s.want(key+" at once", limit, 10, true, 0) },
			func() error { return s.want(key+" at once", limit, 1, false, 0) },
		)
	})
}

func refusedConsumeNothing(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		if err := s.want(key, limit, 7, true, 3); err != nil {
			return err
		}
		first, err := s.one(key, limit, 5)
		if err != nil {
			return err
		}
		for range 50 {
			if err := s.want(key, limit, 5, false, 3); err != nil {
				return err
			}
		}
		last, err := s.one(key, limit, 5)
		if err != nil {
			return err
		}
		if last.RetryAfter > first.RetryAfter {
			return fmt.Errorf("refusals made the wait longer: from %v to %v", first.RetryAfter, last.RetryAfter)
		}
		return s.want(key, limit, 3, true, 0)
	})
}

func unitAllowsPart(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		part := func(n, unit, granted, remaining int64) func() error {
			return func() error {
				c := s.charge(key, limit, n)
				c.Unit = unit
				decisions, err := s.call(c)
				if err != nil {
					return err
				}
				d := decisions[0]
				if d.Allowed != (granted > 0) || d.Granted != granted || d.Remaining != remaining {
					return fmt.Errorf("up to %d tokens by %d: got %+v, want Granted %d, Remaining %d", n, unit, d, granted, remaining)
				}
				if granted < n && d.RetryAfter == 0 {
					return fmt.Errorf("up to %d tokens by %d: got %+v, want the wait for a unit more", n, unit, d)
				}
				return nil
			}
		}
		return steps(part(3, 1, 3, 7), part(8, 4, 4, 3), part(8, 4, 0, 3), part(10, 2, 2, 1), part(1000, 1, 1, 0), part(1000, 1, 0, 0))
	})
}

func peeksWriteNothing(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		for range 12 {
			d, err := s.one(key, limit, 0)
			if err != nil {
				return err
			}
			if !d.Allowed || d.Remaining != 10 || d.ResetAfter != 0 {
				return fmt.Errorf("peek at an unused key: got %+v, want Allowed, Remaining 10, ResetAfter 0", d)
			}
		}
		used, err := s.one(key, limit, 10)
		if err != nil {
			return err
		}
		for range 12 {
			d, err := s.one(key, limit, 0)
			if err != nil {
				return err
			}
			if !d.Allowed || d.Remaining != 0 || d.ResetAfter > used.ResetAfter {
				return fmt.Errorf("peek at an exhausted key: got %+v, want Allowed, Remaining 0, ResetAfter at most %v", d, used.ResetAfter)
			}
		}
		return nil
	})
}

func costOverCapacity(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		over := s.charge(key, limit, 11)
		half := s.charge(key, limit, 6)
		for _, charges := range [][]sluice.Charge{
			{over},
			{s.charge(key, limit, 1), over},
			{half, half},
			{{Key: over.Key, Limit: limit, N: 22, Unit: 11}},
		} {
			if _, err := s.Take(s.ctx, nil, charges); !errors.Is(err, sluice.ErrCost) {
				return fmt.Errorf("Take(%s) = %w, want ErrCost", show(charges), err)
			}
		}
		return s.wantRoom(key, limit, 10)
	})
}

func senselessCharges(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		good := s.charge(key, limit, 1)
		for _, bad := range []sluice.Charge{
			{Key: good.Key, Limit: limit, N: -1},
			{Key: good.Key, Limit: limit, N: math.MinInt64},
			{Key: good.Key, Limit: limit, N: math.MaxInt64, Unit: 1},
			{Key: good.Key, Limit: limit, N: 1, Unit: -1},
			{Key: good.Key, Limit: limit, N: 1, Unit: 2},
			{Key: good.Key, N: 1},
			{Key: good.Key, Limit: sluice.Limit{Tokens: 10, Algorithm: limit.Algorithm}, N: 1},
			{Key: good.Key, Limit: sluice.Limit{Tokens: -10, Per: time.Second, Algorithm: limit.Algorithm}, N: 1},
		} {
			for _, charges := range [][]sluice.Charge{{bad}, {good, bad}} {
				if _, err := s.Take(s.ctx, nil, charges); !errors.Is(err, sluice.ErrCharge) {
					return fmt.Errorf("Take(%s) = %w, want ErrCharge", show(charges), err)
				}
			}
		}
		return s.wantRoom(key, limit, 10)
	})
}

func appendsInOrder(s *subject) error {
	limits := s.kinds(1000)
	var charges []sluice.Charge
	for i := range 100 {
		c := s.charge(fmt.Sprint("key", i), limits[i%len(limits)], int64(i+1))
		c.Group = i
		charges = append(charges, c)
	}
	kept := sluice.Decision{Remaining: 4711, Granted: -3}
	for _, spare := range []int{0, 200} {
		dst := append(make([]sluice.Decision, 0, 1+spare), kept)
		got, err := s.Take(s.ctx, dst, charges)
		if err != nil {
			return err
		}
		if len(got) != 101 || got[0] != kept {
			return fmt.Errorf("got %d decisions, want the one before and 100 more", len(got))
		}
		for i, d := range got[1:] {
			if d.Granted != int64(i+1) {
				return fmt.Errorf("decision %d of 100 granted %d, want %d", i, d.Granted, i+1)
			}
		}
	}
	return nil
}

func dstUnchangedOnError(s *subject) error {
	dst := make([]sluice.Decision, 2, 10)
	dst[0].Remaining, dst[1].Remaining = 17, 18
	want := slices.Clone(dst)
	limit := s.kinds(10)[0]
	got, err := s.Take(s.ctx, dst, []sluice.Charge{s.charge("a", limit, 1), s.charge("a", limit, 11)})
	if err == nil {
		return errors.New("a cost over the capacity is no error")
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}

func emptyCall(s *subject) error {
	got, err := s.Take(s.ctx, make([]sluice.Decision, 1, 4), nil)
	if err != nil || len(got) != 1 {
		return fmt.Errorf("got %d decisions and error %v, want the one before and none", len(got), err)
	}
	return nil
}

func exactUnderConcurrency(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		var passed atomic.Int64
		if err := together(50, func(int) error {
			d, err := s.one(key, limit, 1)
			passed.Add(d.Granted)
			return err
		}); err != nil {
			return err
		}
		if n := passed.Load(); n != 10 {
			return fmt.Errorf("50 callers at once on a limit of 10: %d passed", n)
		}
		return nil
	})
}

// together starts n goroutines at one moment and joins their errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}
