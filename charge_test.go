package sluice

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestCheckCharges(t *testing.T) {
	bucket, other := newKey(t, "5/s").limit, newKey(t, "50/s").limit
	window, log := newKey(t, "5/s fixed_window").limit, newKey(t, "5/s sliding_log").limit
	for _, tt := range []struct {
		name    string
		charges []Charge
		want    error
	}{
		{"no charge", nil, nil},
		{"as much as the capacity", []Charge{{Limit: bucket, N: 5}}, nil},
		{"B33: a cost over the capacity", []Charge{{Limit: bucket, N: 6}}, ErrCost},
		{"a large amount in parts", []Charge{{Limit: bucket, N: MaxTokens, Unit: 5}}, nil},
		{"a part over the capacity", []Charge{{Limit: bucket, N: 10, Unit: 6}}, ErrCost},
		{"an amount below zero", []Charge{{Limit: bucket, N: -1}}, ErrCharge},
		{"an amount over all bounds", []Charge{{Limit: bucket, N: MaxTokens + 1, Unit: 1}}, ErrCharge},
		{"a tolerance below zero", []Charge{{Limit: bucket, N: 1, Tolerance: -1}}, ErrCharge},
		{"a tolerance over half", []Charge{{Limit: bucket, N: 1, Tolerance: MaxTolerance + 1}}, ErrCharge},
		{"shards below zero", []Charge{{Limit: bucket, N: 1, Shards: -1}}, ErrCharge},
		{"too many shards", []Charge{{Limit: bucket, N: 1, Shards: MaxShards + 1}}, ErrCharge},
		{"a part below zero", []Charge{{Limit: bucket, N: 1, Unit: -1}}, ErrCharge},
		{"a part over the amount", []Charge{{Limit: bucket, N: 1, Unit: 2}}, ErrCharge},
		{"a peek", []Charge{{Limit: bucket}}, nil},
		{"a peek with a unit", []Charge{{Limit: bucket, Unit: math.MaxInt64}, {Limit: bucket, Unit: math.MaxInt64}}, nil},
		{"an invalid limit", []Charge{{N: 1}}, ErrCharge},
		{"an invalid limit behind a valid one", []Charge{{Limit: bucket, N: 1}, {}}, ErrCharge},
		{"a key twice within the capacity", []Charge{{Limit: bucket, N: 2}, {Limit: bucket, N: 3}}, nil},
		{"a key twice over the capacity", []Charge{{Limit: bucket, N: 3}, {Limit: bucket, N: 3}}, ErrCost},
		{"a key twice in two groups", []Charge{{Limit: bucket, N: 3}, {Limit: bucket, N: 3, Group: 1}}, nil},
		{"two limits for a key in a group", []Charge{{Limit: bucket, N: 1}, {Limit: other, N: 1}}, ErrCharge},
		{"two limits for a key in two groups", []Charge{{Limit: bucket, N: 1}, {Limit: other, N: 1, Group: 1}}, nil},
		{"two kinds of limit for a key", []Charge{{Limit: bucket, N: 5}, {Limit: window, N: 5}, {Limit: log, N: 5}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckCharges(tt.charges); !errors.Is(err, tt.want) || err != nil && strings.Contains(err.Error(), "%!") {
				t.Errorf("CheckCharges(%+v) = %v, want %v", tt.charges, err, tt.want)
			}
		})
	}
}

func TestSourceNames(t *testing.T) {
	for s, want := range map[Source]string{SourceStore: "store", SourceDenied: "denied", SourceLease: "lease", SourceFallback: "fallback", 9: "source(9)"} {
		if got := s.String(); got != want {
			t.Errorf("Source(%d) = %q, want %q", s, got, want)
		}
	}
}

// TestDecisionExample holds the worked figures of Decision's documentation.
func TestDecisionExample(t *testing.T) {
	fresh := func() *key {
		k := newKey(t, "10/s burst 20")
		k.take(0, 15)
		return k
	}
	if got := fresh().take(0, 3); got.Granted != 3 || got.Limit != 20 || got.Remaining != 2 || got.RetryAfter != 0 || got.ResetAfter.String() != "1.8s" {
		t.Errorf("a charge of 3 = %+v", got)
	}
	if got := fresh().take(0, 8); got.Granted != 0 || got.Remaining != 5 || got.RetryAfter.String() != "300ms" || got.ResetAfter.String() != "1.5s" {
		t.Errorf("a charge of 8 = %+v", got)
	}
}
