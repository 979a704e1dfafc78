package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// groupRules are about several charges in one call.
var groupRules = []rule{
	{name: "a group passes together or consumes nothing", check: groupTogether},
	{name: "a group grants all its charges the same number of units", check: groupUnits},
	{name: "groups of one call are decided on their own and in order", check: groupsInOrder},
	{name: "the same key twice counts twice", check: sameKeyTwice},
	{name: "peeks in a group hold nothing back", check: groupPeeks},
	{name: "concurrent groups conserve tokens", check: groupsConserve},
}

func groupTogether(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		var charges []sluice.Charge
		for i, other := range s.kinds(10) {
			charges = append(charges, s.charge(fmt.Sprint(key, " beside ", i), other, 2))
		}
		// The one that refuses stands in the middle.
		charges[1] = s.charge(key, limit, 2)
		if err := s.want(key, limit, 9, true, 1); err != nil {
			return err
		}
		for range 100 {
			decisions, err := s.call(charges...)
			if err != nil {
				return err
			}
			for i, d := range decisions {
				if d.Allowed != (i != 1) || d.Granted != 0 || i != 1 && d.Remaining != 10 {
					return fmt.Errorf("charge %d of a refused group: got %+v, want nothing consumed, and only charge 1 refused", i, d)
				}
			}
		}
		charges[1].N = 1
		decisions, err := s.call(charges...)
		if err != nil {
			return err
		}
		for i, d := range decisions {
			if !d.Allowed || d.Granted != charges[i].N {
				return fmt.Errorf("charge %d of a group that passes: got %+v", i, d)
			}
		}
		return s.want(key, limit, 1, false, 0)
	})
}

func groupUnits(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		a, b := s.charge(key+" a", limit, 8), s.charge(key+" b", limit, 24)
		a.Unit, b.Unit = 1, 3
		decisions, err := s.call(a, b)
		if err != nil {
			return err
		}
		for i, want := range []int64{3, 9} {
			if d := decisions[i]; !d.Allowed || d.Granted != want || d.Remaining != 10-want || d.RetryAfter == 0 && i == 1 {
				return fmt.Errorf("charge %d: got %+v, want 3 units, %d tokens", i, d, want)
			}
		}
		return nil
	})
}

func groupsInOrder(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		group := func(number int, c sluice.Charge) sluice.Charge { c.Group = number; return c }
		a, b := key+" a", key+" b"
		decisions, err := s.call(
			group(0, s.charge(a, limit, 8)),
			group(1, s.charge(a, limit, 5)), group(1, s.charge(b, limit, 5)), // refused by a
			group(2, s.charge(b, limit, 9)),
			group(0, s.charge(a, limit, 2)), // a number used again is another group
		)
		if err != nil {
			return err
		}
		for i, want := range []struct{ granted, remaining int64 }{{8, 2}, {0, 2}, {0, 10}, {9, 1}, {2, 0}} {
			if d := decisions[i]; d.Granted != want.granted || d.Remaining != want.remaining {
				return fmt.Errorf("charge %d: got %+v, want %+v", i, d, want)
			}
		}
		return nil
	})
}

func sameKeyTwice(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		five, other := s.charge(key, limit, 5), s.charge(key+" other", limit, 1)
		later := five
		later.Group = 1
		granted := func(want [2]int64, charges ...sluice.Charge) func() error {
			return func() error {
				decisions, err := s.call(charges...)
				if err != nil {
					return err
				}
				if got := [2]int64{decisions[0].Granted, decisions[len(decisions)-1].Granted}; got != want {
					return fmt.Errorf("Take(%s) granted %v, want %v", show(charges), got, want)
				}
				return nil
			}
		}
		return steps(
			func() error { return s.want(key, limit, 1, true, 9) },
			granted([2]int64{0, 0}, five, other, five),
			func() error { return s.wantRoom(key, limit, 9) },
			granted([2]int64{5, 0}, five, later),
			func() error { return s.wantRoom(key, limit, 4) },
			granted([2]int64{2, 2}, s.charge(key, limit, 2), other, s.charge(key, limit, 2)),
			func() error { return s.want(key, limit, 1, false, 0) },
		)
	})
}

func groupPeeks(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		if _, err := s.exhaust(key, limit); err != nil {
			return err
		}
		decisions, err := s.call(s.charge(key, limit, 0), s.charge(key+" other", limit, 4))
		if err != nil {
			return err
		}
		if d := decisions[0]; !d.Allowed || d.Granted != 0 {
			return fmt.Errorf("peek at an exhausted key: got %+v, want Allowed", d)
		}
		if d := decisions[1]; d.Granted != 4 || d.Remaining != 6 {
			return fmt.Errorf("charge beside a peek: got %+v, want Granted 4, Remaining 6", d)
		}
		return nil
	})
}

// groupsConserve runs groups over two keys, in both orders, against single
// charges on either. What each key granted must be its capacity.
func groupsConserve(s *subject) error {
	const capacity = 400
	return s.each(capacity, func(key string, limit sluice.Limit) error {
		a, b := s.charge(key+" a", limit, 1), s.charge(key+" b", limit, 1)
		var ofA, ofB, wrong atomic.Int64
		if err := together(8, func(i int) error {
			for range 150 {
				var decisions []sluice.Decision
				var err error
				switch i % 4 {
				case 0:
					decisions, err = s.call(a)
				case 1:
					decisions, err = s.call(b)
				case 2:
					decisions, err = s.call(a, b)
				case 3:
					decisions, err = s.call(b, a)
				}
				if err != nil {
					return err
				}
				if len(decisions) == 2 && decisions[0].Granted != decisions[1].Granted {
					wrong.Add(1)
				}
				first, second := &ofA, &ofB
				if i%2 == 1 {
					first, second = second, first
				}
				first.Add(decisions[0].Granted)
				if len(decisions) == 2 {
					second.Add(decisions[1].Granted)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		var errs []error
		if n := wrong.Load(); n > 0 {
			errs = append(errs, fmt.Errorf("%d groups were granted in part", n))
		}
		for _, k := range []struct {
			key string
			n   int64
		}{{key + " a", ofA.Load()}, {key + " b", ofB.Load()}} {
			errs = append(errs, s.wantRoom(k.key, limit, capacity-k.n))
		}
		return errors.Join(errs...)
	})
}
