package replay

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// SuggestOptions say what limits to look for. The zero value is the default.
type SuggestOptions struct {
	Options
	// Per is the period of the limits; 0 means a minute.
	Per time.Duration
	// Shares are the shares of keys that may ever be refused, from 0 to less
	// than 1; nil means 0, 0.1%, 1% and 5%.
	Shares []float64
}

// A Suggestion proposes limits for requests that share a counter by a key.
type Suggestion struct {
	Key       []string `json:"key"`
	Algorithm string   `json:"algorithm"` // token_bucket
	Per       string   `json:"per"`
	Requests  int64    `json:"requests"` // that have the key
	Keys      int64    `json:"keys"`
	// WithoutKey is the requests without any of the key's attributes, which
	// are left out.
	WithoutKey int64 `json:"without_key"`
	// BeyondKeys is the requests of keys beyond Options.MaxKeys, left out too.
	BeyondKeys int64      `json:"beyond_keys,omitempty"`
	BadLines   int64      `json:"bad_lines"`
	LateLines  int64      `json:"late_lines"`
	Proposals  []Proposal `json:"proposals"`
	Took       float64    `json:"took_s"`
}

// A Proposal is the lowest limit that refuses at most a share of the keys.
type Proposal struct {
	// Share is the most keys, of all, that may ever be refused.
	Share float64 `json:"share"`
	// Limit is a token bucket whose burst is its tokens; nil if no valid limit
	// is high enough.
	Limit *sluice.Limit `json:"limit"`
	// KeysRefused and Refused are the keys ever refused at the limit and the
	// requests refused.
	KeysRefused int64 `json:"keys_refused"`
	Refused     int64 `json:"refused"`
}

// Suggest reads the logs and proposes limits for a key: for each share of keys
// the lowest n of a token bucket "n per period, burst n" at which at most that
// share would ever have been refused a request. It is exact: each key's own
// least n is computed, and the proposals are replayed. Requests cost one token.
// The logs are read once; the times are kept in a temporary file of twelve
// bytes a request if there are more than a million.
func Suggest(ctx context.Context, key []string, inputs []Input, o SuggestOptions) (*Suggestion, error) {
	began := time.Now()
	s, err := newSuggester(key, o)
	if err != nil {
		return &Suggestion{}, err
	}
	stream := newStream(inputs, &s.o.Options, s.add)
	err = stream.run(ctx)
	err = errors.Join(err, s.propose(), s.spool.close())
	s.result.BadLines, s.result.LateLines = stream.badAll, stream.order.late
	s.result.Took = time.Since(began).Seconds()
	return &s.result, err
}

// A suggester collects what each key needs.
type suggester struct {
	o      SuggestOptions
	y      yardstick
	read   *attributes
	keys   *tally // finds a key's number
	needs  []need // beside the keys
	spool  spool
	result Suggestion
}

func newSuggester(key []string, o SuggestOptions) (*suggester, error) {
	var err error
	if o.Options, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if o.Per == 0 {
		o.Per = time.Minute
	}
	if o.Shares == nil {
		o.Shares = []float64{0, 0.001, 0.01, 0.05}
	}
	for _, share := range o.Shares {
		if !(share >= 0 && share < 1) {
			return nil, fmt.Errorf("share of keys is %v: want 0 to less than 1", share)
		}
	}
	if len(key) == 0 {
		return nil, errors.New("no key to suggest a limit for: want attributes such as ip")
	}
	s := &suggester{o: o, read: newAttributes(&o.Options, nil), keys: newTally(&policy.Limit{Key: key}, o.MaxKeys)}
	if s.y, err = newYardstick(o.Per); err != nil {
		return nil, err
	}
	one := s.y.limit(1).String()
	s.result = Suggestion{
		Key: key, Algorithm: sluice.TokenBucket.String(), Per: one[strings.IndexByte(one, '/')+1:],
		Proposals: []Proposal{},
	}
	return s, nil
}

