package coalesce

import (
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

func TestContract(t *testing.T) {
	clock := new(storetest.Clock)
	storetest.Run(t, storetest.Harness{
		Clock: clock,
		New: func() (sluice.Store, error) {
			s := New(memory.New(memory.Options{Now: clock.Now}), Options{})
			t.Cleanup(s.Close)
			return s, nil
		},
	})
}
