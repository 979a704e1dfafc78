package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-limiter/sluice"
)

const (
	maxName      = 64
	maxTolerance = sluice.MaxTolerance
	maxShards    = sluice.MaxShards
	million      = 1_000_000
)

// checkNames finds names that are missing, not safe in a key, or there twice.
func (c *compiler) checkNames(limits []Limit) {
	first := make(map[string]int, len(limits))
	for i := range limits {
		name := limits[i].Name
		if j, ok := first[name]; ok && name != "" {
			c.problem(i, -1, "name", "%q is the name of limits[%d]%s already: want another, since counters are kept by it", name, j, at(limits[j].Source))
			continue
		}
		first[name] = i
		switch {
		case name == "":
			c.problem(i, -1, "name", "missing: want a name such as tenant-route")
		case len(name) > maxName:
			c.problem(i, -1, "name", "has %d letters: want at most %d", len(name), maxName)
		case !isWord(name):
			c.problem(i, -1, "name", "%q: want letters, digits and _ . : / - between them", name)
		}
	}
}

// at returns " (sluice.yaml:12)", or nothing for a place that is not known.
func at(source string) string {
	if source == "" {
		return ""
	}
	return " (" + source + ")"
}

// isWord says whether a name is safe as part of a key: ASCII letters and
// digits, with _ . : / - between them.
func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_.:/-", rune(c))) {
			return false
		}
	}
	return s != ""
}

// checkAttribute says what is wrong with an attribute's name.
func checkAttribute(name string) string {
	switch {
	case name == "header:":
		return "header: lacks a name: want one such as header:X-Plan"
	case len(name) > maxName:
		return fmt.Sprintf("attribute of %d letters: want at most %d", len(name), maxName)
	case !isWord(name):
		return fmt.Sprintf("attribute %q: want a name such as tenant, ip or header:X-Plan", name)
	}
	return ""
}

// check finds what is wrong with one limit by itself, but for its conditions.
func (c *compiler) check(i int, l *Limit) {
	for j, name := range l.Key {
		if message := checkAttribute(name); message != "" {
			c.problem(i, -1, "key", "%s", message)
		}
		for _, other := range l.Key[:j] {
			if canonical(other) == canonical(name) {
				c.problem(i, -1, "key", "%s stands twice: want it once", name)
			}
		}
	}
	c.checkCost(i, l)
	if l.Unlimited && len(l.Overrides) == 0 {
		c.problem(i, -1, "limit", "unlimited without overrides limits nobody: want a rate such as 100/s, or overrides")
	}
	if int(l.OnFailure) >= len(failureNames) {
		c.problem(i, -1, "on_store_failure", "%v does not exist: want local, allow or deny", l.OnFailure)
	}
	own := rate{i, -1, l.Default, l.Unlimited, l.Tolerance, l.Shards}
	c.checkRate(own, l)
	for j := range l.Overrides {
		r := &l.Overrides[j]
		if len(r.Match) == 0 {
			c.problem(i, j, "match", "missing: want whom the override is for, such as {tenant: shop-a}; for everyone change the limit itself")
		}
		shards := r.spread(l)
		if r.Shards == 0 && checkShards(own, l.Default.Capacity()) != nil {
			shards = 0 // told once
		}
		c.checkRate(rate{i, j, r.Limit, r.Unlimited, r.Tolerance, shards}, l)
	}
}

// checkCost checks the bounds of a limit's cost against each other.
func (c *compiler) checkCost(i int, l *Limit) {
	cost := l.Cost
	if cost.Default < 0 || cost.Min < 0 || cost.Max < 0 {
		c.problem(i, -1, "cost", "a bound is negative: want at least 1")
		return
	}
	if cost.Attribute == "" {
		if cost.Min != 0 || cost.Max != 0 {
			c.problem(i, -1, "cost", "min and max bound what a header says: want header beside them, or only a default")
		}
		return
	}
	if message := checkAttribute(cost.Attribute); message != "" {
		c.problem(i, -1, "cost", "%s", message)
	}
	n := cost.normal()
	if n.Max < n.Min {
		c.problem(i, -1, "cost", "max %d is under min %d: want it at least as large", n.Max, n.Min)
	}
}

