package lab

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

func TestWhenDecisionsComeFromTheStoreAgain(t *testing.T) {
	ms := func(list ...int) (times []time.Duration) {
		for _, n := range list {
			times = append(times, time.Duration(n)*time.Millisecond)
		}
		return times
	}
	for _, tt := range []struct {
		name      string
		r         Record
		back      time.Duration
		disturbed bool
	}{
		{"at once", Record{Store: ms(900, 2000, 2100)}, 0, false},
		{"after the last local decision", Record{Fallback: ms(1500, 2040, 2110), Store: ms(2050, 2120)}, 120 * time.Millisecond, false},
		{"a later pause is another outage", Record{Fallback: ms(1500, 2040, 3000), Store: ms(2050, 2500)}, 50 * time.Millisecond, true},
		{"and so is one before the fault", Record{Fallback: ms(900, 1500), Store: ms(2010)}, 10 * time.Millisecond, true},
		{"never", Record{Fallback: ms(1500), Store: ms(900)}, time.Hour, false},
	} {
		const began, whole = time.Second, 2 * time.Second
		back := tt.r.backAfter(whole)
		if back != tt.back {
			t.Errorf("%s: back after %v, want %v", tt.name, back, tt.back)
		}
		if got := tt.r.disturbed(began, whole+back); got != tt.disturbed {
			t.Errorf("%s: disturbed = %v, want %v", tt.name, got, tt.disturbed)
		}
	}
}

// A key without an end is found on every master, and on masters alone.
func TestWithoutTTL(t *testing.T) {
	master, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(master.Close)
	dead, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	for _, words := range [][]string{{"SET", "a", "1"}, {"SET", "b", "1", "PX", "60000"}} {
		if err := command(master, words...); err != nil {
			t.Fatal(err)
		}
	}
	dead.Kill()
	s := &stage{nodes: []*servers.Redis{dead, master}}
	if n, err := s.withoutTTL(); err != nil || n != 1 {
		t.Errorf("withoutTTL = %d, %v, want 1", n, err)
	}
}

// Slots move while keys are in them, and are back at the end.
func TestMoveSlots(t *testing.T) {
	s, err := clusterMoves(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	fleet, err := NewFleet(t.Context(), 1, s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	traffic := Traffic{Stores: fleet.Stores(), Callers: 4, Rate: 400, Keys: 20, Limit: outageLimit, Budget: budget}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *Record)
	go func() { done <- traffic.Run(ctx, time.Now()) }()
	for {
		slots, err := slotsInUse(s.nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(slots) > 2 {
			break
		}
	}
	if err := s.breaks(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	r := <-done
	if len(r.Errors) > 0 {
		t.Errorf("%d calls failed: %v", len(r.Errors), r.Errors[0])
	}
	answer, err := s.nodes[1].Do("INFO", "commandstats")
	if err != nil || !strings.Contains(answer, "cmdstat_restore") {
		t.Errorf("no key was moved: %v", err)
	}
	if slots, err := slotsInUse(s.nodes[0]); err != nil || len(slots) == 0 {
		t.Errorf("slots in use at the end = %v, %v", slots, err)
	}
}
