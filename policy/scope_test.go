package policy_test

import (
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// What shares a counter is what the key says, and nothing else: neither the
// route by which a request came (case 107) nor what a caller chooses to send
// beside it (case 105).
func TestOnlyTheKeyTellsCountersApart(t *testing.T) {
	set, err := policy.NewSet([]policy.Limit{{
		Name:    "billed",
		Key:     []string{"tenant"},
		Default: sluice.Limit{Tokens: 2, Per: time.Hour},
	}})
	if err != nil {
		t.Fatal(err)
	}
	engine := policy.NewEngine(memory.New(memory.Options{}), set)
	var v policy.Verdict
	for i, request := range []map[string]string{
		{"tenant": "a", "route": "orders", "scopes": "1"},
		{"tenant": "a", "route": "items", "scopes": "2"},
		{"tenant": "a", "route": "files", "scopes": "1,2"},
	} {
		ask := policy.Request{Attributes: func(name string) string { return request[name] }, N: 1}
		if err := engine.Decide(t.Context(), ask, &v); err != nil {
			t.Fatal(err)
		}
		if want := i < 2; v.Allowed != want {
			t.Errorf("request %d of %v: Allowed = %v, want %v", i+1, request, v.Allowed, want)
		}
	}
}
