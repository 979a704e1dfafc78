package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Charge asks one limit for tokens. Its limit travels with it, so that
// changing a rule rebuilds nothing.
type Charge struct {
	// Key names the counter. Any bytes, also none, are a key.
	Key string
	// Tag is what a cluster hashes to find the key's node; empty: the key.
	Tag string
	// Limit is how much may pass.
	Limit Limit
	// N is the tokens asked; 0 peeks: it always passes and writes nothing.
	N int64
	// Unit, if not 0, allows a part: the largest multiple of Unit up to N that
	// passes is granted. 0 asks for all of N or nothing.
	Unit int64
	// Group joins charges that stand next to each other and have the same
	// number: they pass together, each with the same number of units, or none
	// is consumed.
	Group int
	// OnFailure is what is answered while the store does not answer.
	OnFailure FailureMode
	// Tolerance is the part of the capacity, in millionths, that instances may
	// hold claimed in advance (store/lease); 0: the limit is exact.
	Tolerance int64
	// Shards is how many counters the key is spread over (store/shard), each
	// with its part of the limit; 0 and 1: one counter.
	Shards int
}

// Bounds of a charge.
const (
	MaxTolerance = 500_000 // millionths
	MaxShards    = 1000
)

// unit is the least that a grant can be; 0 for a peek.
func (c *Charge) unit() int64 {
	if c.Unit != 0 && c.N > 0 {
		return c.Unit
	}
	return c.N
}

// ErrCost reports a charge that can never pass, since it asks at once for more
// than the limit's capacity.
var ErrCost = errors.New("cost is over the limit's capacity and can never pass")

// ErrCharge reports a charge that makes no sense: a negative or overlarge
// amount, an invalid limit, two limits for one counter in a group.
var ErrCharge = errors.New("invalid charge")

// CheckCharges reports what keeps a call from being decided: an error that
// wraps [ErrCharge] or [ErrCost]. A store calls it before it changes anything.
func CheckCharges(charges []Charge) error {
	for i := range charges {
		c := &charges[i]
		if err := c.check(); err != nil {
			return err
		}
		if err := checkAliases(charges, i); err != nil {
			return err
		}
	}
	return nil
}

// checkAliases looks at the charges of one group up to i that name the counter
// of charge i: it must hold all of them. Two limits on one counter are most
// likely two limits that want a key each.
func checkAliases(charges []Charge, i int) error {
	c := &charges[i]
	need := c.unit()
	for j := i - 1; j >= 0 && charges[j].Group == c.Group; j-- {
		other := &charges[j]
		if other.Key != c.Key || other.unit() == 0 || c.unit() == 0 || other.Limit.Kind() != c.Limit.Kind() {
			continue
		}
		if other.Limit != c.Limit {
			return fmt.Errorf("%w: limits %v and %v share a key in one group: give each its own key", ErrCharge, other.Limit, c.Limit)
		}
		need += other.unit()
	}
	if need > c.Limit.Capacity() {
		return costError(c, need)
	}
	return nil
}

func costError(c *Charge, need int64) error {
	return fmt.Errorf("%d tokens of %v: %w", need, c.Limit, ErrCost)
}

// check looks at one charge by itself.
func (c *Charge) check() error {
	if _, err := c.Limit.Meter(); err != nil {
		return err
	}
	if c.N < 0 || c.N > MaxTokens {
		return fmt.Errorf("%w: amount is %d: want 0 to %d", ErrCharge, c.N, int64(MaxTokens))
	}
	if c.Unit < 0 || c.Unit > c.N && c.N > 0 {
		return fmt.Errorf("%w: unit is %d: want 0 to the amount, %d", ErrCharge, c.Unit, c.N)
	}
	if c.Tolerance < 0 || c.Tolerance > MaxTolerance {
		return fmt.Errorf("%w: tolerance is %d millionths: want 0 to %d", ErrCharge, c.Tolerance, MaxTolerance)
	}
	if c.Shards < 0 || c.Shards > MaxShards {
		return fmt.Errorf("%w: %d shards: want 0 to %d", ErrCharge, c.Shards, MaxShards)
	}
	return nil
}

// A Decision answers one charge. Times are relative, so that the clocks of
// callers do not matter.
//
// For a limit of 10/s burst 20 whose bucket holds 5 tokens: a charge of 3 is
// Allowed, Granted 3, Limit 20, Remaining 2, RetryAfter 0, ResetAfter 1.8s. A
// charge of 8 is refused: Granted 0, Remaining 5, RetryAfter 300ms, ResetAfter
// 1.5s.
type Decision struct {
	// Allowed says that this charge alone passes. A group passes when all its
	// charges do.
	Allowed bool
	// Granted is the tokens consumed; 0 for every charge of a refused group.
	Granted int64
	// Limit is the limit's capacity.
	Limit int64
	// Remaining is the tokens left: 0 <= Remaining <= Limit.
	Remaining int64
	// RetryAfter is 0 when all was granted. For a refused charge it is more
	// than 0: whoever waits that long, alone, passes. For a part it is the wait
	// for one unit more.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is as if never used.
	ResetAfter time.Duration
	// Source says who answered.
	Source Source
	// At is the store's time in ticks (see [Ticks]); a give-back needs it.
	At int64
}

// A Source says which part of the stack answered; the zero value is the store.
type Source uint8

// The sources of a decision.
const (
	SourceStore    Source = iota // the store, the truth
	SourceDenied                 // a refusal remembered
	SourceLease                  // tokens claimed in advance
	SourceFallback               // local counters while the store does not answer
)

var sourceNames = [...]string{"store", "denied", "lease", "fallback"}

// String returns the source as metrics name it.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// A Store answers one question: may these charges be taken?
//
// Take decides the charges in order, group by group, in one atomic step and
// appends one Decision for each to dst. A refusal is a Decision; an error means
// that the store could not answer, and then dst is returned as it was. Refused
// groups and peeks consume nothing. A Store keeps neither dst nor charges once it
// has returned. It may be used from many goroutines.
type Store interface {
	Take(ctx context.Context, dst []Decision, charges []Charge) ([]Decision, error)
}

// A Forgetter is a Store that can reset keys. The charges' amounts do not
// matter; forgetting a key that is not there is no error.
type Forgetter interface {
	Forget(ctx context.Context, charges []Charge) error
}

// A Settlement corrects a decision after the fact.
type Settlement struct {
	// Charge names the key and its limit. N above 0 charges that much more,
	// up to the limit's capacity and whether or not it would have passed; N
	// below 0 gives back.
	Charge Charge
	// From is the decision that granted what is given back. What its window
	// or its entries no longer hold, or a bucket has refilled since, is
	// dropped. A charge needs none.
	From Decision
}

// A Settler is a Store that can charge and give back after the fact. A
// settlement is tried once; if it is lost, the key admits less until it
// refills.
type Settler interface {
	Settle(ctx context.Context, settlements []Settlement) error
}

// A Place says where a key is kept.
type Place struct {
	// Slot is the same for charges that a store can decide in one call.
	Slot int
	// Node names what fails as one, such as a server's address.
	Node string
}

// A Locator is a Store whose keys are kept in several places. It must be cheap:
// it is asked for every charge.
type Locator interface {
	Locate(c *Charge) Place
}

// A Registrar is a Store in which instances tell each other that they live.
type Registrar interface {
	// Register says that the instance id lives for the time to live from now,
	// in the store's time, and returns the ids of all that do, sorted. A time
	// of 0 says that it is gone.
	Register(ctx context.Context, id string, ttl time.Duration) (live []string, err error)
}
