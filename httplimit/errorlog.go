package httplimit

import (
	"log/slog"
	"sync"
	"time"
)

// An errorLog is the one place that tells of decisions that could not be made,
// in one line a second at most: when a store is away, every request fails.
type errorLog struct {
	logger *slog.Logger

	mu         sync.Mutex
	next       time.Time
	suppressed int
}

func (l *errorLog) log(err error, mode ErrorMode) {
	if l.logger == nil {
		return
	}
	now := time.Now()
	l.mu.Lock()
	if now.Before(l.next) {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := l.suppressed
	l.next, l.suppressed = now.Add(time.Second), 0
	l.mu.Unlock()
	l.logger.Error("a request could not be decided",
		slog.Any("error", err),
		slog.Bool("allowed", mode == ErrorAllow),
		slog.Int("suppressed", suppressed))
}
