package lab

import (
	"context"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice/servers"
)

func sentinelFaults() []fault {
	return []fault{{name: "Sentinel: master killed", forgets: true, heals: true, stage: sentinelFailover}}
}

// sentinelFailover stages the death of a master that Sentinel watches.
func sentinelFailover(ctx context.Context) (*stage, error) {
	s, err := servers.StartSentinel(ctx)
	if err != nil {
		return nil, err
	}
	return &stage{
		url:     s.URL(),
		nodes:   []*servers.Redis{s.Master, s.Replica},
		breaks:  func(context.Context) error { s.Master.Kill(); return nil },
		mends:   s.Promoted,
		cleanup: []func(){s.Close},
	}, nil
}

func clusterFaults() []fault {
	return []fault{
		{name: "Cluster: a master killed", forgets: true, heals: true, stage: clusterFailover},
		{name: "Cluster: slots moved to and fro", stage: clusterMoves},
	}
}

// clusterStage starts a cluster that is broken by one deed.
func clusterStage(ctx context.Context, breaks, mends func(context.Context, *servers.Cluster) error) (*stage, error) {
	c, err := servers.StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	return &stage{
		url:     c.URL(),
		nodes:   c.Nodes,
		breaks:  func(ctx context.Context) error { return breaks(ctx, c) },
		mends:   func(ctx context.Context) error { return mends(ctx, c) },
		cleanup: []func(){c.Close},
	}, nil
}

// clusterFailover stages the death of one of three masters.
func clusterFailover(ctx context.Context) (*stage, error) {
	return clusterStage(
		ctx,
		func(_ context.Context, c *servers.Cluster) error { c.Nodes[0].Kill(); return nil },
		func(ctx context.Context, c *servers.Cluster) error { return c.Nodes[3].Promoted(ctx) },
	)
}

// clusterMoves stages the moving of slots under the callers' feet.
func clusterMoves(ctx context.Context) (*stage, error) {
	return clusterStage(ctx, moveSlots, func(context.Context, *servers.Cluster) error { return nil })
}

// moveSlots moves every slot of the first master that has a key to the second,
// and half the time of a fault later back.
func moveSlots(ctx context.Context, c *servers.Cluster) error {
	slots, err := slotsInUse(c.Nodes[0])
	if err != nil {
		return err
	}
	half := time.Now().Add(broken / 2)
	for _, to := range []*servers.Redis{c.Nodes[1], c.Nodes[0]} {
		for _, slot := range slots {
			if err := c.Migrate(slot, to); err != nil {
				return err
			}
		}
		sleep(ctx, time.Until(half))
	}
	return ctx.Err()
}

// slotsInUse returns the slots of all keys on a node.
func slotsInUse(r *servers.Redis) ([]int, error) {
	keys, err := r.Do("KEYS", "*")
	if err != nil {
		return nil, err
	}
	var slots []int
	for key := range strings.FieldsSeq(keys) {
		slot, err := r.Slot(key)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	return slots, nil
}
