package redis

import (
	"fmt"
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/store/storetest"
)

func TestContract(t *testing.T) {
	server, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := dial(t, server.Addr)
	stores := 0
	storetest.Run(t, storetest.Harness{New: func() (sluice.Store, error) {
		stores++
		return New(client, Options{Prefix: fmt.Sprintf("rl%d", stores)}), nil
	}})
}
