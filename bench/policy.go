package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

const (
	manyRules = 300_000 // 100,000 tenants, three routes each
	fewRules  = 10
)

var routes = [...]string{"list-orders", "create-order", "cancel-order"}

// ruleKey returns the request that the i-th rule is for: a tenant of 15 bytes
// and the number of a route.
func ruleKey(i int) string { return fmt.Sprintf("tenant-%08d%d", i/len(routes), i%len(routes)) }

// policyBenchmarks time the engine with many rules against the same engine with
// few: what is compared is not another limiter but what many rules cost.
func policyBenchmarks() []benchmark {
	measure := func(load func(rules int) load, unlimited bool) func(settings) (result, error) {
		return func(s settings) (result, error) {
			return raceLoads(s,
				load(manyRules), engine(manyRules, unlimited),
				load(fewRules), engine(fewRules, unlimited))
		}
	}
	quick := []bound{atMost("value", 300), atMost("ratio", 2), atMost("allocs", 0)}
	return []benchmark{
		{
			// Rules that lift the limit: they are found, and nothing is charged.
			// Every rule is equally likely, which no cache is made for.
			name: "policy/match/300k", unit: "ns/op", measure: measure(uniformRules, true),
			target: quick,
		},
		{
			// The same with a few tenants that ask most of the time.
			name: "policy/match/300k-zipf", unit: "ns/op", measure: measure(zipfRules, true),
			target: quick,
		},
		{
			// The whole way to a verdict, with the keys, but for the store.
			name: "policy/decide/300k", unit: "ns/op", measure: measure(uniformRules, false),
			target: []bound{atMost("ratio", 2), atMost("allocs", 1)},
		},
	}
}

// uniformRules is one goroutine that meets each of n rules equally often.
func uniformRules(n int) load {
	r := source(0)
	return load{[][]string{order(ruleKey, func() int { return r.IntN(n) })}}
}

// zipfRules is one goroutine that meets a few of n rules most of the time.
func zipfRules(n int) load {
	zipf := rand.NewZipf(source(0), 1.1, 1, uint64(n-1))
	return load{[][]string{order(ruleKey, func() int { return int(zipf.Uint64()) })}}
}

// engine is a policy of one limit with n overrides, over a store that says yes.
func engine(n int, unlimited bool) subject {
	return subject{"engine", func() (running, error) {
		set, err := policy.NewSet([]policy.Limit{{
			Name:      "tenant-route",
			Key:       []string{"tenant", "route"},
			Default:   sluice.Limit{Tokens: 10, Per: time.Second},
			Overrides: overrides(n, unlimited),
			Source:    "bench",
		}})
		if err != nil {
			return running{}, err
		}
		e := policy.NewEngine(yes{}, set)
		return running{func() worker { return decideEach(e, unlimited) }, nothing}, nil
	}}
}

func overrides(n int, unlimited bool) []policy.Rule {
	rules := make([]policy.Rule, n)
	for i := range rules {
		k := ruleKey(i)
		rules[i] = policy.Rule{
			Match: []policy.Condition{
				{Attribute: "tenant", Patterns: []string{tenantOf(k)}},
				{Attribute: "route", Patterns: []string{routeOf(k)}},
			},
			Unlimited: unlimited,
			Source:    "bench",
		}
		if !unlimited {
			rules[i].Limit = sluice.Limit{Tokens: 100, Per: time.Second}
		}
	}
	return rules
}

func tenantOf(key string) string { return key[:keyBytes-1] }
func routeOf(key string) string  { return routes[key[keyBytes-1]-'0'] }

// decideEach makes a worker that uses its verdict again and again, as
// middleware does.
func decideEach(e *policy.Engine, unlimited bool) worker {
	ctx := context.Background()
	var verdict policy.Verdict
	var asked string
	request := policy.Request{N: 1, Attributes: func(name string) string {
		switch name {
		case "tenant":
			return tenantOf(asked)
		case "route":
			return routeOf(asked)
		}
		return ""
	}}
	return func(keys []string) error {
		for _, asked = range keys {
			if err := e.Decide(ctx, request, &verdict); err != nil {
				return err
			}
			if !verdict.Allowed {
				return errRefused
			}
			if met := verdictRules(&verdict, unlimited); met != 1 {
				return fmt.Errorf("%d overrides met %q: want 1", met, asked)
			}
		}
		return nil
	}
}

// verdictRules counts the overrides that were met.
func verdictRules(v *policy.Verdict, unlimited bool) int {
	results := v.Results
	if unlimited {
		results = v.Unlimited
	}
	met := 0
	for i := range results {
		if results[i].Rule != nil {
			met++
		}
	}
	return met
}

// yes is a store that allows everything and keeps nothing.
type yes struct{}

// Take implements [sluice.Store].
func (yes) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for i := range charges {
		capacity := charges[i].Limit.Capacity()
		dst = append(dst, sluice.Decision{Allowed: true, Granted: charges[i].N, Limit: capacity, Remaining: capacity - charges[i].N})
	}
	return dst, nil
}
