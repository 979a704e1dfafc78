package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A caller may lose its processor between reading the clock and taking. To it,
// the bucket then seems to owe more than it can, as if the clock had been set
// back; it must not be "repaired" to what the caller's old time says.
func TestSlowCallerDoesNotRefill(t *testing.T) {
	var (
		now     atomic.Pointer[time.Time]
		hold    atomic.Bool
		held    = make(chan struct{})
		release = make(chan struct{})
	)
	set := func(t time.Time) { now.Store(&t) }
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	set(start)
	s := memory.New(memory.Options{Now: func() time.Time {
		read := *now.Load()
		if hold.CompareAndSwap(true, false) {
			close(held)
			<-release
		}
		return read
	}})
	limit := sluice.Limit{Tokens: 1000, Per: time.Second, Burst: 1}
	take(t, s, "a", limit, 1)

	set(start.Add(time.Millisecond))
	hold.Store(true)
	slow := make(chan sluice.Decision)
	go func() { slow <- take(t, s, "a", limit, 1) }()
	<-held
	set(start.Add(time.Second))
	if d := take(t, s, "a", limit, 1); !d.Allowed {
		t.Errorf("a second later: got %+v, want Allowed", d)
	}
	close(release)
	if d := <-slow; d.Allowed {
		t.Errorf("the slow caller: got %+v, want a refusal", d)
	}
	if d := take(t, s, "a", limit, 1); d.Allowed {
		t.Errorf("at the same moment: got %+v, want a refusal", d)
	}
}
