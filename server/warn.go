package server

import (
	"fmt"
	"slices"

	"github.com/sluice-limiter/sluice/httplimit"
)

// warn collects what is allowed and perhaps not meant.
func (c *Config) warn() {
	c.Warnings = append(c.Warnings, c.Set.Warnings()...)
	byAddress := false
	for _, l := range c.Set.Limits() {
		byAddress = byAddress || slices.Contains(l.Key, "ip")
	}
	for _, a := range c.Identity.Attributes {
		if a.Unknown == httplimit.UnknownDefault && !byAddress {
			c.Warnings = append(c.Warnings, fmt.Sprintf(
				"%s: identity.%s: unknown is default and no limit has ip in its key: whoever makes up values has a fresh counter for each; add a limit by ip, or set unknown to ip or 401", a.source, a.Name))
		}
	}
	if c.Gateway != nil && byAddress && len(c.Identity.Addresses.TrustedProxies) == 0 && !loopback(c.Gateway.Listen) {
		c.Warnings = append(c.Warnings,
			c.Gateway.source+": identity.ip: no trusted_proxies: behind a proxy all clients would share its address; list the proxy if there is one")
	}
}
