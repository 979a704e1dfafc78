package redis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/redis"
)

// Nobody needs to be there when a store is opened: calls fail at once until
// somebody is.
func ExampleOpen() {
	store, err := redis.Open(context.Background(), "redis://127.0.0.1:1", redis.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	perSecond := sluice.Limit{Tokens: 10, Per: time.Second}
	_, err = store.Take(context.Background(), nil, []sluice.Charge{{Key: "shop-a", Limit: perSecond, N: 1}})
	fmt.Println(errors.Is(err, redis.ErrAway))
	// Output: true
}
