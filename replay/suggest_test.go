package replay

import (
	"encoding/json"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-limiter/sluice"
)

// leastLimit finds a key's need the slow way: by bisection over whole replays
// with the root package's functions.
func leastLimit(y *yardstick, times []int64) int64 {
	refuses := func(n int64) bool {
		meter, err := y.limit(n).Meter()
		if err != nil {
			return true
		}
		state := int64(0)
		for _, at := range times {
			var d sluice.Decision
			if state, d = meter.Bucket(state, at, 1, 1); !d.Allowed {
				return true
			}
		}
		return false
	}
	return 1 + int64(sort.Search(len(times), func(i int) bool { return !refuses(int64(i) + 1) }))
}

func TestNeedIsExact(t *testing.T) {
	pers := []time.Duration{time.Millisecond, time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		y, err := newYardstick(rapid.SampledFrom(pers).Draw(t, "per"))
		if err != nil {
			t.Fatal(err)
		}
		// Steps around the time of a token, in ticks, with bursts and pauses.
		unit := max(1, y.per/rapid.Int64Range(1, 40).Draw(t, "rate"))
		steps := rapid.SliceOfN(rapid.OneOf(
			rapid.Just(int64(0)), rapid.Int64Range(0, 2*unit), rapid.Just(unit), rapid.Int64Range(0, 3*y.per),
		), 1, 200).Draw(t, "steps")
		now := sluice.Ticks(time.Date(2015, 5, 17, 0, 0, 0, 0, time.UTC))
		var times []int64
		var d need
		for _, step := range steps {
			now += step
			times = append(times, now)
			d.add(&y, now)
			if len(times)%37 != 0 && len(times) != len(steps) {
				continue
			}
			if want := leastLimit(&y, times); d.n != want {
				t.Fatalf("after %d requests: need = %d, want %d", len(times), d.n, want)
			}
		}
	})
}

func TestNeedIsBoundedByWhatALimitCanBe(t *testing.T) {
	y, err := newYardstick(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if y.most != 1000 {
		t.Fatalf("most = %d, want 1000 tokens a millisecond", y.most)
	}
	var d need
	for range 1000 {
		d.add(&y, 5)
	}
	if d.n != 1000 {
		t.Errorf("need = %d, want 1000", d.n)
	}
	d.add(&y, 5)
	if d.n != 1001 {
		t.Errorf("need = %d, want 1001, which is none", d.n)
	}
	d.add(&y, 6)
}

// TestSuggestHolds replays each proposal, and the limit one lower.
func TestSuggestHolds(t *testing.T) {
	for _, name := range logs(t) {
		s, err := Suggest(t.Context(), []string{"ip"}, []Input{open(t, name)}, SuggestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Proposals) != 4 {
			t.Fatalf("%d proposals, want 4", len(s.Proposals))
		}
		for _, p := range s.Proposals {
			r := replay(t, perIP(t, p.Limit.String()), Options{}, open(t, name))
			l := r.Limits[0]
			if l.KeysRefused != p.KeysRefused || l.Refused != p.Refused || l.Keys != s.Keys {
				t.Errorf("%s: %v: refused %d of %d keys, %d requests, proposed %d of %d, %d",
					name, p.Limit, l.KeysRefused, l.Keys, l.Refused, p.KeysRefused, s.Keys, p.Refused)
			}
			most := p.Share * float64(s.Keys)
			if float64(l.KeysRefused) > most {
				t.Errorf("%s: %v refuses %d keys, want at most %v", name, p.Limit, l.KeysRefused, most)
			}
			if p.Limit.Tokens == 1 {
				continue
			}
			lower := *p.Limit
			lower.Tokens--
			if l = replay(t, perIP(t, lower.String()), Options{}, open(t, name)).Limits[0]; float64(l.KeysRefused) <= most {
				t.Errorf("%s: %v would do for a share of %v, but %v was proposed", name, lower, p.Share, p.Limit)
			}
		}
	}
}

func TestSuggestBySeveralAttributesAndWithout(t *testing.T) {
	s, err := Suggest(t.Context(), []string{"user", "tenant"}, []Input{text(
		`{"ts":1700000000,"user":"u","tenant":"a"}`, `{"ts":1700000000,"user":"u","tenant":"b"}`,
		`{"ts":1700000000,"user":"u","tenant":"b"}`, `{"ts":1700000000,"ip":"192.0.2.1"}`)},
		SuggestOptions{Per: time.Hour, Shares: []float64{0.5, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests != 3 || s.Keys != 2 || s.WithoutKey != 1 || s.Per != "h" {
		t.Errorf("suggestion = %+v", s)
	}
	if half, none := s.Proposals[0], s.Proposals[1]; half.Limit.Tokens != 1 || half.KeysRefused != 1 || none.Limit.Tokens != 2 || none.Refused != 0 {
		t.Errorf("proposals = %+v, %+v", half, none)
	}
	encoded, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(encoded), `"limit":"2/h"`) {
		t.Errorf("JSON = %s, %v", encoded, err)
	}
}

func TestSuggestNoneIsEnough(t *testing.T) {
	var lines []string
	for range 1001 {
		lines = append(lines, at(0, "192.0.2.1"))
	}
	s, err := Suggest(t.Context(), []string{"ip"}, []Input{text(lines...)}, SuggestOptions{Per: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if s.Proposals[0].Limit != nil {
		t.Errorf("limit = %v, want none", s.Proposals[0].Limit)
	}
	var b strings.Builder
	if err := s.WriteTable(&b); err != nil || !strings.Contains(b.String(), "none is enough") {
		t.Errorf("table = %s, %v", b.String(), err)
	}
}

func TestSuggestOptionsThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		key []string
		o   SuggestOptions
	}{
		{nil, SuggestOptions{}},
		{[]string{"ip"}, SuggestOptions{Shares: []float64{1}}},
		{[]string{"ip"}, SuggestOptions{Shares: []float64{-0.1}}},
		{[]string{"ip"}, SuggestOptions{Per: time.Nanosecond}},
		{[]string{"ip"}, SuggestOptions{Options: Options{Top: -1}}},
	} {
		if s, err := Suggest(t.Context(), tt.key, nil, tt.o); err == nil || s == nil {
			t.Errorf("Suggest(%v, %+v) = %v, %v, want an error", tt.key, tt.o, s, err)
		}
	}
}

func TestSpool(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var s spool
	const n = 2*spoolBytes/recordBytes + 7
	for i := range n {
		if err := s.add(int32(i%1000), -int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		i := 0
		err := s.each(func(key int32, at int64) {
			if key != int32(i%1000) || at != -int64(i) {
				t.Fatalf("request %d = %d at %d", i, key, at)
			}
			i++
		})
		if err != nil || i != n {
			t.Fatalf("%d requests, %v, want %d", i, err, n)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
