package memory_test

import (
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

func TestStore(t *testing.T) {
	var clock storetest.Clock
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) {
			return memory.New(memory.Options{Now: clock.Now}), nil
		},
		Clock: &clock,
	})
}

func TestStoreInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func() (sluice.Store, error) { return memory.New(memory.Options{}), nil },
	})
}
