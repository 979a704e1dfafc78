package servers

import (
	"context"
	"errors"
	"strings"
	"time"
)

// IsMaster says whether a server that runs takes writes from clients.
func (r *Redis) IsMaster() bool {
	if r.PID() == 0 {
		return false
	}
	answer, err := r.Do("ROLE")
	return err == nil && strings.HasPrefix(answer, "master")
}

// Promoted waits until a server is a master, at most fifteen seconds.
func (r *Redis) Promoted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return poll(ctx, func() error {
		if !r.IsMaster() {
			return errors.New("the replica is not promoted")
		}
		return nil
	})
}
