// Package shard spreads hot keys: a charge with Shards n is counted on n
// counters with keys and cluster hash tags of their own, each with its part of
// the limit, so that on a cluster no node has all of it to do. Charges without
// shards pass through and cost nothing.
//
// # What is asked
//
// A call picks a shard at random; a group that only shards refused is asked once
// more, with each refused charge moved to another shard, in a second call of the
// store. What is asked at once of a cost that is more than a shard's part, it
// asks of as many shards as hold it, all or nothing. A peek asks all shards in
// one call.
//
// # What holds
//
// The parts add up to the limit (see [sluice.Limit.Part]), so that nothing over
// it is admitted. A caller may be refused though a shard that it did not ask has
// tokens left; of many small amounts over ten shards that is under 1%.
//
// RetryAfter is truthful wherever the next call goes: it is the longest that a
// shard in any state needs, and for windows their end. It is the exact wait only
// where all shards were asked, and then, of two, that of the first to be ready.
// A bucket's wait is at most the time in which one shard gains the tokens asked:
// shards times what the whole limit needs.
//
// Remaining is exact of a peek. Of other calls it is an estimate: the shards that
// were asked stand for the others. ResetAfter is that of the shards asked.
//
// A changed number of shards keeps what was used of the shards that stay; the
// first of them is the counter that a key without shards has.
package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/sluice-limiter/sluice"
)

// A Store spreads charges over the counters of another store. It may be used
// from many goroutines, starts none and needs no closing. Make one with [New].
type Store struct {
	next  sluice.Store
	pick  func(n int) int // a number from 0 to under n; of many goroutines
	calls sync.Pool       // *call
}

// New returns a store over next.
func New(next sluice.Store) *Store { return newStore(next, rand.IntN) }

func newStore(next sluice.Store, pick func(n int) int) *Store {
	s := &Store{next: next, pick: pick}
	s.calls.New = func() any { return new(call) }
	return s
}

// Take implements [sluice.Store]. More shards than tokens are an error that wraps
// [sluice.ErrCharge], as is one key with different numbers of shards in a group.
// A second try that fails leaves the first one's refusals.
func (s *Store) Take(ctx context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	if !spread(charges) {
		return s.next.Take(ctx, dst, charges)
	}
	c := s.calls.Get().(*call)
	defer s.calls.Put(c)
	defer c.reset()
	if err := c.prepare(s.pick, charges); err != nil {
		return dst, err
	}
	if err := c.ask(ctx, s.next); err != nil {
		return dst, err
	}
	first := len(dst)
	for i := range c.parts {
		dst = append(dst, c.answer(i))
	}
	if c.move(s.pick, dst[first:]) && c.ask(ctx, s.next) == nil {
		for i := range c.parts {
			if c.parts[i].ask {
				dst[first+i] = c.answer(i)
			}
		}
	}
	return dst, nil
}

// spread says whether any charge has shards.
func spread(charges []sluice.Charge) bool {
	for i := range charges {
		if charges[i].Shards > 1 {
			return true
		}
	}
	return false
}

var errCount = errors.New("shard: the store did not answer every charge")

// Forget implements [sluice.Forgetter] by the store below, for all shards.
func (s *Store) Forget(ctx context.Context, charges []sluice.Charge) error {
	f, ok := s.next.(sluice.Forgetter)
	if !ok {
		return fmt.Errorf("forget: %w", sluice.ErrUnsupported)
	}
	if !spread(charges) {
		return f.Forget(ctx, charges)
	}
	var all []sluice.Charge
	for i := range charges {
		c := &charges[i]
		if c.Shards < 2 {
			all = append(all, *c)
			continue
		}
		if err := checkShards(c); err != nil {
			return err
		}
		for shard := range c.Shards {
			all = append(all, shardOf(c, shard))
		}
	}
	return f.Forget(ctx, all)
}

// Locate implements [sluice.Locator] by the store below. The place of a charge
// with shards is that of its first.
func (s *Store) Locate(c *sluice.Charge) sluice.Place {
	if l, ok := s.next.(sluice.Locator); ok {
		return l.Locate(c)
	}
	return sluice.Place{}
}
