package denied_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/memory"
)

func ExampleNew() {
	store := denied.New(memory.New(memory.Options{}), denied.Options{})
	limiter, err := sluice.New(store, sluice.Limit{Tokens: 1, Per: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Take(context.Background(), "tenant-a", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Source)
	}
	// Output:
	// true store
	// false store
	// false denied
}
