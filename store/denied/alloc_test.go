//go:build !race

package denied

import (
	"testing"

	"github.com/sluice-limiter/sluice"
)

// TestNoAllocations: under the race detector pools forget on purpose.
func TestNoAllocations(t *testing.T) {
	shadow := sluice.Charge{Key: "shadow", Limit: daily, N: 1, Group: 1}
	for _, charges := range [][]sluice.Charge{
		{{Key: "key", Limit: daily, N: 1}},
		{{Key: "key", Limit: daily, N: 1}, {Key: "other", Limit: daily, N: 1}, shadow},
	} {
		s, _ := newCounted(Options{})
		dst := make([]sluice.Decision, 0, len(charges))
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := s.Take(t.Context(), dst, charges); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("a refusal of %d charges told again allocates %v times, want 0", len(charges), n)
		}
	}
}
