package shard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/shard"
)

func ExampleNew() {
	store := shard.New(memory.New(memory.Options{}))
	everyone := sluice.Charge{
		Key:    "everyone",
		Limit:  sluice.Limit{Tokens: 50_000, Per: time.Second, Algorithm: sluice.FixedWindow},
		N:      1,
		Shards: 10, // of 5,000 a second each
	}
	got, err := store.Take(context.Background(), nil, []sluice.Charge{everyone})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got[0].Granted, "of", got[0].Limit)
	// Output:
	// 1 of 50000
}
