package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/metrics"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
	"github.com/sluice-limiter/sluice/store/storetest"
)

// TestContract holds the decorator to what every store keeps.
func TestContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
		m := metrics.New(metrics.Options{})
		return m.Decisions(m.Store(memory.New(memory.Options{}))), nil
	}})
}

// slow answers after a while.
type slow struct{ after time.Duration }

func (s slow) Take(_ context.Context, dst []sluice.Decision, _ []sluice.Charge) ([]sluice.Decision, error) {
	time.Sleep(s.after)
	return dst, nil
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{})
		store := m.Decisions(m.Store(slow{1400 * time.Microsecond}))
		if _, err := store.Take(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		m.Latency()(30 * time.Microsecond)
		m.Latency()(2 * time.Second)
		series := scrape(t, m)
		for name, want := range map[string]float64{
			`sluice_store_duration_seconds_bucket{le="0.00125"}`:              0,
			`sluice_store_duration_seconds_bucket{le="0.0015"}`:               1,
			`sluice_store_duration_seconds_sum`:                               0.0014,
			`sluice_store_duration_seconds_count`:                             1,
			`sluice_decision_duration_seconds_bucket{le="5e-05"}`:             1,
			`sluice_decision_duration_seconds_bucket{le="0.00125"}`:           1,
			`sluice_decision_duration_seconds_bucket{le="0.0015"}`:            2,
			`sluice_decision_duration_seconds_bucket{le="1"}`:                 2,
			`sluice_decision_duration_seconds_bucket{le="+Inf"}`:              3,
			`sluice_store_errors_total{kind="timeout",operation="take"}`:      0,
			`sluice_decision_errors_total{kind="timeout",operation="settle"}`: 0,
		} {
			if got, ok := series[name]; !ok || got != want {
				t.Errorf("%s = %v, %v, want %v", name, got, ok, want)
			}
		}
	})
}

// serverError is an error as a Redis client returns it.
type serverError string

func (e serverError) Error() string  { return string(e) }
func (serverError) IsNoScript() bool { return false }

// silence is an address that accepts and never answers, and one where nobody
// listens.
func silence(t *testing.T) (accepting, closed string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	return l.Addr().String(), gone.Addr().String()
}

// TestErrorKinds looks at errors that a network really makes, and at texts that
// lie about what they are.
func TestErrorKinds(t *testing.T) {
	accepting, closed := silence(t)
	_, refused := net.Dial("tcp", closed)
	conn, err := net.Dial("tcp", accepting)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	_, late := conn.Read(make([]byte, 1))
	conn.Close()
	_, closedConn := conn.Read(make([]byte, 1))

	away := errors.New("not connected")
	for _, tt := range []struct {
		err  error
		kind string
	}{
		{away, "connection_lost"},
		{fmt.Errorf("%w: %w", away, refused), "connection_refused"},
		{fmt.Errorf("%w: %w", away, os.ErrDeadlineExceeded), "timeout"},
		{late, "timeout"},
		{context.DeadlineExceeded, "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{syscall.ETIMEDOUT, "timeout"},
		{refused, "connection_refused"},
		{closedConn, "connection_lost"},
		{io.EOF, "connection_lost"},
		{io.ErrUnexpectedEOF, "connection_lost"},
		{syscall.ECONNRESET, "connection_lost"},
		{&net.DNSError{Err: "no such host", Name: "redis"}, "connection_lost"},
		{serverError("OOM command not allowed"), "script"},
		{serverError("i/o timeout"), "script"},
		{context.Canceled, "canceled"},
		{sluice.ErrCost, "cost"},
		{sluice.ErrCharge, "cost"},
		{&policy.CostError{Limit: "a", Reason: "connection refused"}, "cost"},
		{errors.New("dial tcp: connection refused"), "other"},
		{errors.New("context deadline exceeded"), "other"},
		{errors.Join(errors.New("first"), syscall.ECONNREFUSED), "connection_refused"},
	} {
		m := metrics.New(metrics.Options{Away: []error{io.ErrNoProgress, away}})
		store := m.Store(scripted{err: fmt.Errorf("redis: %w", tt.err)})
		if _, err := store.Take(t.Context(), nil, nil); !errors.Is(err, tt.err) {
			t.Errorf("Take = %v, want the error below, %v", err, tt.err)
		}
		want := map[string]float64{fmt.Sprintf(`sluice_store_errors_total{kind="%s",operation="take"}`, tt.kind): 1}
		if diff := cmp.Diff(want, nonzero(scrape(t, m), "sluice_store_errors_total")); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", tt.err, diff)
		}
	}
}

