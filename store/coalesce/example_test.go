package coalesce_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/memory"
)

func ExampleNew() {
	store := coalesce.New(memory.New(memory.Options{}), coalesce.Options{})
	defer store.Close()
	limiter, err := sluice.New(store, sluice.Limit{Tokens: 10, Per: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if d, err := limiter.Take(context.Background(), "tenant-a", 1); err == nil {
				passed.Add(d.Granted)
			}
		})
	}
	wg.Wait()
	fmt.Println(passed.Load())
	// Output: 10
}
