package lab

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBoundFindsAWindowThatIsOver(t *testing.T) {
	at := func(sent, answered time.Duration) Admission {
		return Admission{Sent: sent * time.Millisecond, Answered: answered * time.Millisecond, N: 1}
	}
	b := Bound{Burst: 2, Rate: 10}
	for _, tt := range []struct {
		name string
		in   []Admission
		over int
	}{
		{"a burst fits", []Admission{at(0, 1), at(0, 1)}, 0},
		{"one more does not", []Admission{at(0, 1), at(0, 1), at(0, 1)}, 1},
		{"one more that may have passed later does", []Admission{at(0, 1), at(0, 1), at(0, 101)}, 0},
		{"the order of answers does not matter", []Admission{at(0, 101), at(0, 1), at(0, 1)}, 0},
		{"a late deadline gives way to an early one", []Admission{at(0, 500), at(0, 500), at(1, 2)}, 0},
		{"refilled", []Admission{at(0, 1), at(0, 1), at(100, 101), at(200, 201)}, 0},
		{"not refilled yet", []Admission{at(0, 1), at(0, 1), at(50, 60)}, 1},
		{"no more than the burst is saved", []Admission{at(10_000, 10_001), at(10_000, 10_001), at(10_000, 10_001)}, 1},
	} {
		if got := len(b.Over(tt.in)); got != tt.over {
			t.Errorf("%s: %d over, want %d", tt.name, got, tt.over)
		}
	}
}

// A real bucket never breaks its bound, and one that gives a token too many in
// a thousand does.
func TestBoundTellsARealBucketFromAFaultyOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	run := func(extra int) []Admission {
		var admissions []Admission
		tokens, now := 20.0, time.Duration(0)
		for i := range 20_000 {
			step := time.Duration(random.Int64N(int64(2 * time.Millisecond)))
			now += step
			tokens = min(20, tokens+step.Seconds()*500)
			if tokens >= 1 || extra > 0 && i%1000 == 999 {
				tokens--
				admissions = append(admissions, Admission{
					Sent:     now - time.Duration(random.Int64N(int64(time.Millisecond))),
					Answered: now + time.Duration(random.Int64N(int64(time.Millisecond))),
					N:        1,
				})
			}
		}
		return admissions
	}
	b := Bound{Burst: 20, Rate: 500}
	if over := b.Over(run(0)); len(over) > 0 {
		t.Errorf("%d admissions of a real bucket are over: %v", len(over), over[:1])
	}
	if over := b.Over(run(1)); len(over) == 0 {
		t.Error("a bucket that gives too much is not noticed")
	}
}
