package lab

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-limiter/sluice/servers"
)

// A fault is a way to break servers.
type fault struct {
	name string
	// forgets says that the servers lose what was used: their data, by a failover
	// what was not replicated, or by a clock that jumps forward the time in which
	// it would have been owed. That is worth a burst a key, beside the one of the
	// outage.
	forgets bool
	// heals says that the servers mend themselves: mend waits for it.
	heals bool
	// stage starts the servers that it needs.
	stage func(context.Context) (*stage, error)
}

// A stage is the servers that a fault meets, and the fault.
type stage struct {
	url     string           // that a store opens
	nodes   []*servers.Redis // all that may hold keys
	breaks  func(context.Context) error
	mends   func(context.Context) error
	cleanup []func()
}

func (s *stage) close() {
	for _, f := range s.cleanup {
		f()
	}
}

// bursts returns how many bursts a key may have beside its rate: its own, one of
// the outage, and one that the servers forgot.
func (f *fault) bursts() int64 {
	if f.forgets {
		return 3
	}
	return 2
}

// outageFaults returns all that is tried, in order.
func outageFaults() []fault {
	faults := singleFaults()
	faults = append(faults, clockFaults()...)
	faults = append(faults, networkFaults()...)
	faults = append(faults, sentinelFaults()...)
	return append(faults, clusterFaults()...)
}

// withoutTTL counts the keys on all masters that would stay for ever.
func (s *stage) withoutTTL() (int, error) {
	n := 0
	for _, r := range s.nodes {
		if !r.IsMaster() {
			continue
		}
		more, err := withoutTTL(r)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// withoutTTL counts the keys on one server.
func withoutTTL(r *servers.Redis) (int, error) {
	keys, err := r.Do("KEYS", "*")
	if err != nil {
		return 0, err
	}
	n := 0
	for key := range strings.FieldsSeq(keys) {
		ttl, err := r.Do("PTTL", key)
		if err != nil {
			return 0, err
		}
		if ttl == "-1" {
			n++
		}
	}
	return n, nil
}

func command(r *servers.Redis, words ...string) error {
	answer, err := r.Do(words...)
	if err == nil && strings.HasPrefix(answer, "-") {
		err = errors.New(answer[1:])
	}
	return err
}
