package lab

import (
	"context"
	"crypto/sha1" // as Redis names scripts
	_ "embed"     // the script
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
)

//go:embed bucket.lua
var bucketSource string

// A usualBucket is the token bucket that is often found: a hash of tokens and
// time, changed by a script. Experiments compare with it.
type usualBucket struct {
	script *rueidis.Lua
	sha    string
	client rueidis.Client
	args   []string
}

func newUsualBucket(client rueidis.Client, l sluice.Limit) *usualBucket {
	rate := strconv.FormatFloat(float64(l.Tokens)/l.Per.Seconds(), 'f', -1, 64)
	return &usualBucket{
		script: rueidis.NewLuaScript(bucketSource),
		sha:    fmt.Sprintf("%x", sha1.Sum([]byte(bucketSource))),
		client: client,
		args:   []string{rate, strconv.FormatInt(l.Capacity(), 10)},
	}
}

// take takes a token of each key, or none, by the server's clock.
func (b *usualBucket) take(ctx context.Context, keys ...string) (bool, error) {
	return b.call(ctx, keys, "")
}

// takeAt does so by a clock of the caller's.
func (b *usualBucket) takeAt(ctx context.Context, now time.Time, key string) (bool, error) {
	return b.call(ctx, []string{key}, strconv.FormatFloat(float64(now.UnixMicro())/1e6, 'f', 6, 64))
}

func (b *usualBucket) call(ctx context.Context, keys []string, now string) (bool, error) {
	n, err := b.script.Exec(ctx, b.client, keys, []string{b.args[0], b.args[1], now}).AsInt64()
	return n == 1, err
}

// pipeline takes a token of each key, each by itself, in one pipeline, and says
// whether all were there. The server must know the script already.
func (b *usualBucket) pipeline(ctx context.Context, keys ...string) (bool, error) {
	var calls rueidis.Commands
	for _, key := range keys {
		calls = append(calls, b.client.B().Evalsha().Sha1(b.sha).Numkeys(1).Key(key).Arg(b.args[0], b.args[1], "").Build())
	}
	all := true
	for _, answer := range b.client.DoMulti(ctx, calls...) {
		n, err := answer.AsInt64()
		if err != nil {
			return false, err
		}
		all = all && n == 1
	}
	return all, nil
}
