package policy_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/strictyaml"
)

const file = `
limits:
  - name: tenant-route
    key: [tenant, route]
    limit: 10/s
    overrides:
      - {match: {tenant: shop-a, route: create-order}, limit: 100/s, burst: 200}
`

func ExampleEngine_Decide() {
	doc, err := strictyaml.Parse("sluice.yaml", []byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	limits := policy.DecodeLimits(doc.Root().Mapping("limits").Get("limits"))
	set, err := policy.NewSet(limits)
	if err := errors.Join(doc.Err(), err); err != nil {
		fmt.Println(err)
		return
	}
	engine := policy.NewEngine(memory.New(memory.Options{}), set)

	request := map[string]string{"tenant": "shop-a", "route": "create-order"}
	ask := func(name string) string { return request[name] }
	var v policy.Verdict // may be used again
	if err := engine.Decide(context.Background(), policy.Request{Attributes: ask, N: 1}, &v); err != nil {
		fmt.Println(err)
		return
	}
	r := v.Describing()
	fmt.Println(v.Allowed, r.Key, r.Effective, r.Decision.Remaining)
	// Output:
	// true tenant-route|tenant=shop-a|route=create-order 100/s burst 200 199
}

func ExampleDecodeLimits() {
	doc, err := strictyaml.Parse("sluice.yaml", []byte(`
limits:
  - name: login
    key: [ipp]
    limit: 5 each minute
    brust: 5
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	policy.DecodeLimits(doc.Root().Mapping("limits").Get("limits"), "ip", "tenant", "route")
	fmt.Println(doc.Err())
	// Output:
	// sluice.yaml:4: limits[0].key[0]: unknown attribute "ipp": did you mean ip?
	// sluice.yaml:5: limits[0].limit: want an amount per period, such as 100/s, 5/15m or 1000/day
	// sluice.yaml:6: limits[0].brust: unknown field: did you mean burst?
}
