package storetest

import (
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

func TestSpecificationPasses(t *testing.T) {
	var clock Clock
	Run(t, Harness{
		New: func() (sluice.Store, error) {
			return newModel(func() int64 { return sluice.Ticks(clock.Now()) }), nil
		},
		Clock: &clock,
	})
}

func TestSpecificationPassesInRealTime(t *testing.T) {
	Run(t, Harness{
		New: func() (sluice.Store, error) {
			return newModel(func() int64 { return sluice.Ticks(time.Now()) }), nil
		},
	})
}
