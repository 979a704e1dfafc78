//go:build !race

package coalesce

import (
	"testing"

	"github.com/sluice-limiter/sluice"
)

// TestAllocations: under the race detector pools forget on purpose.
func TestAllocations(t *testing.T) {
	s := New(new(nothing), Options{})
	defer s.Close()
	charges := []sluice.Charge{{Key: "key", Limit: rate, N: 1}, {Key: "other", Limit: rate, N: 1, Group: 1}}
	dst := make([]sluice.Decision, 0, len(charges))
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.Take(t.Context(), dst, charges); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("a call allocates %v times, want 0", n)
	}
}
