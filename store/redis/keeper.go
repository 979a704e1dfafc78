package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// lookEvery is how often the keeper asks every server for a sign of life.
	lookEvery = 500 * time.Millisecond
	// The waits between two attempts double from the first to the last, half of
	// which is drawn: store/guard takes instances for together that come back
	// within half a second.
	firstWait = 10 * time.Millisecond
	lastWait  = 150 * time.Millisecond
	// refusedWait is the last for a server that is there and refuses, as for a
	// wrong password: it need not hear of that so often.
	refusedWait = time.Second
	// renewEvery bounds how often the client is made anew.
	renewEvery = time.Second
	// lingers is how long a replaced client may finish its calls.
	lingers = time.Second
)

// A keeper opens a link's connections, watches them and opens them again. It is
// one goroutine.
type keeper struct {
	*link
	renewed time.Time
	known   map[string]bool // nodes that Connected was told of
	clocked map[string]bool // of these, whether scripts may read the time, once they answered
	told    string          // what Lost was told of no connection at all
	refused bool            // a server was there and refused
}

func (l *link) start() {
	k := &keeper{link: l, known: make(map[string]bool), clocked: make(map[string]bool)}
	first := make(chan struct{})
	l.looked.Store(&first)
	l.wait.Go(k.run)
}

func (k *keeper) run() {
	wait := firstWait
	for k.ctx.Err() == nil {
		whole := k.tend()
		next := make(chan struct{})
		close(*k.looked.Swap(&next))
		pause := lookEvery
		if whole {
			wait = firstWait
		} else {
			pause = wait/2 + rand.N(wait)
			wait = min(2*wait, k.lastWait())
		}
		timer := time.NewTimer(pause)
		select {
		case <-k.ctx.Done():
		case <-timer.C:
		case <-k.wake:
			// Those who fail together are past the door by then.
			timer.Reset(time.Millisecond)
			<-timer.C
		}
		timer.Stop()
	}
}

func (k *keeper) lastWait() time.Duration {
	if k.refused {
		return refusedWait
	}
	return lastWait
}

// tend makes what is missing, and says whether everything stands.
func (k *keeper) tend() bool {
	k.refused = false
	s := k.session.Load()
	if s == nil || k.stale.Load() && time.Since(k.renewed) >= renewEvery {
		k.renewed = time.Now()
		next, err := k.connect()
		if err != nil {
			_, k.refused = rueidis.IsRedisErr(err)
			if s == nil {
				k.lost.Store(&err)
				k.tellLost(err)
			}
			return false
		}
		k.stale.Store(false)
		k.replace(next)
		s = next
	}
	whole := k.check(s)
	k.tell(s)
	return whole && !k.stale.Load()
}

// connect makes a client that has connected.
func (k *keeper) connect() (*session, error) {
	client, err := rueidis.NewClient(k.option())
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	s := &session{client: client}
	s.topology.Store(k.firstTopology())
	k.check(s)
	return s, nil
}

// replace puts a session in place, and ends the one before when its calls are
// through.
func (k *keeper) replace(next *session) {
	old := k.session.Swap(next)
	if old == nil {
		return
	}
	k.wait.Go(func() {
		timer := time.NewTimer(lingers)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-k.ctx.Done():
		}
		old.client.Close()
	})
}

// check asks all servers for a sign of life, and says whether all that decide
// gave one.
func (k *keeper) check(s *session) bool {
	clients := s.client.Nodes()
	answers := make(map[string]error, len(clients))
	var mu sync.Mutex
	var wait sync.WaitGroup
	for addr, client := range clients {
		wait.Go(func() {
			err := k.alive(client)
			mu.Lock()
			defer mu.Unlock()
			answers[addr] = err
		})
	}
	wait.Wait()
	if k.target.mode == rueidis.ClientModeCluster {
		return k.checkCluster(s, clients, answers)
	}
	for _, err := range answers {
		k.mark(s.topology.Load().only, err)
		return err == nil
	}
	return false
}

// mark notes whether a node is there.
func (k *keeper) mark(n *node, err error) {
	if err == nil {
		n.err.Store(nil)
		return
	}
	n.err.Store(&err)
	if _, ok := rueidis.IsRedisErr(err); ok {
		k.refused = true
	}
	if errors.Is(err, errReplica) {
		k.stale.Store(true)
	}
}

// alive asks one server for a sign of life, and whether it is one that decides.
func (k *keeper) alive(client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(k.ctx, max(k.o.Timeout, time.Second))
	defer cancel()
	if k.target.mode != rueidis.ClientModeCluster {
		role, err := client.Do(ctx, client.B().Role().Build()).ToArray()
		if err == nil && len(role) > 0 {
			if name, _ := role[0].ToString(); name == "slave" {
				return errReplica
			}
			return nil
		}
		if _, ok := rueidis.IsRedisErr(err); !ok {
			return err
		}
		// The user may not ask for the role.
	}
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

// tell reports which servers have come or gone.
func (k *keeper) tell(s *session) {
	for _, n := range s.topology.Load().owners() {
		if s.server(n) == nil {
			continue // the client has not met it yet
		}
		err := n.err.Load()
		switch known := k.known[n.name]; {
		case err == nil && !known:
			k.known[n.name] = true
			k.told = ""
			report := k.probe(s, n)
			k.setClock(report)
			if k.o.Connected != nil {
				k.o.Connected(report)
			}
		case err == nil:
			if _, tried := k.clocked[n.name]; !tried {
				k.setClock(k.probe(s, n)) // it was too busy to answer
			}
		case err != nil && known:
			delete(k.known, n.name)
			delete(k.clocked, n.name)
			if k.o.Lost != nil {
				k.o.Lost(n.name, *err)
			}
		}
	}
}

// setClock chooses whose clock decides: this machine's as soon as one server
// refuses its own.
func (k *keeper) setClock(r Report) {
	if !r.tried {
		return
	}
	k.clocked[r.Node] = r.TimeInScripts || !r.Scripts
	own := false
	for _, ok := range k.clocked {
		own = own || !ok
	}
	k.callersTime.Store(own)
}

// tellLost reports why there is no connection at all, each reason once.
func (k *keeper) tellLost(err error) {
	if text := err.Error(); text != k.told {
		k.told = text
		if k.o.Lost != nil {
			k.o.Lost(k.target.name(), err)
		}
	}
}
