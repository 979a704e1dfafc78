package rules

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// WriteFile writes rows as a YAML file of rules, which [ReadFile] reads.
func WriteFile(w io.Writer, rows []policy.Row) error {
	b := bufio.NewWriter(w)
	if len(rows) == 0 {
		fmt.Fprintln(b, "rules: []")
		return b.Flush()
	}
	fmt.Fprintln(b, "rules:")
	for i := range rows {
		r := RuleOf(rows[i])
		fmt.Fprintf(b, "  - {tenant: %s, route: %s, rate: %s", scalar(r.Tenant), scalar(r.Route), scalar(r.Rate))
		if rows[i].Capacity != rows[i].Refill {
			fmt.Fprintf(b, ", burst: %d", r.Burst)
		}
		if r.Limit != "" {
			fmt.Fprintf(b, ", limit: %s", scalar(r.Limit))
		}
		if r.Algorithm != "" {
			fmt.Fprintf(b, ", algorithm: %s", scalar(r.Algorithm))
		}
		if !r.Expires.IsZero() {
			fmt.Fprintf(b, ", expires: %s", scalar(r.Expires.UTC().Format(time.RFC3339Nano)))
		}
		fmt.Fprintln(b, "}")
	}
	return b.Flush()
}

// scalar writes a text so that YAML reads nothing else from it. YAML knows all
// escapes that Go writes.
func scalar(s string) string {
	if isPlain(s) {
		return s
	}
	return strconv.Quote(s)
}

// isPlain says whether a text needs no quotes: it begins with a letter, or is a
// rate, and is no word that YAML gives a meaning to.
func isPlain(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && !(digit && (i > 0 || strings.Contains(s, "/"))) && (i == 0 || strings.IndexByte("_-./", c) < 0) {
			return false
		}
	}
	return true
}

// ReadFile reads a YAML file of rules; path is for the errors, which name the
// line of each mistake. With a set, what would not count beside its limits is a
// mistake too; nil is no set.
func ReadFile(path string, data []byte, set *policy.Set) ([]policy.Row, error) {
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		return nil, err
	}
	list := doc.Root().Mapping("rules").Need("rules", "a list of rules such as {tenant: shop-a, route: create-order, rate: 100/s, burst: 200}")
	items := list.Items()
	rows := make([]policy.Row, 0, len(items))
	places := make(map[spot]strictyaml.Node, len(items))
	for _, item := range items {
		row, ok := readRule(item, set)
		if !ok {
			continue
		}
		if first, twice := places[spotOf(&row)]; twice {
			item.Problem("a second rule for what %s is for: want one", first.Source())
			continue
		}
		places[spotOf(&row)] = item
		rows = append(rows, row)
	}
	return rows, doc.Err()
}

// readRule reads one rule; false if it has a mistake.
func readRule(n strictyaml.Node, set *policy.Set) (policy.Row, bool) {
	m := n.Mapping("tenant", "route", "rate", "burst", "limit", "algorithm", "expires")
	r := Rule{
		Tenant:    m.Need("tenant", "a value, or * for any").TextAs("text"),
		Route:     m.Need("route", "a value, or * for any").TextAs("text"),
		Rate:      m.Need("rate", "a rate such as 100/s").TextAs("a rate such as 100/s"),
		Burst:     m.Get("burst").Int(0, 1, sluice.MaxTokens),
		Limit:     m.Get("limit").Text(),
		Algorithm: m.Get("algorithm").Text(),
	}
	if expires := m.Get("expires"); expires.Exists() {
		var err error
		if r.Expires, err = time.Parse(time.RFC3339, expires.Text()); err != nil {
			expires.Problem("want a time such as 2026-01-02T15:04:05Z")
		}
	}
	for _, name := range []string{"tenant", "route", "rate"} {
		if !m.Get(name).IsText() {
			return policy.Row{}, false // told already
		}
	}
	row, err := r.Row(set)
	if err != nil {
		field := &FieldError{"rate", err}
		errors.As(err, &field)
		m.Problem(field.Field, "%v", field.Err)
		return policy.Row{}, false
	}
	return row, true
}
