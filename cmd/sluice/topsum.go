package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

// add sums what another instance told.
func (l *topLook) add(limits []hot.Limit) {
	for _, more := range limits {
		i := slices.IndexFunc(l.Limits, func(have hot.Limit) bool { return have.Name == more.Name })
		if i < 0 {
			l.Limits = append(l.Limits, more)
			continue
		}
		have := &l.Limits[i]
		have.Shadow = have.Shadow && more.Shadow
		have.Window, have.Every = max(have.Window, more.Window), max(have.Every, more.Every)
		have.Busiest = sumKeys(have.Busiest, more.Busiest)
		have.Refused = sumKeys(have.Refused, more.Refused)
	}
}

func sumKeys(have, more []hot.Key) []hot.Key {
	at := make(map[string]int, len(have))
	for i := range have {
		at[have[i].Key] = i
	}
	for _, k := range more {
		i, ok := at[k.Key]
		if !ok {
			have = append(have, k)
			continue
		}
		sum := &have[i]
		sum.Requests += k.Requests
		sum.Refused += k.Refused
		sum.Rate += k.Rate
		sum.RefusedRate += k.RefusedRate
		sources := maps.Clone(sum.Sources)
		for name, n := range k.Sources {
			if sources == nil {
				sources = make(map[string]uint64)
			}
			sources[name] += n
		}
		sum.Sources = sources
	}
	return have
}

// cut keeps the n first keys of each list, the most first.
func (l *topLook) cut(n int) {
	order := func(keys []hot.Key, by func(hot.Key) uint64) []hot.Key {
		slices.SortStableFunc(keys, func(a, b hot.Key) int {
			return cmp.Or(cmp.Compare(by(b), by(a)), strings.Compare(a.Key, b.Key))
		})
		return keys[:min(n, len(keys))]
	}
	for i := range l.Limits {
		limit := &l.Limits[i]
		limit.Busiest = order(limit.Busiest, func(k hot.Key) uint64 { return k.Requests })
		limit.Refused = order(limit.Refused, func(k hot.Key) uint64 { return k.Refused })
	}
}

// lines are a look as a table.
func (l *topLook) lines(now time.Time) []string {
	instances := fmt.Sprintf("%d instances", l.Instances)
	if l.Instances == 1 {
		instances = "1 instance"
	}
	lines := []string{"sluice top   " + now.Format(time.TimeOnly) + "   " + instances}
	for _, a := range l.Away {
		lines = append(lines, plain("away: "+a.Admin+": "+a.Error))
	}
	for i := range l.Limits {
		limit := &l.Limits[i]
		lines = append(lines, "", plain(title(limit)))
		if len(limit.Busiest) == 0 {
			lines = append(lines, "  no requests")
			continue
		}
		lines = append(lines, table("BUSIEST", limit.Busiest)...)
		if len(limit.Refused) > 0 {
			lines = append(lines, table("MOST REFUSED", limit.Refused)...)
		}
	}
	return lines
}

func title(l *hot.Limit) string {
	text := fmt.Sprintf("%s, the last %v", l.Name, (time.Duration(l.Window) * time.Millisecond).Round(time.Second))
	if l.Shadow {
		text += ", shadow"
	}
	if l.Every > 1 {
		text += fmt.Sprintf(", one request in %d counted for all", l.Every)
	}
	return text
}

func table(name string, keys []hot.Key) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  REQ/S\tREFUSED/S\tREQUESTS\tREFUSED\tSOURCE\t%s\n", name)
	for i := range keys {
		k := &keys[i]
		fmt.Fprintf(w, "  %d\t%d\t%d\t%s\t%s\t%s\n", k.Rate, k.RefusedRate, k.Requests, percent(k.Refused, k.Requests), source(k.Sources), plain(k.Key))
	}
	w.Flush() // to memory: it cannot fail
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func percent(n, of uint64) string {
	if of == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.1f%%", float64(n)/float64(of)*100)
}

// source tells who answered most, and how much of it all that was.
func source(sources map[string]uint64) string {
	best, total := "", uint64(0)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		total += sources[name]
		if best == "" || sources[name] > sources[best] {
			best = name
		}
	}
	if best == "" || sources[best] == total {
		return plain(best)
	}
	return plain(best) + " " + percent(sources[best], total)
}

// plain takes out of a text what would move a terminal's cursor. The servers hide
// it in keys already; what answers may be no server of ours.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, text)
}
