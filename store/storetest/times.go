package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-limiter/sluice"
)

// timeRules are about what time does to a key.
var timeRules = []rule{
	{name: "whoever waits RetryAfter passes", check: retryAfterIsEnough},
	{name: "nobody passes before RetryAfter", clock: true, check: retryAfterIsNeeded},
	{name: "a key is full after ResetAfter", check: resetAfterIsEnough},
	{name: "tokens come back one by one", clock: true, check: oneByOne},
	{name: "fractions of a token are kept", clock: true, check: fractionsKept},
	{name: "an idle key saves no more than its capacity", clock: true, check: idleSavesNothing},
	{name: "no window of time admits more than its bound", clock: true, check: boundOfAnyWindow},
	{name: "fixed windows begin at the clock's edges", clock: true, check: fixedEdges},
	{name: "a clock set back neither blocks nor refills", clock: true, check: clockSetBack},
}

// quick returns one limit of each algorithm, under which three tokens come back
// in part of a second.
func quick() []sluice.Limit {
	limits := []sluice.Limit{{Tokens: 10, Per: time.Second, Burst: 3}}
	for _, a := range []sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow, sluice.SlidingLog} {
		limits = append(limits, sluice.Limit{Tokens: 3, Per: 300 * time.Millisecond, Algorithm: a})
	}
	return limits
}

func retryAfterIsEnough(s *subject) error {
	for _, limit := range quick() {
		for round := range 3 {
			d, err := s.exhaust(limit.Algorithm.String(), limit)
			if err != nil {
				return err
			}
			if err := s.wait(d.RetryAfter); err != nil {
				return err
			}
			again, err := s.one(limit.Algorithm.String(), limit, 1)
			if err != nil {
				return err
			}
			if !again.Allowed {
				return fmt.Errorf("%v, round %d: refused again, with %+v, after the wait of %v", limit, round, again, d.RetryAfter)
			}
		}
	}
	return nil
}

func retryAfterIsNeeded(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		d, err := s.exhaust(key, limit)
		if err != nil {
			return err
		}
		// A sliding window counts the window before in steps of time.
		early := max(time.Microsecond, limit.Per>>18)
		if err := s.wait(d.RetryAfter - early); err != nil {
			return err
		}
		if err := s.want(key, limit, 1, false, 0); err != nil {
			return fmt.Errorf("%v before the end of a wait of %v: %w", early, d.RetryAfter, err)
		}
		return nil
	})
}

func resetAfterIsEnough(s *subject) error {
	for _, limit := range quick() {
		d, err := s.one(limit.Algorithm.String(), limit, 2)
		if err != nil {
			return err
		}
		if !d.Allowed || d.ResetAfter <= 0 {
			return fmt.Errorf("two of %v: got %+v, want Allowed and ResetAfter over 0", limit, d)
		}
		if err := s.wait(d.ResetAfter); err != nil {
			return err
		}
		full, err := s.one(limit.Algorithm.String(), limit, 0)
		if err != nil {
			return err
		}
		if full.Remaining != 3 || full.ResetAfter != 0 {
			return fmt.Errorf("%v after ResetAfter of %v: got %+v, want Remaining 3, ResetAfter 0", limit, d.ResetAfter, full)
		}
	}
	return nil
}

func oneByOne(s *subject) error {
	limit := sluice.Limit{Tokens: 10, Per: 30 * time.Second}
	if err := s.want("key", limit, 10, true, 0); err != nil {
		return err
	}
	for second := 1; second <= 11; second++ {
		if err := s.wait(time.Second); err != nil {
			return err
		}
		if err := s.want("key", limit, 1, second%3 == 0, 0); err != nil {
			return fmt.Errorf("at second %d: %w", second, err)
		}
	}
	return nil
}

func fractionsKept(s *subject) error {
	limit := sluice.Limit{Tokens: 5, Per: time.Second, Burst: 1}
	passed := int64(0)
	for range 2001 {
		d, err := s.one("key", limit, 1)
		if err != nil {
			return err
		}
		passed += d.Granted
		if err := s.wait(time.Millisecond); err != nil {
			return err
		}
	}
	if passed != 11 {
		return fmt.Errorf("%v asked each millisecond for 2 s granted %d, want 11", limit, passed)
	}
	return nil
}

