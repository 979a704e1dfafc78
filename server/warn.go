package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/lease"
)

// maxUnmet bounds how many values that no request has are told of.
const maxUnmet = 100

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
	if c.Rules != nil {
		if err := c.Set.CheckRows(); err != nil {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: rules: rows without a limit_name are skipped: %v", c.Rules.source, err))
		}
	}
	if c.Store != "memory" {
		c.warnShares()
	}
	c.warnUnmet()
}

// warnShares tells of tolerances that are too small to be divided among the
// configured instances.
func (c *Config) warnShares() {
	for i, l := range c.Set.Limits() {
		parts := int64(max(1, c.Instances) * max(1, l.Shards))
		share := l.Default.Capacity() * l.Tolerance / 1_000_000 / parts
		if l.Tolerance > 0 && !l.Unlimited && share < lease.LeastShare {
			c.Warnings = append(c.Warnings, fmt.Sprintf(
				"%s: limits[%d].tolerance: has no effect with %d instances and %d shards: each could hold %d tokens, and fewer than %d are not worth a lease; want a larger tolerance or burst, or fewer shards",
				l.Source, i, max(1, c.Instances), max(1, l.Shards), share, lease.LeastShare))
		}
	}
}

// warnUnmet tells of values in limits that no request has.
func (c *Config) warnUnmet() {
	left := maxUnmet
	look := func(source, path string, match []policy.Condition) {
		for _, condition := range match {
			for _, text := range condition.Patterns {
				value, ok := literal(text)
				if !ok || left == 0 {
					continue
				}
				if why := c.unmet(condition.Attribute, value); why != "" {
					left--
					c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s.match: %s: %q never matches: %s", source, path, condition.Attribute, value, why))
				}
			}
		}
	}
	for i, l := range c.Set.Limits() {
		path := fmt.Sprintf("limits[%d]", i)
		look(l.Source, path, l.Match)
		for j, r := range l.Overrides {
			look(r.Source, fmt.Sprintf("%s.overrides[%d]", path, j), r.Match)
		}
	}
}

// unmet says why no request has a value; "" if one may.
func (c *Config) unmet(attribute, value string) string {
	switch attribute {
	case "ip":
		bits := c.Identity.Addresses.IPv6Prefix
		if bits == 0 {
			bits = 64
		}
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			addr, err := netip.ParseAddr(value)
			if err != nil {
				return ""
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if addr := prefix.Addr(); addr.Is6() && !addr.Is4In6() && prefix.Bits() > bits {
			return fmt.Sprintf("IPv6 clients are told apart by %d bits: want %v, or a larger identity.ip.ipv6_prefix",
				bits, netip.PrefixFrom(addr.WithZone(""), bits).Masked())
		}
	case "route":
		if c.Gateway != nil && value != "" && !slices.ContainsFunc(c.Gateway.Routes, func(r gateway.Route) bool { return r.ID == value }) {
			return "no route of the gateway has this id"
		}
	case "path":
		if value != "" && value != "*" && !strings.HasPrefix(value, "/") {
			return "paths begin with /"
		}
	case "method":
		if upper := strings.ToUpper(value); slices.Contains(methods, upper) && upper != value {
			return "want " + upper
		}
	}
	return ""
}

// methods are those of RFC 9110 and RFC 5789, which are case-sensitive.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
