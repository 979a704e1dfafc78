package shard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-limiter/sluice"
)

// mark stands between a key and the number of its shard. Keys of package policy
// never hold it: a bar there begins an attribute, whose name has no #.
const mark = "|#"

// shardOf returns the charge of one shard of a charge, with its part of the
// limit. Its amounts are those of the whole.
//
// Different keys never share a shard. The first shard's key is the charge's own,
// unless that could be taken for a shard's. Of keys without shards, which are
// left as they are, only those that end in the mark and a number meet one.
func shardOf(c *sluice.Charge, shard int) sluice.Charge {
	part := *c
	part.Limit = c.Limit.Part(shard, c.Shards)
	part.Shards = 0
	if shard == 0 && !strings.Contains(c.Key, mark) {
		return part
	}
	suffix := mark + strconv.Itoa(shard)
	part.Key = c.Key + suffix
	switch {
	case c.Tag != "":
		part.Tag = c.Tag + suffix
	case strings.Contains(c.Key, "{"):
		part.Tag = part.Key // a cluster could take a part of the key for the tag
	}
	return part
}

// checkShards says what is wrong with a charge's shards. The first part is the
// largest: if that is valid, all are.
func checkShards(c *sluice.Charge) error {
	if capacity := c.Limit.Capacity(); capacity < int64(c.Shards) {
		return fmt.Errorf("%w: %d shards of %v hold less than one token each: want at most %d", sluice.ErrCharge, c.Shards, c.Limit, capacity)
	}
	_, err := c.Limit.Part(0, c.Shards).Meter()
	return err
}
