package guard

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// grant answers everything at once.
type grant struct{}

func (grant) Take(_ context.Context, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	for range charges {
		dst = append(dst, sluice.Decision{Allowed: true})
	}
	return dst, nil
}

func benchmark(b *testing.B, next sluice.Store) {
	s := New(next, memory.New(memory.Options{}), Options{})
	charges := []sluice.Charge{{Key: "k", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}}
	var buf [1]sluice.Decision
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), buf[:0], charges); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswered is what the guard adds to an answer in time.
func BenchmarkAnswered(b *testing.B) { benchmark(b, grant{}) }

func BenchmarkAnsweredParallel(b *testing.B) {
	s := New(grant{}, memory.New(memory.Options{}), Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		charges := []sluice.Charge{{Key: "k", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}}
		var buf [1]sluice.Decision
		for pb.Next() {
			if _, err := s.Take(b.Context(), buf[:0], charges); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkOpen is a decision while the breaker is open.
func BenchmarkOpen(b *testing.B) {
	s := New(&scripted{take: broken}, memory.New(memory.Options{}), Options{Probe: time.Hour, Instances: 3})
	charges := []sluice.Charge{{Key: "k", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}}
	for range 10 {
		if _, err := s.Take(b.Context(), nil, charges); err != nil {
			b.Fatal(err)
		}
	}
	var buf [1]sluice.Decision
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), buf[:0], charges); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAnswersInTimeAllocateNothing(t *testing.T) {
	if race {
		t.Skip("pools forget at random under the race detector")
	}
	s := New(grant{}, memory.New(memory.Options{}), Options{Budget: time.Minute})
	charges := []sluice.Charge{{Key: "k", Limit: sluice.Limit{Tokens: 1000, Per: time.Second}, N: 1}}
	buf := make([]sluice.Decision, 0, 1)
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := s.Take(t.Context(), buf, charges); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("a decision allocates %v times, want 0", allocs)
	}
}