// able has every ability, and fails at all but one.
type able struct {
	scripted
}

func (a able) Settle(context.Context, []sluice.Settlement) error { return a.err }
func (a able) Forget(context.Context, []sluice.Charge) error     { return a.err }
func (able) Locate(*sluice.Charge) sluice.Place                  { return sluice.Place{Slot: 7, Node: "n"} }

func (a able) Register(context.Context, string, time.Duration) ([]string, error) {
	return []string{"me"}, a.err
}

func TestAbilities(t *testing.T) {
	m := metrics.New(metrics.Options{})
	store := m.Store(able{scripted{err: io.EOF}})
	if got, want := store.Locate(&sluice.Charge{}), (sluice.Place{Slot: 7, Node: "n"}); got != want {
		t.Errorf("Locate = %v, want %v", got, want)
	}
	live, err := store.Register(t.Context(), "me", time.Second)
	if len(live) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("Register = %v, %v, want what is below", live, err)
	}
	if err := store.Settle(t.Context(), nil); !errors.Is(err, io.EOF) {
		t.Errorf("Settle = %v, want %v", err, io.EOF)
	}
	if err := store.Forget(t.Context(), nil); !errors.Is(err, io.EOF) {
		t.Errorf("Forget = %v, want %v", err, io.EOF)
	}
	want := map[string]float64{
		`sluice_store_errors_total{kind="connection_lost",operation="register"}`: 1,
		`sluice_store_errors_total{kind="connection_lost",operation="settle"}`:   1,
		`sluice_store_errors_total{kind="connection_lost",operation="forget"}`:   1,
	}
	if diff := cmp.Diff(want, nonzero(scrape(t, m), "sluice_store_errors_total")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// TestNoAbilities: what a store cannot do is no error of the store.
func TestNoAbilities(t *testing.T) {
	m := metrics.New(metrics.Options{})
	store := m.Store(m.Store(bare{scripted{}}))
	if got := store.Locate(&sluice.Charge{Key: "a"}); got != (sluice.Place{}) {
		t.Errorf("Locate = %v, want the zero place", got)
	}
	_, register := store.Register(t.Context(), "me", time.Second)
	for name, err := range map[string]error{
		"Settle":   store.Settle(t.Context(), nil),
		"Forget":   store.Forget(t.Context(), nil),
		"Register": register,
	} {
		if !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%s = %v, want %v", name, err, sluice.ErrUnsupported)
		}
	}
	if got := nonzero(scrape(t, m), "sluice_store_errors_total"); len(got) > 0 {
		t.Errorf("errors = %v, want none", got)
	}
}

// TestShared makes instruments from many goroutines: stores of one height add
// up.
func TestShared(t *testing.T) {
	m := metrics.New(metrics.Options{NativeHistograms: true})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			store := m.Decisions(m.Store(scripted{}))
			for range 100 {
				if _, err := store.Take(t.Context(), nil, nil); err != nil {
					t.Error(err)
				}
			}
			m.Latency()(time.Millisecond)
		})
	}
	wg.Wait()
	series := scrape(t, m)
	for name, want := range map[string]float64{
		"sluice_store_duration_seconds_count":    800,
		"sluice_decision_duration_seconds_count": 808,
	} {
		if series[name] != want {
			t.Errorf("%s = %v, want %v", name, series[name], want)
		}
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	m := metrics.New(metrics.Options{})
	store := m.Decisions(m.Store(scripted{}))
	charges := []sluice.Charge{{Key: "a"}}
	dst := make([]sluice.Decision, 0, 1)
	if n := testing.AllocsPerRun(1000, func() { _, _ = store.Take(t.Context(), dst, charges) }); n != 0 {
		t.Errorf("Take allocates %v times, want 0", n)
	}
}
