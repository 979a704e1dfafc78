package redis

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
)

// limits is what the random histories charge: small and fast, so that every
// edge is met within a second, and some large ones.
var limits = []sluice.Limit{
	{Tokens: 10, Per: 50 * time.Millisecond},
	{Tokens: 3, Per: 7 * time.Millisecond, Burst: 12},
	{Tokens: 9999, Per: time.Second, Burst: 40},
	{Tokens: 5, Per: 15 * time.Minute},
	{Tokens: 8, Per: 20 * time.Millisecond, Algorithm: sluice.FixedWindow},
	{Tokens: 4, Per: 20 * time.Millisecond, Algorithm: sluice.FixedWindow},
	{Tokens: 1 << 32, Per: 30 * 24 * time.Hour, Algorithm: sluice.FixedWindow},
	{Tokens: 9, Per: 20 * time.Millisecond, Algorithm: sluice.SlidingWindow},
	{Tokens: 30, Per: 20 * time.Millisecond, Algorithm: sluice.SlidingWindow},
	{Tokens: 1 << 32, Per: 31 * 24 * time.Hour, Algorithm: sluice.SlidingWindow},
	{Tokens: 9, Per: 25 * time.Millisecond, Algorithm: sluice.SlidingLog},
	{Tokens: 40, Per: 25 * time.Millisecond, Algorithm: sluice.SlidingLog},
	{Tokens: 20, Per: 24 * time.Hour, Algorithm: sluice.SlidingLog},
	{Tokens: 50, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarDay, Zone: "Asia/Ho_Chi_Minh"}},
	{Tokens: 60, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarMonth}},
}

// The script and the specification get the same random calls, and must give
// the same answers and leave the same states, also while limits change and the
// server's clock is moved back and forth.
func TestScriptEqualsSpecification(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits []sluice.Limit
		jump   time.Duration
		own    bool // the caller's clock decides
	}{
		{name: "steady clock", limits: limits},
		// Half a million windows of the shortest limit.
		{name: "clock moved back and forth", limits: limits, jump: 2 * time.Hour},
		{name: "clock moved by months", limits: limits[:4], jump: 115 * 24 * time.Hour},
		{name: "calendar, clock moved by months", limits: limits[len(limits)-4:], jump: 115 * 24 * time.Hour},
		{name: "the caller's clock", limits: limits, own: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			h := newHistory(t, seed)
			h.limits = tt.limits
			h.store.callersTime = tt.own
			for step := range 4_000 {
				if tt.jump > 0 && step%100 == 99 {
					h.jump(t, tt.jump)
				}
				if h.rand.IntN(5) == 0 {
					h.settle(t)
				} else {
					h.take(t)
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
		})
	}
}

type history struct {
	rand   *rand.Rand
	limits []sluice.Limit
	clock  *servers.Clock
	server *servers.Redis
	store  *Store
	client rueidis.Client
	states map[string]*sluice.State
	given  []sluice.Settlement
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	clock, err := servers.NewClock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := clock.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := dial(t, server.Addr)
	return &history{
		rand:   rand.New(rand.NewPCG(seed, 1)),
		clock:  clock,
		server: server,
		client: client,
		store:  New(client, Options{}),
		states: map[string]*sluice.State{},
	}
}

