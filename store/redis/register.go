package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
)

//go:embed register.lua
var registerText string

// registerScript knows the script by its hash; it holds no state.
var registerScript = rueidis.NewLuaScript(registerText)

// maxLife bounds an instance's time to live.
const maxLife = time.Hour

// Register implements [sluice.Registrar] in one round trip. A ttl of 0 or less
// says that the instance is gone. The ids are kept in one sorted set,
// PREFIX:instances, a name that no counter has, since it has no second colon; it
// ends with the last of them.
func (s *Store) Register(ctx context.Context, id string, ttl time.Duration) ([]string, error) {
	if ttl > maxLife {
		return nil, fmt.Errorf("%w: an instance lives %v: want at most %v", sluice.ErrCharge, ttl, maxLife)
	}
	millis := int64(0)
	if ttl > 0 {
		millis = max(1, ttl.Milliseconds())
	}
	args := []string{id, strconv.FormatInt(millis, 10), ""}
	if micros := s.ownTime(); micros != 0 {
		args[2] = strconv.FormatInt(micros/1000, 10)
	}
	live, err := registerScript.Exec(ctx, s.client, []string{s.prefix + ":instances"}, args).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	slices.Sort(live)
	return live, nil
}
