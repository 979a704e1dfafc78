// Command quickstart lets each customer do two things a second, five at once.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

func main() {
	limiter, err := sluice.New(memory.New(memory.Options{}), sluice.Limit{Tokens: 2, Per: time.Second, Burst: 5})
	if err != nil {
		log.Fatal(err)
	}
	for range 6 {
		d, err := limiter.Take(context.Background(), "customer-42", 1)
		if err != nil {
			log.Fatal(err) // the store could not answer: a refusal is no error
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
}
