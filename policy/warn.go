package policy

import (
	"fmt"
	"slices"

	"github.com/sluice-limiter/sluice"
)

// maxWarnings bounds what is said of one set.
const maxWarnings = 100

// warn collects what may not be meant.
func (s *Set) warn() {
	var all []problem
	note := func(limit, rule int, field, format string, args ...any) {
		all = append(all, problem{limit, rule, field, fmt.Sprintf(format, args...)})
	}
	for i := range s.limits {
		l := &s.limits[i]
		if l.Shadow && l.OnFailure != FailLocal {
			note(i, -1, "on_store_failure", "has no effect on a shadow limit, which never refuses")
		}
		if loss := rounding(l.Default, l.Unlimited); loss != "" {
			note(i, -1, "limit", "%s", loss)
		}
		if several := severalShards(l.Limit); several != "" {
			note(i, -1, "shards", "%s", several)
		}
		for j := range l.Overrides {
			r := &l.Overrides[j]
			if loss := rounding(r.Limit, r.Unlimited); loss != "" {
				note(i, j, "limit", "%s", loss)
			}
			if name := l.outsideKey(r); name != "" {
				note(i, j, "match", "%s is not in the key of the limit, so that one counter is held to several limits: want it in the key too", name)
			}
			if first, ok := l.hider(s, j); ok {
				note(i, j, "match", "%s", hiddenMessage(l.Limit, first))
			}
		}
	}
	for n := range all {
		if n == maxWarnings {
			s.warnings = append(s.warnings, fmt.Sprintf("and %d warnings more", len(all)-n))
			break
		}
		s.warnings = append(s.warnings, all[n].describe(s.source))
	}
}

// rounding tells of a token bucket that runs over 0.1% slower than written,
// since the time of one token is a whole number of ticks.
func rounding(l sluice.Limit, unlimited bool) string {
	if unlimited || l.Algorithm != sluice.TokenBucket {
		return ""
	}
	want := float64(l.Tokens) / l.Per.Seconds()
	got := l.EffectiveRate()
	if got >= want*0.999 {
		return ""
	}
	return fmt.Sprintf("%v runs at %.0f/s, %.1f%% slower, since the time of one token is rounded up", l, got, (1-got/want)*100)
}

// severalShards tells of a limit whose usual request asks several shards at once,
// which is against their purpose.
func severalShards(l *Limit) string {
	if l.Unlimited || l.Shards < 2 {
		return ""
	}
	part, cost := l.Default.Capacity()/int64(l.Shards), l.Cost.normal().Default
	if cost <= part {
		return ""
	}
	return fmt.Sprintf("a request costs %d and a shard holds %d, so that each asks several: want fewer shards", cost, part)
}

// outsideKey returns an attribute by which an override parts requests that
// share a counter.
func (l *compiled) outsideKey(r *Rule) string {
	for _, m := range r.Match {
		fixed := slices.ContainsFunc(l.Match, func(c Condition) bool { return c.Attribute == m.Attribute })
		if !slices.Contains(l.Key, m.Attribute) && !fixed && !r.Unlimited {
			return m.Attribute
		}
	}
	return ""
}

func hiddenMessage(l *Limit, first int) string {
	return fmt.Sprintf("never wins, since overrides[%d]%s matches all of it and stands before: want only one, or the narrower one first", first, at(l.Overrides[first].Source))
}