// A rate is what a limit and an override have in common.
type rate struct {
	limit, rule int
	value       sluice.Limit
	unlimited   bool
	tolerance   int64
	shards      int
}

// checkRate checks a rate, which may be that of an override of l.
func (c *compiler) checkRate(r rate, l *Limit) {
	fail := func(field, format string, args ...any) { c.problem(r.limit, r.rule, field, format, args...) }
	if r.unlimited {
		if r.tolerance != 0 || r.shards != 0 {
			fail("limit", "unlimited counts nothing: want no tolerance or shards beside it")
		}
		return
	}
	if err := r.value.Validate(); err != nil {
		// One line for each: a joined error has several.
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fail(fieldOf(line), "%s", line)
		}
		return
	}
	capacity := r.value.Capacity()
	if cost := l.Cost.normal(); cost.Default > capacity {
		fail("limit", "a request costs %d, which is over the %d that ever pass at once: want a larger burst or a smaller cost", cost.Default, capacity)
	} else if l.Cost.Attribute != "" && cost.Min > capacity {
		fail("limit", "a request costs at least %d, which is over the %d that ever pass at once: want a larger burst or a smaller min", cost.Min, capacity)
	}
	if err := checkTolerance(r, capacity); err != nil {
		fail("tolerance", "%v", err)
	}
	if err := checkShards(r, capacity); err != nil {
		fail("shards", "%v", err)
	}
}

// fieldOf returns the field that a message of sluice.Limit.Validate is about.
func fieldOf(message string) string {
	word, _, _ := strings.Cut(message, " ")
	switch {
	case word == "burst":
		return "burst"
	case strings.HasPrefix(message, "a calendar"), word == "calendar":
		return "calendar"
	case word == "algorithm":
		return "algorithm"
	}
	return "limit"
}

// checkTolerance checks what may be leased, which of a spread limit is a share of
// each of its parts.
func checkTolerance(r rate, capacity int64) error {
	switch {
	case r.tolerance == 0:
		return nil
	case r.tolerance < 0 || r.tolerance > maxTolerance:
		return fmt.Errorf("%s: want more than 0 and at most 50%%", share(r.tolerance))
	case r.value.Algorithm == sluice.SlidingLog:
		return errors.New("a sliding_log is exact and is never leased: want no tolerance, or another algorithm")
	case r.shards > 1 && int64(r.shards) <= capacity && r.tolerance*(capacity/int64(r.shards)) < million:
		part := capacity / int64(r.shards)
		return fmt.Errorf("%s of the %d of a shard is less than one token: want at least %s, fewer shards, or no tolerance", share(r.tolerance), part, leastShare(part))
	case r.tolerance*capacity < million:
		return fmt.Errorf("%s of %d is less than one token: want at least %s, or no tolerance", share(r.tolerance), capacity, leastShare(capacity))
	}
	return nil
}

// leastShare returns the least tolerance that makes a token, if there is one.
func leastShare(capacity int64) string {
	return share((million + capacity - 1) / capacity)
}

// share writes millionths as a percentage.
func share(millionths int64) string {
	if millionths < 0 {
		return "-" + share(-millionths)
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%04d", millionths/10_000, millionths%10_000), "0")
	return strings.TrimSuffix(s, ".") + "%"
}

func checkShards(r rate, capacity int64) error {
	switch {
	case r.shards == 0 || r.shards == 1:
		return nil
	case r.shards < 0 || r.shards > maxShards:
		return fmt.Errorf("%d: want 1 to %d", r.shards, maxShards)
	case r.value.Algorithm == sluice.SlidingLog:
		return errors.New("a sliding_log is exact only in one piece: want no shards, or another algorithm")
	case capacity < int64(r.shards):
		return fmt.Errorf("%d shares of %d hold less than one token each: want at most %d shards", r.shards, capacity, capacity)
	}
	// The first part is the largest.
	if err := r.value.Part(0, r.shards).Validate(); err != nil {
		return fmt.Errorf("a part in %d: %w", r.shards, err)
	}
	return nil
}
