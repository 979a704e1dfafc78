package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-limiter/sluice/store/memory"
)

func TestVisibility(t *testing.T) {
	const ttl = 10 * time.Second
	var v visibility
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	if got := v.at(start, ttl); got != 0 {
		t.Errorf("before the first heartbeat: %v, want 0", got)
	}
	for _, step := range []struct {
		name           string
		sent, answered float64 // of a heartbeat; 0: none
		now, want      float64
	}{
		{"the first counts from its answer", 1, 1.5, 2, 0.5},
		{"the next goes on", 4, 4.1, 5, 3.5},
		{"a late one as well", 13.5, 13.9, 14, 12.5},
		{"nearly run out", 0, 0, 23.4, 21.9},
		{"run out", 0, 0, 23.5, 0},
		{"begins anew", 24, 24.5, 25, 0.5},
		{"an answer that came after the one before ran out", 33, 34.5, 35, 0.5},
	} {
		if step.sent > 0 {
			v.note(at(step.sent), at(step.answered), ttl)
		}
		if got, want := v.at(at(step.now), ttl), time.Duration(step.want*float64(time.Second)); got.Round(time.Millisecond) != want {
			t.Errorf("%s: %v, want %v", step.name, got, want)
		}
	}
}

// lateRegistrar fails the first heartbeats, as before a server is connected to.
type lateRegistrar struct{ left int }

func (r *lateRegistrar) Register(_ context.Context, id string, _ time.Duration) ([]string, error) {
	if r.left--; r.left >= 0 {
		return nil, errors.New("not connected")
	}
	return []string{id}, nil
}

// An instance whose first heartbeat fails is visible soon after all the same.
func TestVisibleSoonAfterAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(memory.New(memory.Options{}), memory.New(memory.Options{}), Options{TTL: 10 * time.Second, Registrar: &lateRegistrar{left: 2}})
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { s.Run(ctx) })
		time.Sleep(2 * time.Second)
		if _, visible := s.Fleet(); visible < time.Second {
			t.Errorf("visible for %v two seconds after the start", visible)
		}
		cancel()
		wait.Wait()
	})
}
