package shard

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// spreading gives every charge shards, as many as asked for and as its limit has
// tokens for.
type spreading struct {
	*Store
	shards int
}

func (s spreading) shard(c sluice.Charge) sluice.Charge {
	c.Shards = int(max(1, min(int64(s.shards), c.Limit.Capacity())))
	return c
}

func (s spreading) all(charges []sluice.Charge) []sluice.Charge {
	var all []sluice.Charge
	for _, c := range charges {
		all = append(all, s.shard(c))
	}
	return all
}

// Take implements [sluice.Store].
func (s spreading) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	return s.Store.Take(ctx, dst, s.all(charges))
}

// Forget implements [sluice.Forgetter].
func (s spreading) Forget(ctx context.Context, charges []sluice.Charge) error {
	return s.Store.Forget(ctx, s.all(charges))
}

// Settle implements [sluice.Settler].
func (s spreading) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	var all []sluice.Settlement
	for _, one := range settlements {
		one.Charge = s.shard(one.Charge)
		all = append(all, one)
	}
	return s.Store.Settle(ctx, all)
}

func TestContractWithoutShards(t *testing.T) {
	clock := new(storetest.Clock)
	storetest.Run(t, storetest.Harness{
		Clock: clock,
		New:   func() (sluice.Store, error) { return New(memory.New(memory.Options{Now: clock.Now})), nil },
	})
}

func TestContract(t *testing.T) {
	for _, shards := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			clock := new(storetest.Clock)
			storetest.Run(t, storetest.Harness{
				Clock: clock,
				New: func() (sluice.Store, error) {
					return spreading{New(memory.New(memory.Options{Now: clock.Now})), shards}, nil
				},
				Except: exceptions(),
			})
		})
	}
}

// exceptions are the rules that shards do not promise. What they promise in their
// place is held against random histories in property_test.go.
func exceptions() map[string]string {
	except := make(map[string]string)
	for why, rules := range map[string][]string{
		"Remaining of a take is an estimate": {
			"any bytes are a key and no two keys meet",
			"a group passes together or consumes nothing",
			"an idle key saves no more than its capacity",
			"exactly the capacity is granted",
			"forgetting makes a key as if never used",
			"groups of one call are decided on their own and in order",
			"limits of different kinds do not meet",
			"peeks in a group hold nothing back",
			"settling gives back what was granted",
			"the same key twice counts twice",
		},
		"a call asks two shards, which may hold less than others": {
			"a give-back to a bucket refilled since is dropped",
			"a group grants all its charges the same number of units",
			"a lowered limit keeps what was used",
			"a raised limit frees the difference",
			"a random history gives the specification's answers",
			"a random history of a moment gives the specification's answers",
			"a unit allows a part",
			"refused calls consume nothing",
			"token buckets of one key are one",
			"tokens come back one by one",
		},
		"a wait is what the slowest shard may need, a reset that of the shards asked": {
			"a clock set back neither blocks nor refills",
			"nobody passes before RetryAfter",
			"peeks write nothing",
		},
		"a shard cannot owe more than its part": {
			"settling charges after the fact",
		},
	} {
		for _, rule := range rules {
			except[rule] = why
		}
	}
	return except
}
