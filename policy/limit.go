// Package policy says which limits a request meets: named limits with their
// keys and overrides, an immutable index over them, and the engine that turns
// the attributes of a request into charges and decisions into a verdict.
package policy

import (
	"github.com/sluice-limiter/sluice"
)

// A Limit is one entry of "limits".
type Limit struct {
	Name      string
	Match     []Condition  // which requests; none: all
	Key       []string     // attributes whose values share a counter; none: one counter for all
	Default   sluice.Limit // for everyone without an override
	Unlimited bool         // Default is "unlimited": only overrides limit
	Overrides []Rule
	Cost      Cost
	Shadow    bool // count and report, never refuse
	OnFailure FailureMode
	Tolerance int64  // millionths of the burst that may be leased; 0: exact
	Shards    int    // 0 and 1: one counter
	Source    string // where it stands, "sluice.yaml:12"
}

// A Rule is an override: another limit for the requests that it matches. The
// override with the most matched attributes wins, then the one that stands
// first.
type Rule struct {
	Match     []Condition
	Limit     sluice.Limit
	Unlimited bool  // no charge is made
	Tolerance int64 // 0: that of the limit it overrides
	Shards    int   // 0: as many as the limit it overrides, but none of less than a token
	Source    string
}

// spread returns over how many counters an override of a limit is spread. What it
// takes over from the limit is not its author's doing, so that is made to fit
// rather than refused.
func (r *Rule) spread(l *Limit) int {
	if r.Shards != 0 || r.Unlimited {
		return r.Shards
	}
	return int(min(int64(l.Shards), r.Limit.Capacity()))
}

// A Condition asks that an attribute has one of some values: exact, a glob
// with *, or for addresses a CIDR. A lone * asks for any value but "" and does
// not count as a matched attribute; \* stands for a star, \\ for a backslash.
// The exact value "" matches requests that do not have the attribute.
type Condition struct {
	Attribute string
	Patterns  []string
}

// A Cost says how many tokens a request takes: 1, or what an attribute says.
type Cost struct {
	Attribute string // "header:X-Request-Cost"; "": always Default
	Default   int64  // when the attribute is missing; 0 means 1
	Min, Max  int64  // bounds of what the attribute may say; 0 means 1 and no bound
}

// A FailureMode says what a limit answers while the store does not.
type FailureMode = sluice.FailureMode

// The failure modes; the zero value is local.
const (
	FailLocal = sluice.FailLocal // this instance's share, counted in memory
	FailAllow = sluice.FailAllow // pass
	FailDeny  = sluice.FailDeny  // refuse until the store answers
)

var failureNames = [...]string{FailLocal.String(), FailAllow.String(), FailDeny.String()}
