package lab

import (
	"context"
	"time"

	"github.com/sluice-limiter/sluice/servers"
	"github.com/sluice-limiter/sluice/servers/proxy"
)

// proxied stages a fault of the network before one server.
func proxied(breaks, mends func(*proxy.Proxy)) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		server, err := servers.StartRedis(ctx)
		if err != nil {
			return nil, err
		}
		p, err := proxy.Start(server.Addr)
		if err != nil {
			server.Close()
			return nil, err
		}
		return &stage{
			url:     "redis://" + p.Addr,
			nodes:   []*servers.Redis{server},
			breaks:  func(context.Context) error { breaks(p); return nil },
			mends:   func(context.Context) error { mends(p); return nil },
			cleanup: []func(){p.Close, server.Close},
		}, nil
	}
}

func networkFaults() []fault {
	late := func(p *proxy.Proxy) { p.Delay(budget + time.Millisecond) }
	return []fault{
		{name: "answers 6 ms late", stage: proxied(late, (*proxy.Proxy).Clear)},
		{name: "answers swallowed", stage: proxied((*proxy.Proxy).Swallow, (*proxy.Proxy).Clear)},
	}
}