func idleSavesNothing(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		return steps(
			func() error { return s.want(key, limit, 1, true, 9) },
			func() error { return s.wait(30 * limit.Per) },
			func() error { return s.want(key, limit, 10, true, 0) },
			func() error { return s.want(key, limit, 1, false, 0) },
		)
	})
}

// boundOfAnyWindow offers random load and holds what was admitted against the
// algorithm's own bound, for windows between any two admissions.
func boundOfAnyWindow(s *subject) error {
	random := rand.New(rand.NewPCG(1, 1))
	for _, limit := range []sluice.Limit{
		{Tokens: 10, Per: time.Second, Burst: 5},
		{Tokens: 3, Per: time.Second, Burst: 3},
		{Tokens: 5, Per: time.Second, Algorithm: sluice.SlidingLog},
		{Tokens: 5, Per: time.Second, Algorithm: sluice.SlidingWindow},
		{Tokens: 5, Per: time.Second, Algorithm: sluice.FixedWindow},
	} {
		key := limit.String()
		var at []time.Time
		for range 600 {
			if err := s.wait(time.Duration(random.Int64N(int64(200 * time.Millisecond)))); err != nil {
				return err
			}
			d, err := s.one(key, limit, 1)
			if err != nil {
				return err
			}
			if !d.Allowed {
				continue
			}
			at = append(at, s.now())
			for i := max(0, len(at)-40); i < len(at); i++ {
				span := at[len(at)-1].Sub(at[i])
				if n := len(at) - i; n > mostIn(limit, span) {
					return fmt.Errorf("%v admitted %d in %v, at most %d may pass", limit, n, span, mostIn(limit, span))
				}
			}
		}
	}
	return nil
}

// mostIn returns what a limit may admit from one moment to another.
func mostIn(limit sluice.Limit, span time.Duration) int {
	switch limit.Algorithm {
	case sluice.TokenBucket:
		return int(limit.Burst + int64(span)*limit.Tokens/int64(limit.Per))
	case sluice.SlidingLog:
		return int(limit.Tokens * (1 + int64(span/limit.Per)))
	}
	return int(limit.Tokens * (2 + int64(span/limit.Per)))
}

func fixedEdges(s *subject) error {
	limit := sluice.Limit{Tokens: 10, Per: time.Minute, Algorithm: sluice.FixedWindow}
	untilEdge := func() time.Duration {
		return limit.Per - time.Duration(s.now().UnixNano()%int64(limit.Per))
	}
	return steps(
		func() error { return s.wait(untilEdge() + 59*time.Second) },
		func() error { return s.want("key", limit, 10, true, 0) },
		func() error { return s.wait(untilEdge() - time.Microsecond) },
		func() error { return s.want("key", limit, 1, false, 0) },
		func() error { return s.wait(untilEdge()) },
		func() error { return s.want("key", limit, 10, true, 0) },
		func() error { return s.want("key", limit, 1, false, 0) },
	)
}

func clockSetBack(s *subject) error {
	for _, back := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 1000 * time.Hour} {
		for _, algorithm := range []sluice.Algorithm{sluice.TokenBucket, sluice.FixedWindow, sluice.SlidingWindow, sluice.SlidingLog} {
			limit := sluice.Limit{Tokens: 10, Per: time.Minute, Algorithm: algorithm}
			key := fmt.Sprint(algorithm, back)
			if err := s.want(key, limit, 10, true, 0); err != nil {
				return err
			}
			if err := s.wait(-back); err != nil {
				return err
			}
			d, err := s.one(key, limit, 1)
			if err != nil {
				return err
			}
			if d.Allowed || d.RetryAfter > 2*limit.Per {
				return fmt.Errorf("%v, clock set back by %v: got %+v, want a refusal for at most two periods", limit, back, d)
			}
			if err := s.wait(2 * limit.Per); err != nil {
				return err
			}
			if d, err := s.one(key, limit, 1); err != nil || !d.Allowed {
				return fmt.Errorf("%v, two periods after the clock was set back by %v: got %+v and error %w, want a token", limit, back, d, err)
			}
		}
	}
	return nil
}
