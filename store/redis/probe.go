package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A Report is what a server was found able to do when the store connected.
type Report struct {
	// Node is the server's name, as Locate gives it.
	Node string
	// Server is "redis" or "valkey", Version its version; empty if it does not
	// say.
	Server, Version string
	// RoundTrip is the median of a few.
	RoundTrip time.Duration
	// Scripts says that the server runs scripts; without them nothing can be
	// decided there. TimeInScripts says that they may read its clock and then
	// write; without that the store decides by this machine's clock.
	Scripts, TimeInScripts bool
	// Eviction is the server's maxmemory-policy, MaxMemory its bound in bytes;
	// 0: none.
	Eviction  string
	MaxMemory int64
	// Warnings say what an operator should know, a sentence each.
	Warnings []string

	tried bool // the server answered what Scripts and TimeInScripts say
}

// probeTime bounds a probe.
const probeTime = time.Second

// Probe looks at the servers that decide, in at most a second each. It is for
// stores that [Open] made; those of [New] know no servers.
func (s *Store) Probe(ctx context.Context) ([]Report, error) {
	if s.link == nil {
		return nil, nil
	}
	session := s.link.session.Load()
	if session == nil {
		return nil, s.link.away()
	}
	var reports []Report
	for _, n := range session.topology.Load().owners() {
		reports = append(reports, s.link.probeWithin(ctx, session, n))
	}
	return reports, nil
}

func (l *link) probe(s *session, n *node) Report { return l.probeWithin(l.ctx, s, n) }

// probeWithin looks at a server and returns within probeTime. Its calls end a
// little sooner, by their context; but one that finds its connection lost dials
// again, and closing that can outlast any context, so nobody waits for it.
func (l *link) probeWithin(ctx context.Context, s *session, n *node) Report {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := make(chan Report, 1)
	l.wait.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probeTime*9/10)
		defer cancel()
		found <- l.examine(ctx, s, n)
	})
	select {
	case r := <-found:
		return r
	case <-ctx.Done():
		return Report{Node: n.name, Warnings: []string{"the server could not be looked at: " + ctx.Err().Error()}}
	}
}

func (l *link) examine(ctx context.Context, s *session, n *node) Report {
	p := probe{Report: Report{Node: n.name}, client: s.server(n)}
	if p.client == nil {
		p.warn("the server went away before it could be looked at")
		return p.Report
	}
	p.info(ctx)
	p.script(ctx, l.probeKey(s, n))
	p.trips(ctx, l.o.Budget)
	return p.Report
}

// server returns a client for one node.
func (s *session) server(n *node) rueidis.Client {
	clients := s.client.Nodes()
	if s.topology.Load().only == nil {
		return clients[n.name]
	}
	for _, client := range clients {
		return client
	}
	return nil
}

// probeKey returns a name that is no charge's, in a slot that the node answers
// for.
func (l *link) probeKey(s *session, n *node) string {
	t := s.topology.Load()
	for i := range 10 * slotCount {
		key := l.prefix + ":{" + strconv.Itoa(i) + "}probe"
		var h slotHash
		h.add(key)
		if t.only != nil || t.slots[h.slot()] == n {
			return key
		}
	}
	return l.prefix + ":probe"
}

// A probe is a look at one server.
type probe struct {
	Report
	client rueidis.Client
}

func (p *probe) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// info reads what the server says of itself.
func (p *probe) info(ctx context.Context) {
	var text strings.Builder
	for _, section := range []string{"server", "memory"} {
		part, err := p.client.Do(ctx, p.client.B().Info().Section(section).Build()).ToString()
		if err != nil {
			p.warn("the server does not describe itself, so its eviction policy is unknown: %v", err)
			return
		}
		text.WriteString(part)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	p.Server, p.Version = "redis", fields["redis_version"]
	if version := fields["valkey_version"]; version != "" || fields["server_name"] == "valkey" {
		p.Server, p.Version = "valkey", version
	}
	p.Eviction = fields["maxmemory_policy"]
	p.MaxMemory, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	p.eviction()
}

func (p *probe) eviction() {
	switch {
	case p.Eviction == "":
	case p.Eviction != "noeviction":
		p.warn("maxmemory-policy is %s: when memory is full the server drops counters, and what they counted may pass again; set noeviction", p.Eviction)
	case p.MaxMemory > 0:
		p.warn("memory is bounded to %d bytes: when it is full, calls fail and the limits' failure rules answer", p.MaxMemory)
	}
}

// probeScript does what every decision does: it reads the time, then writes.
const probeScript = `local t = redis.call('TIME') redis.call('SET', KEYS[1], t[1], 'PX', 1000) return t[1]`

func (p *probe) script(ctx context.Context, key string) {
	p.Scripts, p.TimeInScripts = true, true
	err := p.eval(ctx, probeScript, key)
	if err == nil {
		p.tried = true
		return
	}
	_, p.tried = rueidis.IsRedisErr(err)
	switch {
	case !p.tried:
		p.warn("scripts could not be tried: %v", err)
	case p.eval(ctx, "return 1", key) != nil:
		p.Scripts, p.TimeInScripts = false, false
		p.warn("the server refuses scripts, so nothing can be decided there: %v", err)
	case p.eval(ctx, "return redis.call('SET', KEYS[1], 1, 'PX', 1000)", key) != nil:
		p.warn("scripts cannot write, so nothing can be decided there: %v", err)
	default:
		p.TimeInScripts = false
		p.warn("the server refuses TIME in scripts, so the clocks of the instances decide: keep them in step (NTP), as each limit may be exceeded by its rate times their skew: %v", err)
	}
}

func (p *probe) eval(ctx context.Context, script, key string) error {
	return p.client.Do(ctx, p.client.B().Eval().Script(script).Numkeys(1).Key(key).Build()).Error()
}

// trips measures the round trip.
func (p *probe) trips(ctx context.Context, budget time.Duration) {
	var times []time.Duration
	for range 7 {
		start := time.Now()
		if err := p.client.Do(ctx, p.client.B().Ping().Build()).Error(); err != nil {
			p.warn("the round trip could not be measured: %v", err)
			return
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	p.RoundTrip = times[len(times)/2]
	if p.RoundTrip > budget/2 {
		p.warn("a round trip takes %v, over half of the budget of %v: many decisions will be made without the store", p.RoundTrip, budget)
	}
}