// add counts a request to its key.
func (s *suggester) add(e *entry) error {
	s.read.e = e
	if !slices.ContainsFunc(s.keys.limit.Key, func(name string) bool { return s.read.get(name) != "" }) {
		s.result.WithoutKey++
		return nil
	}
	i, ok := s.keys.find(s.read)
	if !ok {
		s.result.BeyondKeys++
		return nil
	}
	if i == len(s.needs) {
		s.needs = append(s.needs, need{})
	}
	s.result.Requests++
	now := sluice.Ticks(time.Unix(0, e.at))
	s.needs[i].add(&s.y, now)
	return s.spool.add(int32(i), now)
}

// propose finds the proposals and replays them.
func (s *suggester) propose() error {
	s.result.Keys = int64(len(s.needs))
	if len(s.needs) == 0 {
		return nil
	}
	needs := make([]int64, len(s.needs))
	for i := range s.needs {
		needs[i] = s.needs[i].n
	}
	slices.SortFunc(needs, func(a, b int64) int { return cmp.Compare(b, a) })
	var trials []*trial
	for _, share := range s.o.Shares {
		// Rounding must not lose a key to 0.001 x 1000 = 0.9999...
		refused := int(math.Floor(share*float64(len(needs)) + 1e-9))
		p := Proposal{Share: share}
		if n := needs[refused]; n <= s.y.most {
			limit := s.y.limit(n)
			meter, err := limit.Meter()
			if err != nil {
				return err
			}
			p.Limit = &limit
			trials = append(trials, &trial{
				proposal: len(s.result.Proposals), meter: meter,
				states: make([]int64, len(needs)), refused: make([]bool, len(needs)),
			})
		}
		s.result.Proposals = append(s.result.Proposals, p)
	}
	return s.try(trials)
}

// A trial is the replay of a proposal.
type trial struct {
	proposal int
	meter    sluice.Meter
	states   []int64 // by key
	refused  []bool
}

func (s *suggester) try(trials []*trial) error {
	return s.spool.each(func(key int32, at int64) {
		for _, t := range trials {
			next, d := t.meter.Bucket(t.states[key], at, 1, 1)
			t.states[key] = next
			if d.Allowed {
				continue
			}
			p := &s.result.Proposals[t.proposal]
			p.Refused++
			if !t.refused[key] {
				t.refused[key] = true
				p.KeysRefused++
			}
		}
	})
}

// WriteTable writes the suggestion for people.
func (s *Suggestion) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s of %s by %s", plural(s.Requests, "request"), plural(s.Keys, "key"),
		printable(strings.Join(s.Key, ", ")))
	for _, left := range [...]struct {
		n    int64
		text string
	}{
		{s.WithoutKey, "without it, left out"},
		{s.BeyondKeys, "of keys beyond the most kept, left out"},
	} {
		if left.n > 0 {
			fmt.Fprintf(out, "; %s %s", grouped(left.n), left.text)
		}
	}
	if s.BadLines > 0 {
		fmt.Fprintf(out, "; %s", plural(s.BadLines, "bad line"))
	}
	if s.LateLines > 0 {
		fmt.Fprintf(out, "; %s", plural(s.LateLines, "late line"))
	}
	fmt.Fprint(out, "\n\n")
	if s.Keys == 0 {
		fmt.Fprintf(out, "Note: no request in the logs has %s.\n", printable(strings.Join(s.Key, ", ")))
		return out.Flush()
	}
	t := table{right: []bool{true, true, true, true, true, true}}
	t.add("MAY BE REFUSED", "LIMIT", "KEYS REFUSED", "", "REQUESTS REFUSED", "")
	for _, p := range s.Proposals {
		limit := "none is enough"
		if p.Limit != nil {
			limit = p.Limit.String()
		}
		t.add(fmt.Sprintf("%.4g%% of keys", p.Share*100), limit, grouped(p.KeysRefused), percent(p.KeysRefused, s.Keys),
			grouped(p.Refused), percent(p.Refused, s.Requests))
	}
	t.write(out, "")
	fmt.Fprint(out, "\nEach limit is a token bucket whose burst is its tokens, and the lowest that refuses no more keys.\n")
	return out.Flush()
}
