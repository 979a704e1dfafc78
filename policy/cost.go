package policy

import (
	"fmt"
	"strconv"

	"github.com/sluice-limiter/sluice"
)

// A CostError reports a request whose cost makes no sense or can never pass.
// It is the caller's mistake: edges answer 400. It wraps [sluice.ErrCost] if the
// cost is above what the limit ever lets through at once.
type CostError struct {
	Limit     string // the limit's name
	Attribute string // what said the cost; "" if nothing in the request did
	Reason    string // what is wrong, and what would be right
	over      bool
}

// Error names the limit, the attribute and the remedy.
func (e *CostError) Error() string {
	if e.Attribute == "" {
		return fmt.Sprintf("limit %q: %s", e.Limit, e.Reason)
	}
	return fmt.Sprintf("limit %q: cost in %s: %s", e.Limit, e.Attribute, e.Reason)
}

// Unwrap returns sluice.ErrCost for a cost above the limit's capacity.
func (e *CostError) Unwrap() error {
	if e.over {
		return sluice.ErrCost
	}
	return nil
}

// normal returns the cost with its zero values spelled out.
func (c Cost) normal() Cost {
	c.Default = max(c.Default, 1)
	c.Min = max(c.Min, 1)
	if c.Max == 0 {
		c.Max = sluice.MaxTokens
	}
	return c
}

// cost returns the tokens that n times a request takes of a limit.
func (l *compiled) price(q *reader, n int64) (int64, error) {
	each := l.cost.Default
	if l.costAttribute >= 0 {
		if value := q.value(l.costAttribute); value != "" {
			parsed, err := l.parseCost(value)
			if err != nil {
				return 0, err
			}
			each = parsed
		}
	}
	if n > sluice.MaxTokens/each {
		// Above every capacity, without overflow.
		return sluice.MaxTokens + 1, nil
	}
	return n * each, nil
}

func (l *compiled) parseCost(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err == nil && n >= l.cost.Min && n <= l.cost.Max {
		return n, nil
	}
	if len(value) > 32 {
		value = value[:32]
	}
	return 0, &CostError{
		Limit:     l.Name,
		Attribute: l.Cost.Attribute,
		Reason:    fmt.Sprintf("%q: want a whole number from %d to %d", value, l.cost.Min, l.cost.Max),
	}
}

// overCost reports a cost that can never pass.
func (l *compiled) overCost(capacity int64) error {
	return &CostError{
		Limit:     l.Name,
		Attribute: l.Cost.Attribute,
		Reason:    fmt.Sprintf("the request costs more than the %d tokens that ever pass at once: ask for less at a time, or raise the limit's burst", capacity),
		over:      true,
	}
}
