package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// memoryUse weighs what Redis keeps of a user whose limit is used up.
var memoryUse = Experiment{
	Name:  "memory",
	Does:  "bytes that Redis keeps of a user, for each algorithm and for the usual ways to store it",
	Takes: 5 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runMemory(ctx, progress, 100, 10_000)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "sliding_log 100", Column: "bytes_per_key", Max: 700, Reference: "1,499"},
		{Row: "sliding_window 100", Column: "bytes_per_key", Max: 104, Reference: "121 to 171"},
		{Row: "token_bucket 100", Column: "bytes_per_key", Max: 72, Reference: "121 to 171"},
		{Row: "fixed_window 100", Column: "bytes_per_key", Max: 72, Reference: "121 to 171"},
		{Row: "sliding_log 10,000", Column: "bytes_per_key", Max: 70_000},
		{Row: "sliding_window 10,000", Column: "bytes_per_key", Max: 104},
		{Row: "token_bucket 10,000", Column: "bytes_per_key", Max: 72},
		{Row: "fixed_window 10,000", Column: "bytes_per_key", Max: 72},
	},
	Explains: "A user takes all tokens of a limit, then Redis is asked (MEMORY USAGE) what it keeps. " +
		"A log grows with the limit, everything else does not; below stand the usual representations, filled with the same: a hash of tokens and time, a counter for each of two windows, a sorted set of times.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("What Redis keeps of one user whose limit (100 or 10,000) is used up", "bytes per user", "bytes_per_key", nil)
		b.Values.Log = true
		return b
	},
}

// A MemoryRow is what one representation takes.
type MemoryRow struct {
	Algorithm   string  `json:"algorithm"`
	Limit       int64   `json:"limit" lab:"label" unit:"per min"`
	BytesPerKey float64 `json:"bytes_per_key" unit:"B"`
}

// memoryUser is as long as a user's key often is.
const memoryUser = "tenant-000000001"

func runMemory(ctx context.Context, progress func(string), limits ...int64) ([]MemoryRow, error) {
	server, err := startLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close()
	var rows []MemoryRow
	weigh := func(name string, tokens int64, use func() error) error {
		if err := errors.Join(command(server.Redis, "FLUSHALL"), use()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		bytes, err := server.weigh()
		rows = append(rows, MemoryRow{name, tokens, bytes})
		return err
	}
	for _, tokens := range limits {
		progress(fmt.Sprintf("a limit of %d", tokens))
		for _, algorithm := range allAlgorithms {
			limit := sluice.Limit{Tokens: tokens, Per: time.Minute, Algorithm: algorithm}
			if err := weigh(algorithm.String(), tokens, func() error { return server.useUp(ctx, limit) }); err != nil {
				return nil, err
			}
		}
		for _, usual := range usualStates(tokens) {
			if err := weigh(usual.name, tokens, func() error { return server.fill(usual.commands) }); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// useUp takes all tokens of a user, one by one.
func (l *local) useUp(ctx context.Context, limit sluice.Limit) error {
	for range limit.Tokens {
		allowed, err := take(ctx, l.store, memoryUser, limit)
		if err != nil {
			return err
		}
		if !allowed {
			return errRefused(memoryUser)
		}
	}
	return nil
}

func (l *local) fill(commands [][]string) error {
	for _, words := range commands {
		if err := command(l.Redis, words...); err != nil {
			return err
		}
	}
	return nil
}

// weigh returns the bytes of all keys.
func (l *local) weigh() (float64, error) {
	names, err := l.Do("KEYS", "*")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for name := range strings.SplitSeq(names, "\n") {
		answer, err := l.Do("MEMORY", "USAGE", name, "SAMPLES", "0")
		if err != nil {
			return 0, err
		}
		bytes, err := strconv.ParseFloat(answer, 64)
		if err != nil {
			return 0, fmt.Errorf("no bytes of %q: %q", name, answer)
		}
		total += bytes
	}
	return total, nil
}

// A usualState is how the state of a user is often kept.
type usualState struct {
	name     string
	commands [][]string
}

// usualStates are those of a user who took so many tokens.
func usualStates(tokens int64) []usualState {
	count := strconv.FormatInt(tokens, 10)
	counter := func(window string) []string { return []string{"SET", memoryUser + ":" + window, count, "EX", "7200"} }
	add := []string{"ZADD", memoryUser}
	for i := range tokens {
		at := strconv.FormatInt(1_780_000_000_123_456+1234*i, 10) // microseconds
		add = append(add, at, at)
	}
	expire := []string{"EXPIRE", memoryUser, "7200"}
	return []usualState{
		{"hash of tokens and time", [][]string{{"HSET", memoryUser, "tokens", "0.42718", "ts", "1780000000.123456"}, expire}},
		{"two counters", [][]string{counter("494444"), counter("494443")}},
		{"sorted set of times", [][]string{add, expire}},
	}
}
