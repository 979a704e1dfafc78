package sluice

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPart(t *testing.T) {
	hour := 60 * time.Minute
	for _, tt := range []struct {
		limit Limit
		i, n  int
		want  Limit
	}{
		{Limit{Tokens: 100, Per: time.Second}, 0, 10, Limit{Tokens: 10, Per: time.Second, Burst: 10}},
		{Limit{Tokens: 50_000, Per: time.Second, Burst: 20}, 19, 20, Limit{Tokens: 2500, Per: time.Second, Burst: 1}},
		{Limit{Tokens: 5, Per: time.Second}, 0, 2, Limit{Tokens: 5, Per: 2 * time.Second, Burst: 3}},
		{Limit{Tokens: 5, Per: time.Second}, 1, 2, Limit{Tokens: 5, Per: 2 * time.Second, Burst: 2}},
		{Limit{Tokens: 6, Per: hour, Burst: 9}, 2, 4, Limit{Tokens: 3, Per: 2 * hour, Burst: 2}},
		{Limit{Tokens: 1, Per: time.Second, Burst: 10}, 9, 10, Limit{Tokens: 1, Per: 10 * time.Second, Burst: 1}},
		// 1000 days are more than a period can be.
		{Limit{Tokens: 1001, Per: 24 * hour}, 0, 1000, Limit{Tokens: 1, Per: 86_313_686_314 * time.Microsecond, Burst: 2}},
		{Limit{Tokens: 10, Per: hour, Algorithm: FixedWindow}, 2, 3, Limit{Tokens: 3, Per: hour, Algorithm: FixedWindow}},
		{Limit{Tokens: 10, Per: hour, Burst: 10, Algorithm: SlidingWindow}, 0, 3, Limit{Tokens: 4, Per: hour, Algorithm: SlidingWindow}},
		{Limit{Tokens: 100, Per: time.Second}, 0, 1, Limit{Tokens: 100, Per: time.Second, Burst: 100}},
		{Limit{Tokens: 9, Per: time.Second}, 0, 10, Limit{}},
		{Limit{Tokens: 9, Per: time.Second}, 9, 9, Limit{}},
		{Limit{Tokens: 9, Per: time.Second}, -1, 9, Limit{}},
		{Limit{Tokens: 9, Per: time.Second}, 0, 0, Limit{}},
	} {
		if got := tt.limit.Part(tt.i, tt.n); got != tt.want {
			t.Errorf("(%v).Part(%d, %d) = %+v, want %+v", tt.limit, tt.i, tt.n, got, tt.want)
		}
	}
}

// What fills in a year in one piece may not do so in several, since the first of
// them get the tokens that are left over.
func TestPartThatIsNotValid(t *testing.T) {
	limit := Limit{Tokens: 3, Per: MaxPer, Burst: 3}
	if err := limit.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := limit.Part(0, 2).Validate(); err == nil {
		t.Errorf("%v in 2 parts is valid, though 2 tokens take longer than %v", limit, MaxFill)
	}
}

// TestPartsAreTheLimit: whatever is divided, the parts together have exactly the
// burst and at most the rate, and lose next to nothing of it.
func TestPartsAreTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{
			Tokens:    rapid.Int64Range(1, MaxTokens).Draw(t, "tokens"),
			Per:       time.Duration(rapid.Int64Range(int64(MinPer/time.Microsecond), int64(MaxPer/time.Microsecond)).Draw(t, "per")) * time.Microsecond,
			Burst:     rapid.Int64Range(0, MaxTokens).Draw(t, "burst"),
			Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, FixedWindow, SlidingWindow}).Draw(t, "algorithm"),
		}
		if limit.Algorithm != TokenBucket {
			limit.Burst = 0
		}
		n := rapid.IntRange(1, MaxShards).Draw(t, "n")
		if limit.Validate() != nil || limit.Capacity() < int64(n) || limit.Part(0, n).Validate() != nil {
			t.Skip("nothing to divide")
		}
		capacity, least, most := int64(0), int64(math.MaxInt64), int64(0)
		rate := new(big.Rat)
		for i := range n {
			p := limit.Part(i, n)
			if err := p.Validate(); err != nil {
				t.Fatalf("part %d of %d of %+v: %v", i, n, limit, err)
			}
			if p.Kind() != limit.Kind() {
				t.Fatalf("part %+v is of another kind than %+v", p, limit)
			}
			capacity += p.Capacity()
			least, most = min(least, p.Capacity()), max(most, p.Capacity())
			rate.Add(rate, big.NewRat(p.Tokens, int64(p.Per)))
		}
		if capacity != limit.Capacity() || most-least > 1 {
			t.Errorf("%+v in %d parts of %d to %d tokens has a capacity of %d", limit, n, least, most, capacity)
		}
		whole := big.NewRat(limit.Tokens, int64(limit.Per))
		if rate.Cmp(whole) > 0 {
			t.Errorf("%+v in %d parts has a rate of %v a ns, more than %v", limit, n, rate, whole)
		}
		if floor := new(big.Rat).Mul(whole, big.NewRat(9998, 10_000)); rate.Cmp(floor) < 0 {
			t.Errorf("%+v in %d parts has a rate of %v a ns, much less than %v", limit, n, rate, whole)
		}
	})
}
