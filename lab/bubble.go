package lab

import (
	"errors"
	"testing"
	"testing/synctest"
)

var errStuck = errors.New("the simulation stopped before its end")

// virtually runs f in a time of its own, which stands still while anybody works
// and leaps to the next timer when all wait: an hour takes as long as its work.
// The time begins with the year 2000. All goroutines that f starts must end.
//
// The runtime offers such time to tests only, so f is run as one. It is no test
// of this program, and an empty testing.T is all that it needs.
func virtually(f func()) error {
	ended := make(chan error, 1)
	go func() {
		err := errStuck
		// A failing T ends its goroutine without returning.
		defer func() { ended <- err }()
		synctest.Test(new(testing.T), func(*testing.T) { f() })
		err = nil
	}()
	return <-ended
}