func dial(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{addr},
		DisableRetry: true,
		DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// jump moves the clock by anything from a millisecond to most.
func (h *history) jump(t *testing.T, most time.Duration) {
	t.Helper()
	size := math.Pow(float64(most)/float64(time.Millisecond), h.rand.Float64())
	offset := time.Duration(size * float64(time.Millisecond))
	if h.rand.IntN(2) == 0 {
		offset = -offset
	}
	if h.rand.IntN(4) == 0 {
		offset = 0
	}
	h.forget(t)
	// Not before the epoch, where ticks are negative and keys expire at once.
	if err := h.clock.Move(max(offset, -200*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	h.forget(t)
}

// forget drops from the model what the server has let expire: states that mean
// nothing any more, which the same clock set back would bring to life again.
func (h *history) forget(t *testing.T) {
	t.Helper()
	for key := range h.states {
		n, err := h.client.Do(t.Context(), h.client.B().Exists().Key(key).Build()).ToInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			delete(h.states, key)
		}
	}
}

func (h *history) limit() sluice.Limit { return h.limits[h.rand.IntN(len(h.limits))] }

func (h *history) charges() []sluice.Charge {
	var charges []sluice.Charge
	group := 0
	simple := h.rand.IntN(3) == 0
	for range 1 + h.rand.IntN(5) {
		c := sluice.Charge{
			Key:   strconv.Itoa(h.rand.IntN(3)),
			Limit: h.limit(),
			Group: group,
		}
		if simple {
			c.Limit = h.limits[h.rand.IntN(min(4, len(h.limits)))]
			c.Key = strconv.Itoa(len(charges))
		}
		if h.rand.IntN(4) == 0 {
			c.Tag = "t}%"
		}
		// Limits of a key change from call to call, not within one.
		for _, other := range charges {
			if other.Key == c.Key && other.Tag == c.Tag && other.Limit.Kind() == c.Limit.Kind() {
				c.Limit = other.Limit
			}
		}
		c.N = h.rand.Int64N(min(c.Limit.Capacity(), 12) + 1)
		if c.N > 0 && h.rand.IntN(3) == 0 {
			c.Unit = 1 + h.rand.Int64N(c.N)
		}
		if h.rand.IntN(2) == 0 {
			group++
		}
		charges = append(charges, c)
	}
	return charges
}

func (h *history) take(t *testing.T) {
	t.Helper()
	charges := h.charges()
	if sluice.CheckCharges(charges) != nil {
		return
	}
	got, now := h.run(t, charges)
	if t.Failed() {
		return
	}
	meters, states := h.model(charges)
	want := sluice.Decide(nil, charges, meters, states, now)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Take(%+v) at %d: specification against script:\n%s", charges, now, diff)
	}
	for i := range charges {
		h.compare(t, &charges[i], &meters[i], states[i], now)
		if n := got[i].Granted; n > 0 {
			back := charges[i]
			back.N = -(1 + h.rand.Int64N(n))
			h.given = append(h.given, sluice.Settlement{Charge: back, From: got[i]})
		}
	}
}

// run asks the script, keeping the time that it read.
func (h *history) run(t *testing.T, charges []sluice.Charge) ([]sluice.Decision, int64) {
	t.Helper()
	q := h.store.request()
	if err := q.encode(h.store.prefix, charges); err != nil {
		t.Fatal(err)
	}
	r, err := h.store.run(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	now := r.now
	got, err := r.decode(nil, charges, q)
	if err != nil {
		t.Fatal(err)
	}
	return got, now
}

func (h *history) model(charges []sluice.Charge) ([]sluice.Meter, []*sluice.State) {
	var meters []sluice.Meter
	var states []*sluice.State
	for i := range charges {
		m, _ := charges[i].Limit.Meter()
		meters = append(meters, m)
		states = append(states, h.state(&charges[i]))
	}
	return meters, states
}

func (h *history) state(c *sluice.Charge) *sluice.State {
	key := string(appendKey(nil, "rl", c))
	if h.states[key] == nil {
		h.states[key] = new(sluice.State)
	}
	return h.states[key]
}

func (h *history) settle(t *testing.T) {
	t.Helper()
	s := sluice.Settlement{Charge: sluice.Charge{Key: strconv.Itoa(h.rand.IntN(3)), Limit: h.limit()}}
	s.Charge.N = 1 + h.rand.Int64N(60)
	if len(h.given) > 0 && h.rand.IntN(3) > 0 {
		i := h.rand.IntN(len(h.given))
		s = h.given[i]
		h.given = append(h.given[:i], h.given[i+1:]...)
	}
	q := h.store.request()
	if err := q.encodeSettle("rl", []sluice.Settlement{s}); err != nil {
		t.Fatal(err)
	}
	r, err := h.store.run(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := s.Charge.Limit.Meter()
	state := h.state(&s.Charge)
	sluice.Correct(state, &s, &m, r.now)
	h.compare(t, &s.Charge, &m, state, r.now)
}

// compare reads the state that the server holds and asks that it means what
// the model's does, and that it has a TTL that outlasts it, but not by much.
func (h *history) compare(t *testing.T, c *sluice.Charge, m *sluice.Meter, want *sluice.State, now int64) {
	t.Helper()
	key := string(appendKey(nil, "rl", c))
	raw, err := h.client.Do(t.Context(), h.client.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		raw, err = "", nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if raw == "" {
		// Time has passed since the call.
		if left := m.Reset(want, h.now(t)); left > sluice.DurationTicks(time.Millisecond) {
			t.Errorf("%s is gone %v before it is full", key, sluice.TicksDuration(left))
		}
		*want = sluice.State{}
		return
	}
	got := h.parse(t, c, m, raw, now)
	for _, n := range []int64{1, m.Capacity()} {
		if g, w := m.Wait(&got, now, n), m.Wait(want, now, n); g != w {
			t.Errorf("%s holds %+v, waits %d for %d; want %+v, %d", key, got, g, n, *want, w)
		}
	}
	if g, w := m.Reset(&got, now), m.Reset(want, now); g != w {
		t.Errorf("%s holds %+v, full in %d; want %+v, %d", key, got, g, *want, w)
	}
	h.checkTTL(t, key, m, want, now)
}

// now reads the server's clock.
func (h *history) now(t *testing.T) int64 {
	t.Helper()
	now, err := h.client.Do(t.Context(), h.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	return sluice.MicroTicks(now[0]*1_000_000 + now[1])
}

// checkTTL asks that a key lives as long as its state matters, and no longer
// than twice that and a little.
func (h *history) checkTTL(t *testing.T, key string, m *sluice.Meter, s *sluice.State, now int64) {
	t.Helper()
	ttl, err := h.client.Do(t.Context(), h.client.B().Pttl().Key(key).Build()).ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	left := sluice.TicksDuration(m.Reset(s, h.now(t)))
	if keeps := time.Duration(ttl) * time.Millisecond; ttl == -1 || ttl > 0 && keeps < left-2*time.Millisecond {
		t.Errorf("%s is kept for %d ms, and full in %v", key, ttl, left)
	}
}

// parse reads a stored value.
func (h *history) parse(t *testing.T, c *sluice.Charge, m *sluice.Meter, raw string, now int64) sluice.State {
	t.Helper()
	switch c.Limit.Algorithm {
	case sluice.TokenBucket:
		at, err := strconv.ParseInt(raw, 10, 64)
		if err != nil {
			t.Fatalf("bucket %q: %v", raw, err)
		}
		return sluice.State{Time: at}
	case sluice.SlidingLog:
		return parseLog(t, m, raw)
	}
	return parseWindow(t, c, m, raw, now)
}

func parseWindow(t *testing.T, c *sluice.Charge, m *sluice.Meter, raw string, now int64) sluice.State {
	t.Helper()
	var s sluice.State
	var number int64
	cycle := int64(1 << 20)
	if c.Limit.Algorithm == sluice.SlidingWindow {
		b := []byte(raw)
		number, cycle = int64(binary.BigEndian.Uint32(b)), 1<<32
		s.Count = int64(binary.BigEndian.Uint64(append(make([]byte, 3), b[4:9]...)))
		s.Prev = int64(binary.BigEndian.Uint64(append(make([]byte, 3), b[9:14]...)))
	} else {
		v, err := strconv.ParseInt(raw, 10, 64)
		if err != nil {
			t.Fatalf("window %q: %v", raw, err)
		}
		number, s.Count = v>>33, v&(1<<33-1)
	}
	// The window of that number nearest to now.
	start, end := m.Bounds(now)
	for range 500 {
		if (windowNumber(c, start)-number)%cycle == 0 {
			s.Time = start
			return s
		}
		if apart := ((number-windowNumber(c, start))%cycle + cycle) % cycle; apart < cycle/2 {
			if c.Limit.Calendar == (sluice.Calendar{}) {
				start += apart * (end - start)
				continue
			}
			_, start = m.Bounds(start)
		} else {
			start, _ = m.Bounds(start - 1)
		}
	}
	if s.Count == 0 && s.Prev == 0 {
		return s
	}
	// Long gone: as if never used.
	return sluice.State{}
}

func windowNumber(c *sluice.Charge, start int64) int64 {
	if c.Limit.Calendar != (sluice.Calendar{}) {
		return c.Limit.Calendar.Number(start)
	}
	return sluice.TicksTime(start).UnixMicro() / c.Limit.Per.Microseconds()
}

func parseLog(t *testing.T, m *sluice.Meter, raw string) sluice.State {
	t.Helper()
	if len(raw) < 24 {
		t.Fatalf("log of %d bytes", len(raw))
	}
	b := []byte(raw)
	newest := int64(math.Float64frombits(binary.BigEndian.Uint64(b)))
	base, head := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	count, ring := binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])
	if len(b) != int(24+4*ring) || count > ring {
		t.Fatalf("log of %d bytes says ring %d, count %d", len(b), ring, count)
	}
	s := sluice.State{Time: newest * m.Quantum()}
	for i := range count {
		entry := binary.BigEndian.Uint32(b[24+4*((head+i)%ring):])
		s.Log = append(s.Log, uint32(newest)-(base-entry))
	}
	return s
}
