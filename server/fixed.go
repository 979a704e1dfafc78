package server

import "slices"

// fix names the fields that differ from those the server was started with and
// take effect only when it is started again. A gateway that came or went is as
// it was.
func fix(c, started *Config) []string {
	var names []string
	differ := func(name string, yes bool) {
		if yes {
			names = append(names, name)
		}
	}
	differ("store", c.Store != started.Store)
	differ("prefix", c.Prefix != started.Prefix)
	differ("max_keys", c.MaxKeys != started.MaxKeys)
	differ("budget", c.Budget != started.Budget)
	differ("instances", c.Instances != started.Instances)
	differ("rules", !sameRules(c.Rules, started.Rules))
	differ("admin", c.Admin != started.Admin)
	if (c.Gateway == nil) != (started.Gateway == nil) {
		c.Gateway = started.Gateway
		return append(names, "gateway")
	}
	if c.Gateway == nil {
		return names
	}
	return slices.Concat(names, c.Gateway.fixed(started.Gateway))
}

// fixed names the fields of a gateway that its listener and its connections to
// upstreams are made of.
func (g *GatewayConfig) fixed(started *GatewayConfig) []string {
	var names []string
	differ := func(name string, yes bool) {
		if yes {
			names = append(names, "gateway."+name)
		}
	}
	differ("listen", g.Listen != started.Listen)
	differ("tls", (g.TLS.pair == nil) != (started.TLS.pair == nil))
	differ("max_header", g.MaxHeader != started.MaxHeader)
	differ("read_header_timeout", g.ReadHeaderTimeout != started.ReadHeaderTimeout)
	differ("idle_timeout", g.IdleTimeout != started.IdleTimeout)
	differ("dial_timeout", g.Transport.Dial != started.Transport.Dial)
	differ("upstream_timeout", g.Transport.Response != started.Transport.Response)
	return names
}

// sameRules says whether two files name the same rules.
func sameRules(a, b *RulesConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.URL == b.URL && a.Poll == b.Poll && a.Changed == b.Changed && a.Snapshot == b.Snapshot
}
