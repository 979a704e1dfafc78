package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func ExampleNew() {
	store := memory.New(memory.Options{MaxKeys: 100_000})
	limiter, err := sluice.New(store, sluice.Limit{Tokens: 2, Per: time.Hour})
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
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}
