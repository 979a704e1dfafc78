package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/memory"
)

// away is a store that does not answer.
type away struct{}

func (away) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	return dst, errors.New("connection refused")
}

func ExampleNew() {
	store := guard.New(away{}, memory.New(memory.Options{}), guard.Options{Instances: 4})
	// A server also starts store.Run, which counts the instances that live.
	limiter, err := sluice.New(store, sluice.Limit{Tokens: 100, Per: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Take(context.Background(), "customer 7", 1)
	fmt.Println(d.Allowed, d.Source, d.Limit, err)
	// Output: true fallback 25 <nil>
}
