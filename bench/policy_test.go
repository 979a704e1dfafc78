package main

import "testing"

func TestRuleKeys(t *testing.T) {
	for i, want := range map[int]string{0: "tenant-000000000", 4: "tenant-000000011", manyRules - 1: "tenant-000999992"} {
		k := ruleKey(i)
		if k != want || len(k) != keyBytes {
			t.Errorf("ruleKey(%d) = %q, want %q", i, k, want)
		}
	}
	if k := ruleKey(5); tenantOf(k) != "tenant-00000001" || routeOf(k) != "cancel-order" {
		t.Errorf("the request of %q is tenant %q, route %q", k, tenantOf(k), routeOf(k))
	}
}

// TestEngines makes sure that requests meet the rules that are timed.
func TestEngines(t *testing.T) {
	for _, unlimited := range []bool{false, true} {
		limiter, err := engine(30, unlimited).start()
		if err != nil {
			t.Fatal(err)
		}
		work := limiter.worker()
		if err := work([]string{ruleKey(0), ruleKey(29), ruleKey(13), ruleKey(13)}); err != nil {
			t.Errorf("unlimited %v: %v", unlimited, err)
		}
		if err := work([]string{ruleKey(30)}); err == nil {
			t.Errorf("unlimited %v: a request without a rule is not noticed", unlimited)
		}
	}
}
