package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func ExampleParseLimit() {
	for _, text := range []string{"100/s burst 200", "5 per 15 minutes", "0.5/s", "1M/month calendar Asia/Ho_Chi_Minh", "fast"} {
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// 100/s burst 200
	// 5/15m
	// 1/2s
	// 1000000/month fixed_window calendar Asia/Ho_Chi_Minh
	// limit "fast": want an amount per period, such as 100/s, 5/15m or 1000/day
}

func ExampleNew() {
	limit, err := sluice.ParseLimit("2/h")
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := sluice.New(memory.New(memory.Options{}), limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Take(context.Background(), "alice", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30m0s
}

func ExampleLimiter_Wait() {
	limiter, err := sluice.New(memory.New(memory.Options{}), sluice.Limit{Tokens: 1, Per: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.Wait(ctx, "alice", 1))
	fmt.Println(errors.Is(limiter.Wait(ctx, "alice", 1), sluice.ErrWait))
	// Output:
	// <nil>
	// true
}

// Several limits pass together, or nothing is consumed.
func ExampleStore() {
	store := memory.New(memory.Options{})
	charges := []sluice.Charge{
		{Key: "tenant:shop-a", Limit: sluice.Limit{Tokens: 100, Per: time.Hour}, N: 1},
		{Key: "login:shop-a", Limit: sluice.Limit{Tokens: 1, Per: time.Hour, Algorithm: sluice.SlidingLog}, N: 1},
	}
	for range 2 {
		decisions, err := store.Take(context.Background(), nil, charges)
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, d := range decisions {
			fmt.Println(charges[i].Key, d.Allowed, d.Granted, d.Remaining)
		}
	}
	// Output:
	// tenant:shop-a true 1 99
	// login:shop-a true 1 0
	// tenant:shop-a true 0 99
	// login:shop-a false 0 0
}
