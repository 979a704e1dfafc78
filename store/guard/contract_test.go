package guard

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
			next := memory.New(memory.Options{Now: clock.Now})
			// The budget is not what is proved here.
			return New(next, memory.New(memory.Options{}), Options{Budget: 1e9}), nil
		},
	})
}
