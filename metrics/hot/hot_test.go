package hot

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A shop decides requests and has them observed. Its clock stands still until it
// is moved.
type shop struct {
	*Keys
	t      testing.TB
	engine *policy.Engine
	time   time.Duration
}

func set(t testing.TB, limits ...policy.Limit) *policy.Set {
	t.Helper()
	s, err := policy.NewSet(limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tenants(name string, tokens int64, shadow bool) policy.Limit {
	return policy.Limit{
		Name: name, Key: []string{"tenant"}, Shadow: shadow,
		Default: sluice.Limit{Tokens: tokens, Per: 1000 * time.Hour, Algorithm: sluice.FixedWindow},
	}
}

func newShop(t testing.TB, limits ...policy.Limit) *shop {
	s := &shop{t: t, engine: policy.NewEngine(memory.New(memory.Options{}), set(t, limits...))}
	s.Keys = newKeys(s.engine.Set, func() time.Duration { return s.time })
	return s
}

// ask asks n times for a tenant.
func (s *shop) ask(tenant string, n int) {
	s.t.Helper()
	var v policy.Verdict
	for range n {
		err := s.engine.Decide(s.t.Context(), policy.Request{Attributes: func(string) string { return tenant }, N: 1}, &v)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Observe(nil, &v, nil)
	}
}

func TestTop(t *testing.T) {
	s := newShop(t, tenants("a", 5, false), tenants("b", 3, true))
	s.ask("big", 8)
	s.time = 1500 * time.Millisecond
	s.ask("small", 4)
	s.time = 2 * time.Second
	want := []Limit{
		{
			Name: "a", Window: 2000, Every: 1,
			Busiest: []Key{
				{Key: "a|tenant=big", Requests: 8, Refused: 3, Sources: map[string]uint64{"store": 8}},
				{Key: "a|tenant=small", Requests: 4, Rate: 4, Sources: map[string]uint64{"store": 4}},
			},
			Refused: []Key{{Key: "a|tenant=big", Requests: 8, Refused: 3, Sources: map[string]uint64{"store": 8}}},
		},
		{
			Name: "b", Shadow: true, Window: 2000, Every: 1,
			Busiest: []Key{{Key: "b|tenant=big", Requests: 8, Refused: 5, Sources: map[string]uint64{"store": 8}}},
			Refused: []Key{{Key: "b|tenant=big", Requests: 8, Refused: 5, Sources: map[string]uint64{"store": 8}}},
		},
	}
	got := s.Top(10)
	got[1].Busiest, got[1].Refused = got[1].Busiest[:1], got[1].Refused[:1]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Top(10) (-want +got):\n%s", diff)
	}
	if got := s.Top(1)[0]; len(got.Busiest) != 1 || got.Busiest[0].Key != "a|tenant=big" {
		t.Errorf("Top(1) = %+v", got)
	}
	// Also while it passes.
	s.engine.Swap(set(t, tenants("a", 100, false)))
	s.ask("big", 7)
	got = s.Top(10)
	if len(got) != 1 || got[0].Refused[0].Requests != 15 || got[0].Refused[0].Refused != 3 || got[0].Busiest[0].Requests != 15 {
		t.Errorf("after a reload: %+v, want the counts of a kept, and b gone", got)
	}
}

// A key that is refused is followed also while it passes and is not among the busy.
func TestRefusedAndNotBusy(t *testing.T) {
	s := newSketch(0)
	k := newKeys(nil, nil)
	s.observe(k.seed, 0, "rare", true, 0)
	for i := range 20 * maxEntries {
		s.observe(k.seed, 0, fmt.Sprint("busy", i%(2*maxEntries)), false, 0)
	}
	s.observe(k.seed, 0, "rare", false, 0)
	got := s.tell(0, 1).Refused
	if len(got) != 1 || got[0].Key != "rare" || got[0].Requests != 2 || got[0].Refused != 1 {
		t.Errorf("most refused: %+v, want 1 of 2 requests of one key", got)
	}
}

func TestWhatDoesNotCount(t *testing.T) {
	s := newShop(t, tenants("a", 5, false))
	var v policy.Verdict
	if err := s.engine.Decide(t.Context(), policy.Request{}, &v); err != nil {
		t.Fatal(err)
	}
	s.Observe(nil, &v, nil) // a peek
	s.Observe(nil, &v, errors.New("undecided"))
	if got := s.Top(10); len(got) != 1 || len(got[0].Busiest) != 0 || len(got[0].Refused) != 0 {
		t.Errorf("Top(10) = %+v, want no keys", got)
	}
	if got := newKeys(func() *policy.Set { return nil }, func() time.Duration { return 0 }).Top(10); got != nil {
		t.Errorf("Top of no set = %+v", got)
	}
}

// TestTheWindow: counts look back from half a minute to a minute, rates a second.
func TestTheWindow(t *testing.T) {
	s := newShop(t, tenants("a", 1, false))
	for _, tt := range []struct {
		at             time.Duration
		ask            int
		requests, rate uint64
		window         int64
	}{
		{0, 3, 3, 0, 0},
		{time.Second, 2, 5, 3, 1000},
		{2 * time.Second, 0, 5, 2, 2000},
		{3 * time.Second, 0, 5, 0, 3000},
		{29 * time.Second, 10, 15, 0, 29_000},
		{30 * time.Second, 1, 16, 10, 30_000},
		{31 * time.Second, 0, 16, 1, 31_000},
		{60 * time.Second, 1, 2, 0, 60_000 - 30_000},
		{61 * time.Second, 4, 6, 1, 31_000},
		{200 * time.Second, 0, 0, 0, 0},
		{201 * time.Second, 1, 1, 0, 1000},
	} {
		s.time = tt.at
		s.ask("x", tt.ask)
		var got Key
		told := s.Top(1)[0]
		if len(told.Busiest) > 0 {
			got = told.Busiest[0]
		}
		if got.Requests != tt.requests || got.Rate != tt.rate || told.Window != tt.window {
			t.Errorf("at %v: %d requests, %d a second, in %d ms, want %d, %d, %d", tt.at, got.Requests, got.Rate, told.Window, tt.requests, tt.rate, tt.window)
		}
	}
}

// TestManyRequests: of more than are counted a part stands for all.
func TestManyRequests(t *testing.T) {
	s := newSketch(0)
	k := newKeys(nil, nil)
	const perSecond = 200_000
	for second := range 4 {
		for i := range perSecond {
			if !s.skip() {
				s.observe(k.seed, time.Duration(second)*time.Second+time.Duration(i)*time.Second/perSecond, "key", i%4 == 0, 0)
			}
		}
	}
	told := s.tell(4*time.Second, 1)
	key := told.Busiest[0]
	near := func(got, want uint64) bool { return got > want*9/10 && got < want*11/10 }
	if told.Every < 8 || told.Every > 12 || !near(key.Requests, 4*perSecond) || !near(key.Refused, perSecond) || !near(key.Rate, perSecond) {
		t.Errorf("%+v, want about one in ten counted, 800000 requests, 200000 refused, 200000 a second", told)
	}
	s.tell(10*time.Second, 1)
	if every := s.every.Load(); every != 1 {
		t.Errorf("after a pause one in %d is counted, want each", every)
	}
}

func TestLongKeys(t *testing.T) {
	s := newSketch(0)
	k := newKeys(nil, nil)
	s.observe(k.seed, 0, strings.Repeat("x", maxKey-1)+"é", false, sluice.Source(9))
	s.observe(k.seed, 0, strings.Repeat("x", maxKey-1)+"è", false, 0)
	got := s.tell(0, 9).Busiest
	if len(got) != 2 || !utf8.ValidString(got[0].Key) || len(got[0].Key) > maxKey+3 || got[0].Sources["other"]+got[1].Sources["other"] != 1 {
		t.Errorf("two long keys: %+v", got)
	}
}

// TestFixedMemory: however many keys come, as many are kept, and once the memory is
// there no more is asked for.
func TestFixedMemory(t *testing.T) {
	s := newSketch(0)
	k := newKeys(nil, nil)
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprint("a|tenant=", i)
	}
	i := 0
	step := func() {
		s.observe(k.seed, 0, names[i%len(names)], i%2 == 0, 0)
		i++
	}
	for range 2 * len(names) {
		step()
	}
	if n := testing.AllocsPerRun(5000, step); n != 0 {
		t.Errorf("a request allocates %v times, want 0", n)
	}
	if n := len(s.busy[0].entries); n != maxEntries {
		t.Errorf("%d keys are kept, want %d", n, maxEntries)
	}
}

