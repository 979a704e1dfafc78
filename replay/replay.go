package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// Options say how logs are read and what is kept of them. The zero value is the
// default.
type Options struct {
	// Window is how far, in the log's time, lines may be out of order; later
	// ones are counted as late and decided at the time reached. 0 means two
	// minutes, less than 0 none; at most 31 days.
	Window time.Duration
	// WindowLines bounds the lines held back for the window; 0 means 1<<20.
	// Fewer are held if they are long: at most 96 MiB.
	WindowLines int
	// IPv6Prefix is how many bits of an IPv6 address tell one client from
	// another; 0 means 64.
	IPv6Prefix int
	// Fields names the fields of JSON logs whose names are not known: the name
	// in the log, with dots between nested names, and the attribute it holds:
	// time, ip, user, tenant, method, path, request, status, host, user_agent
	// or header:Referer. Every other field is an attribute of its own name.
	Fields map[string]string
	// Route gives the attribute "route" of a request; nil: it has none. The
	// path is as in the request: encoded, but without a query.
	Route func(method, path string) string
	// Top is how many keys of each limit a result lists; 0 means 10.
	Top int
	// MaxKeys bounds the keys counted one by one, for each limit, and the
	// counters of the store; 0 means 1<<20. A million keys take about 250 MB.
	MaxKeys int
	// Progress, if not nil, is called at most four times a second, and once at
	// the end, by the goroutine that reads.
	Progress func(Progress)
}

// Progress says how far the reading has come.
type Progress struct {
	// Lines is the lines read so far.
	Lines int64
	// Bytes is the bytes read so far, of Total, as they are in the files,
	// compressed or not. A Total of 0 means unknown.
	Bytes, Total int64
}

// withDefaults returns the options with the zero values spelled out.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Window == 0:
		o.Window = 2 * time.Minute
	case o.Window < 0:
		o.Window = 0
	case o.Window > longestWindow:
		return o, fmt.Errorf("window is %v: want at most 31 days", o.Window)
	}
	if o.WindowLines < 0 || o.Top < 0 || o.MaxKeys < 0 {
		return o, errors.New("window lines, top and max keys: want 1 or more, or 0 for the default")
	}
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		return o, fmt.Errorf("IPv6 prefix is %d: want 1 to 128, or 0 for 64", o.IPv6Prefix)
	}
	for name, attribute := range o.Fields {
		if _, ok := fieldNames[attribute]; !ok {
			return o, fmt.Errorf("field %s=%s: want an attribute of time, ip, user, tenant, method, path, request, status, host, user_agent or header:Referer", name, attribute)
		}
	}
	const million = 1 << 20
	o.WindowLines = orDefault(o.WindowLines, million)
	o.IPv6Prefix = orDefault(o.IPv6Prefix, 64)
	o.Top = orDefault(o.Top, 10)
	o.MaxKeys = orDefault(o.MaxKeys, million)
	return o, nil
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// A run decides the requests of a stream.
type run struct {
	o       *Options
	engine  *policy.Engine
	request policy.Request
	verdict policy.Verdict
	read    *attributes
	now     int64 // log time, Unix nanoseconds

	tallies  map[*policy.Limit]*tally
	result   Result
	timeline timeline
}

// Run reads the logs and decides every request as a gateway with these limits
// would have done. The result is never nil and holds what was decided until an
// error: of the context, which is looked at between lines, of the options, or
// of logs that could not be read to their end; the others are read on.
func Run(ctx context.Context, set *policy.Set, inputs []Input, o Options) (*Result, error) {
	began := time.Now()
	o, err := o.withDefaults()
	if err != nil {
		return &Result{}, err
	}
	r := &run{o: &o, tallies: map[*policy.Limit]*tally{}, read: newAttributes(&o, set.Attributes())}
	store := memory.New(memory.Options{
		// Each limit may have this many counters.
		MaxKeys: o.MaxKeys * max(1, len(set.Limits())),
		Now:     func() time.Time { return time.Unix(0, r.now) },
	})
	r.engine = policy.NewEngine(store, set)
	r.request = policy.Request{Attributes: r.read.get, N: 1}
	for i := range set.Limits() {
		limit := &set.Limits()[i]
		r.tallies[limit] = newTally(limit, o.MaxKeys)
	}
	s := newStream(inputs, &o, func(e *entry) error { return r.decide(ctx, e) })
	err = s.run(ctx)
	r.result.Evicted = store.Stats().Evicted
	r.finish(s, set.Limits())
	r.result.took(began)
	return &r.result, err
}

// decide decides one request at its time.
func (r *run) decide(ctx context.Context, e *entry) error {
	r.now, r.read.e = e.at, e
	if r.result.Requests == 0 {
		r.result.From = logTime(e.at)
	}
	r.result.Requests++
	if err := r.engine.Decide(ctx, r.request, &r.verdict); err != nil {
		return r.failed(err)
	}
	r.count()
	return nil
}

// failed counts a request that the caller got wrong; other errors end the run.
func (r *run) failed(err error) error {
	var cost *policy.CostError
	if !errors.As(err, &cost) {
		r.result.Requests--
		return err
	}
	r.result.CostErrors++
	if r.result.CostError == "" {
		r.result.CostError = cost.Error()
	}
	return nil
}

// count adds the verdict to the result.
func (r *run) count() {
	v := &r.verdict
	if v.Allowed {
		r.result.Allowed++
	} else {
		r.result.Refused++
	}
	if len(v.Results)+len(v.Unlimited) == 0 {
		r.result.Unmatched++
	}
	r.timeline.add(floorDiv(r.now, nanosPerSecond), v.Allowed)
	for i := range v.Results {
		r.tallies[v.Results[i].Limit].add(&v.Results[i], r.read, r.now)
	}
	for i := range v.Unlimited {
		r.tallies[v.Unlimited[i].Limit].unlimited++
	}
}
