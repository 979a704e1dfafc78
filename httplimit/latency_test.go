package httplimit

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/store/memory"
)

func TestLatencyIsToldOfEveryRequest(t *testing.T) {
	var told []time.Duration
	h, err := PerIP(memory.New(memory.Options{}), "1/h", Options{Latency: func(d time.Duration) { told = append(told, d) }})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.Admit(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if len(told) != 3 {
		t.Fatalf("told %d latencies, want 3", len(told))
	}
	for _, d := range told {
		if d <= 0 || d > time.Second {
			t.Errorf("latency %v: want more than 0 and less than a second", d)
		}
	}
}
