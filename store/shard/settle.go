package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
)

// A decision must tell a later give-back which shards granted. It does so in the
// low bits of At: ticks stay below 2^53 until 2042, and there are at most 1000
// shards.
const startBits = 10

func stamp(at int64, start int) int64 { return at<<startBits | int64(start) }

func unstamp(stamped int64) (at int64, start int) {
	return stamped >> startBits, int(stamped & (1<<startBits - 1))
}

// Settle implements [sluice.Settler] by the store below. What is given back goes
// to the shards that granted it, for which the charge must have the shards and the
// unit of the call; what several shards granted of a bucket may come back in part
// only, never more. What is charged is divided among all shards.
func (s *Store) Settle(ctx context.Context, settlements []sluice.Settlement) error {
	settler, ok := s.next.(sluice.Settler)
	if !ok {
		return fmt.Errorf("settle: %w", sluice.ErrUnsupported)
	}
	sharded := false
	for i := range settlements {
		sharded = sharded || settlements[i].Charge.Shards > 1 || orphaned(&settlements[i])
	}
	if !sharded {
		return settler.Settle(ctx, settlements)
	}
	var all []sluice.Settlement
	for i := range settlements {
		one := &settlements[i]
		if orphaned(one) {
			continue
		}
		if one.Charge.Shards < 2 {
			all = append(all, *one)
			continue
		}
		if _, err := one.Charge.Limit.Meter(); err != nil {
			return err
		}
		if err := checkShards(&one.Charge); err != nil {
			return err
		}
		if one.Charge.N > 0 {
			all = s.charge(all, one)
		} else {
			all = giveBack(all, one)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return settler.Settle(ctx, all)
}

// orphaned says whether something is given back that shards granted and that the
// limit, which was changed since, does not have any more. Where it came from is
// gone, so it is dropped.
func orphaned(s *sluice.Settlement) bool {
	return s.Charge.Shards < 2 && s.Charge.N < 0 && s.From.At >= 1<<53
}

// charge appends what divides a charge among all shards, so that each can owe
// its part of it.
func (s *Store) charge(all []sluice.Settlement, whole *sluice.Settlement) []sluice.Settlement {
	c := &whole.Charge
	n := min(c.N, c.Limit.Capacity())
	count := min(int64(c.Shards), n)
	start := 0
	if count < int64(c.Shards) {
		start = s.pick(c.Shards)
	}
	share, more := n/count, n%count
	for j := range count {
		one := sluice.Settlement{Charge: shardOf(c, (start+int(j))%c.Shards)}
		one.Charge.N, one.Charge.Unit = share, 0
		if j < more {
			one.Charge.N++
		}
		all = append(all, one)
	}
	return all
}

// giveBack appends what gives tokens back to the shards that granted them.
func giveBack(all []sluice.Settlement, whole *sluice.Settlement) []sluice.Settlement {
	c, from := &whole.Charge, whole.From
	at, start := unstamp(from.At)
	left := min(-c.N, from.Granted)
	if left <= 0 || start >= c.Shards {
		return all
	}
	granted := *c
	granted.N = from.Granted
	if c.Unit == 0 || c.Unit > granted.N {
		granted.Unit = 0
	}
	units := from.Granted / unit(&granted)
	count := reach(&granted)
	for j := 0; j < count && left > 0; j++ {
		n := piece(&granted, j, count) * units
		one := sluice.Settlement{Charge: shardOf(c, (start+j)%c.Shards), From: from}
		one.From.Limit, one.From.At = one.Charge.Limit.Capacity(), at
		one.From.Granted = n
		one.Charge.N, one.Charge.Unit = -min(n, left), 0
		left -= min(n, left)
		all = append(all, one)
	}
	return all
}

// Register implements [sluice.Registrar] by the store below.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	r, ok := s.next.(sluice.Registrar)
	if !ok {
		return nil, fmt.Errorf("register: %w", sluice.ErrUnsupported)
	}
	return r.Register(ctx, id, ttl)
}
