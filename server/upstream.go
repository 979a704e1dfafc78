package server

import (
	"log/slog"
	"sync"
	"time"
)

// An upstreamLog tells of upstreams that fail, once a second for each route: an
// upstream that is down fails every request, and a log as long as the traffic
// would be a second failure.
type upstreamLog struct {
	log *slog.Logger

	mu     sync.Mutex
	routes map[string]*failing
}

// A failing is a route whose upstream failed.
type failing struct {
	told   time.Time
	untold int // failures since then
}

// failed notes a failure.
func (u *upstreamLog) failed(route string, err error) {
	if untold, tell := u.count(route, time.Now()); tell {
		u.log.Warn("upstream failed", slog.String("route", route), slog.Any("error", err),
			slog.Int("more_since_last_line", untold))
	}
}

func (u *upstreamLog) count(route string, now time.Time) (untold int, tell bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.routes[route]
	if f == nil {
		if u.routes == nil {
			u.routes = make(map[string]*failing)
		}
		f = &failing{told: now.Add(-time.Second)}
		u.routes[route] = f
	}
	if now.Sub(f.told) < time.Second {
		f.untold++
		return 0, false
	}
	untold = f.untold
	f.told, f.untold = now, 0
	return untold, true
}
