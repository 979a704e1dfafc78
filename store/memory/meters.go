package memory

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// meters remembers the meters of token bucket limits in use, since a program
// has few limits and making a meter takes two divisions.
type meters [64]atomic.Pointer[metered]

type metered struct {
	limit sluice.Limit
	meter sluice.Meter
}

func (ms *meters) slot(l *sluice.Limit) *atomic.Pointer[metered] {
	mix := uint64(l.Tokens)*0x9e3779b97f4a7c15 ^ uint64(l.Per)*0xc2b2ae3d27d4eb4f ^ uint64(l.Burst)*0x165667b19e3779f9
	return &ms[mix>>58]
}

// find returns the meter of a token bucket's limit, or nil if it is not
// remembered.
func (ms *meters) find(l *sluice.Limit) *sluice.Meter {
	e := ms.slot(l).Load()
	if e == nil || e.limit.Tokens^l.Tokens|int64(e.limit.Per^l.Per)|e.limit.Burst^l.Burst|int64(l.Calendar.Unit)|int64(len(l.Calendar.Zone)) != 0 {
		return nil
	}
	return &e.meter
}

// keep remembers a meter of a valid limit. Where limits compete for a place,
// one in 256 calls changes who has it, so that many limits in turn cost no
// allocation each, and old ones go.
func (ms *meters) keep(l *sluice.Limit, m *sluice.Meter) {
	slot := ms.slot(l)
	if slot.Load() == nil || rand.Uint32()&255 == 0 {
		slot.Store(&metered{limit: *l, meter: *m})
	}
}
