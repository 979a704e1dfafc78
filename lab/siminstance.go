package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/coalesce"
	"github.com/sluice-limiter/sluice/store/denied"
	"github.com/sluice-limiter/sluice/store/guard"
	"github.com/sluice-limiter/sluice/store/lease"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A simInstance is the code of a server from the engine down to the wire.
type simInstance struct {
	engine   *policy.Engine
	guard    *guard.Store
	lease    *lease.Store
	coalesce *coalesce.Store

	wire     *wire
	crashed  atomic.Bool // nobody hears what it answers
	requests sync.WaitGroup
	verdicts sync.Pool
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// simTTL is how long a heartbeat counts in a simulation: shorter than a
// server's, so that a minute shows many of them.
const simTTL = time.Second

func newSimInstance(i, fleet int, store *simStore, set *policy.Set, skew time.Duration, seed uint64) *simInstance {
	w := &wire{store: store, skew: skew, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
	local := memory.New(memory.Options{MaxKeys: 1 << 17, Now: func() time.Time { return time.Now().Add(afterEpoch + skew) }})
	x := &simInstance{wire: w, coalesce: coalesce.New(w, coalesce.Options{})}
	x.guard = guard.New(x.coalesce, local, guard.Options{
		Budget: budget, Instances: fleet, ID: fmt.Sprintf("instance-%02d", i), TTL: simTTL,
	})
	o := lease.Options{Fleet: x.guard.Fleet, TTL: simTTL}
	if store.wrong.wholeShares {
		o.Fleet = nil
	}
	x.lease = lease.New(x.guard, o)
	x.engine = policy.NewEngine(denied.New(x.lease, denied.Options{}), set)
	x.verdicts.New = func() any { return new(policy.Verdict) }
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	x.running.Go(func() { x.run(ctx) })
	return x
}

// run does what [server.Stack.Run] does: the instance says that it is gone once it
// holds nothing any more.
func (x *simInstance) run(ctx context.Context) {
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var guarded sync.WaitGroup
	guarded.Go(func() { x.guard.Run(beating) })
	x.lease.Run(ctx)
	stop()
	guarded.Wait()
}

// close ends the instance when its requests are through.
func (x *simInstance) close() {
	x.requests.Wait()
	x.stop()
	x.running.Wait()
	x.coalesce.Close()
}

// crash ends the instance as kill -9 does: from one instant on nobody hears of it
// any more.
func (x *simInstance) crash() {
	x.crashed.Store(true)
	x.wire.cut()
	x.close()
}

// decide asks whether a request of a tenant passes that costs so much.
func (x *simInstance) decide(tenant string, cost int64) (allowed, fallback bool, err error) {
	v := x.verdicts.Get().(*policy.Verdict)
	defer x.verdicts.Put(v)
	attributes := func(name string) string {
		if name == "tenant" {
			return tenant
		}
		return ""
	}
	if err := x.engine.Decide(context.Background(), policy.Request{Attributes: attributes, N: cost}, v); err != nil {
		return false, false, err
	}
	for i := range v.Results {
		fallback = fallback || v.Results[i].Decision.Source == sluice.SourceFallback
	}
	return v.Allowed, fallback, nil
}
