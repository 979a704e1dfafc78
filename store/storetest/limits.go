package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
)

// limitRules are about one key under several limits.
var limitRules = []rule{
	{name: "a lowered limit keeps what was used", check: loweredLimit},
	{name: "a raised limit frees the difference", check: raisedLimit},
	{name: "limits of different kinds do not meet", check: kindsDoNotMeet},
	{name: "token buckets of one key are one", check: bucketsAreOne},
}

// resized returns the limit with another capacity, at the same rate.
func resized(limit sluice.Limit, capacity int64) sluice.Limit {
	if limit.Algorithm == sluice.TokenBucket {
		limit.Burst = capacity
	} else {
		limit.Tokens = capacity
	}
	return limit
}

func loweredLimit(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		return steps(
			func() error { return s.want(key, limit, 4, true, 6) },
			func() error { return s.wantRoom(key, resized(limit, 6), 2) },
			func() error { return s.want(key, resized(limit, 3), 1, false, 0) },
			func() error { return s.want(key, resized(limit, 4), 1, limit.Algorithm == sluice.TokenBucket, 0) },
		)
	})
}

func raisedLimit(s *subject) error {
	return s.each(10, func(key string, limit sluice.Limit) error {
		return steps(
			func() error { return s.want(key, limit, 10, true, 0) },
			func() error { return s.wantRoom(key, resized(limit, 15), 5) },
			func() error { return s.want(key, resized(limit, 15), 5, true, 0) },
			func() error { return s.want(key, resized(limit, 15), 1, false, 0) },
		)
	})
}

func kindsDoNotMeet(s *subject) error {
	var limits []sluice.Limit
	for _, limit := range s.kinds(10) {
		limits = append(limits, limit)
		if limit.Algorithm != sluice.TokenBucket {
			limit.Per *= 7
			limits = append(limits, limit)
		}
	}
	for _, unit := range []sluice.CalendarUnit{sluice.CalendarDay, sluice.CalendarMonth} {
		for _, zone := range []string{"", "Asia/Ho_Chi_Minh"} {
			limits = append(limits, sluice.Limit{Tokens: 10, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: unit, Zone: zone}})
		}
	}
	for i, limit := range limits {
		if err := s.want("key", limit, int64(i%5+1), true, int64(9-i%5)); err != nil {
			return err
		}
	}
	for i, limit := range limits {
		if err := s.wantRoom("key", limit, int64(9-i%5)); err != nil {
			return err
		}
	}
	return nil
}

func bucketsAreOne(s *subject) error {
	slow := sluice.Limit{Tokens: 1, Per: time.Hour, Burst: 10}
	slower := sluice.Limit{Tokens: 1, Per: 2 * time.Hour, Burst: 10}
	return steps(
		func() error { return s.want("key", slow, 6, true, 4) },
		// Six hours until full are three of the slower tokens.
		func() error { return s.wantRoom("key", slower, 7) },
	)
}

// keyRules are about what may be a key.
var keyRules = []rule{
	{name: "any bytes are a key and no two keys meet", check: anyBytes},
	{name: "many keys keep their own counts", check: manyKeys},
}

func anyBytes(s *subject) error {
	long := strings.Repeat("0123456789abcdef", 4096)
	keys := []string{
		"", " ", "a", "A", "a ", " a", "a\x00", "\x00", "\x00\x00", "a\x00b", "\n", "a\nb", "a\r\nb", "{", "}", "{}",
		"{a}", "{a}b", "a{b}", "{{a}}", "a:b", "a:b:c", "*", "?", "[a]", "%", "%s", "%00", "\\", "\\x00", "'", "\"",
		"é", "e\u0301", "键", "\xff", "\xfe\xff", "\xc3", "\xc3\x28", "0", "00", "-1", "1e9", "nil", "null",
		long, long + "\x00", long + "x", long + "y", "x" + long, long[:len(long)-1], long[:255], long[:256], long[:257],
		"tess_live_A", "tess_live_B",
	}
	for _, limit := range s.kinds(100) {
		for i, key := range keys {
			d, err := s.call(sluice.Charge{Key: key, Limit: limit, N: int64(i + 1)})
			if err != nil {
				return err
			}
			if d[0].Remaining != int64(99-i) {
				return fmt.Errorf("first charge on key %.40q of %d bytes, %v: got %+v, want Remaining %d", key, len(key), limit, d[0], 99-i)
			}
		}
		for i, key := range keys {
			d, err := s.call(sluice.Charge{Key: key, Limit: limit})
			if err != nil {
				return err
			}
			if d[0].Remaining != int64(99-i) {
				return fmt.Errorf("peek at key %.40q of %d bytes, %v: got %+v, want Remaining %d", key, len(key), limit, d[0], 99-i)
			}
		}
	}
	return nil
}

func manyKeys(s *subject) error {
	limits := s.kinds(10)
	charges := make([]sluice.Charge, 2000)
	for i := range charges {
		charges[i] = s.charge(fmt.Sprintf("tenant-%d", i/len(limits)), limits[i%len(limits)], int64(i%10+1))
		charges[i].Group = i
	}
	if _, err := s.call(charges...); err != nil {
		return err
	}
	want := make([]int64, len(charges))
	for i := range charges {
		want[i] = 10 - charges[i].N
		charges[i].N = 0
	}
	decisions, err := s.call(charges...)
	if err != nil {
		return err
	}
	for i, d := range decisions {
		if d.Remaining != want[i] {
			return fmt.Errorf("Take(%s) = %+v, want Remaining %d", show(charges[i:i+1]), d, want[i])
		}
	}
	return nil
}