func TestManyAtOnce(t *testing.T) {
	s := newShop(t, tenants("a", 5, false))
	var v policy.Verdict
	if err := s.engine.Decide(t.Context(), policy.Request{Attributes: func(string) string { return "x" }, N: 1}, &v); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 1000 {
				s.Observe(nil, &v, nil)
			}
		})
	}
	wait.Go(func() {
		for range 100 {
			s.Top(3)
			s.engine.Swap(set(t, tenants("a", 5, false), tenants("b", 5, false)))
		}
	})
	wait.Wait()
	if got := s.Top(1)[0].Busiest; len(got) != 1 || got[0].Requests == 0 || got[0].Requests > 4000 {
		t.Errorf("%+v, want most of 4000 requests", got)
	}
}

// BenchmarkDecide shows what observing costs a decision in memory, the cheapest
// there is.
func BenchmarkDecide(b *testing.B) {
	limits := []policy.Limit{tenants("a", 1<<30, false)}
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprint("observed ", observed), func(b *testing.B) {
			engine := policy.NewEngine(memory.New(memory.Options{}), set(b, limits...))
			keys := New(engine.Set)
			names := make([]string, 1<<14)
			draw := zipf(1)
			for i := range names {
				names[i] = strings.Clone(draw())
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var v policy.Verdict
				i := 0
				attributes := func(string) string { return names[i%len(names)] }
				for pb.Next() {
					i++
					_ = engine.Decide(b.Context(), policy.Request{Attributes: attributes, N: 1}, &v)
					if observed {
						keys.Observe(nil, &v, nil)
					}
				}
			})
		})
	}
}

// BenchmarkObserve shows what counting costs by itself: each request, as with
// little traffic, and those that others stand for.
func BenchmarkObserve(b *testing.B) {
	names := make([]string, 1<<16)
	draw := zipf(1)
	for i := range names {
		names[i] = draw()
	}
	b.Run("counted", func(b *testing.B) {
		s, k := newSketch(0), New(nil)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			s.every.Store(1)
			if !s.skip() {
				s.observe(k.seed, k.now(), names[i%len(names)], false, 0)
			}
		}
	})
	b.Run("at full speed", func(b *testing.B) {
		s, k := newSketch(0), New(nil)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			if !s.skip() {
				s.observe(k.seed, k.now(), names[i%len(names)], false, 0)
			}
		}
	})
}
