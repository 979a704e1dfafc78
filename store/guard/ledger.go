package guard

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-limiter/sluice"
)

// A ledger remembers what was granted locally and not yet charged to the store,
// by counter. Its size is bounded.
type ledger struct {
	max    int64
	size   atomic.Int64
	shards [ledgerShards]ledgerShard
}

const ledgerShards = 64

type ledgerShard struct {
	mu    sync.Mutex
	debts map[counter]*debt
}

// A counter is what a debt is on.
type counter struct {
	key, tag string
	limit    sluice.Limit
}

// A debt is what one counter owes.
type debt struct {
	counter counter
	node    *node
	granted int64         // since the last settlement, or since busy was made
	busy    chan struct{} // not nil while a settlement is on its way; closed after it
}

func (l *ledger) init(bound int) {
	l.max = int64(bound)
	for i := range l.shards {
		l.shards[i].debts = make(map[counter]*debt)
	}
}

func (l *ledger) shard(key string) *ledgerShard { return &l.shards[hash(key)%ledgerShards] }

func counterOf(c *sluice.Charge) counter { return counter{c.Key, c.Tag, c.Limit} }

// add notes a grant; false if there is no room.
func (l *ledger) add(n *node, c *sluice.Charge, granted int64) bool {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	name := counterOf(c)
	d := sh.debts[name]
	if d == nil {
		if l.size.Load() >= l.max {
			return false
		}
		// Callers may use the memory of their keys again.
		name.key, name.tag = clone(name.key), clone(name.tag)
		d = &debt{counter: name, node: n}
		sh.debts[name] = d
		l.size.Add(1)
		n.pending.Add(1)
	}
	d.granted = min(d.granted+granted, sluice.MaxTokens)
	return true
}

// lower takes what was given back off a debt.
func (l *ledger) lower(c *sluice.Charge, n int64) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d := sh.debts[counterOf(c)]; d != nil {
		d.granted = max(0, d.granted-n)
	}
}

// drop forgets a debt, unless it is being settled.
func (l *ledger) drop(c *sluice.Charge) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d := sh.debts[counterOf(c)]; d != nil {
		d.granted = 0
		if d.busy == nil {
			l.remove(sh, d)
		}
	}
}

// remove deletes a debt. The shard's mu must be held.
func (l *ledger) remove(sh *ledgerShard, d *debt) {
	delete(sh.debts, d.counter)
	l.size.Add(-1)
	d.node.pending.Add(-1)
}

// claim begins to settle the debt on a charge's counter. It returns the debt and
// its amount for the caller to settle and release; or else, if somebody settles
// it, what is closed after that; or nothing, if there is none.
func (l *ledger) claim(c *sluice.Charge) (mine *debt, amount int64, busy <-chan struct{}) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.debts[counterOf(c)]
	switch {
	case d == nil:
		return nil, 0, nil
	case d.busy != nil:
		return nil, 0, d.busy
	}
	return d, d.begin(), nil
}

// begin marks a debt as being settled and returns its amount. The shard's mu must
// be held.
func (d *debt) begin() int64 {
	amount := d.granted
	d.granted, d.busy = 0, make(chan struct{})
	return amount
}

// release ends the settling of a debt.
func (l *ledger) release(d *debt) {
	sh := l.shard(d.counter.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(d.busy)
	d.busy = nil
	if d.granted == 0 {
		l.remove(sh, d)
	}
}

// A claimed is a debt with its amount.
type claimed struct {
	debt   *debt
	amount int64
}

// claimSome begins to settle up to limit debts of a node.
func (l *ledger) claimSome(n *node, limit int) []claimed {
	var some []claimed
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for _, d := range sh.debts {
			if len(some) == limit {
				break
			}
			if d.node == n && d.busy == nil {
				some = append(some, claimed{d, d.begin()})
			}
		}
		sh.mu.Unlock()
	}
	return some
}
