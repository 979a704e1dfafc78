package server

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluice-limiter/sluice/httplimit"
)

// A Caller is a request as limits see it when a gateway has found out whose it
// is. Nothing in it is a secret.
type Caller struct {
	// Attributes are what limits read, by their names.
	Attributes map[string]string
	// Without is an identity that the request lacks, "" if it lacks none: a
	// gateway charges the limits that do not need it and answers 401 then.
	Without string
	// Reason says why the identity is lacking.
	Reason string
	// Notes say what else a gateway makes of the identities.
	Notes []string
}

// Caller returns what a gateway would make of a request with attributes as a
// person writes them: addresses, names of tenants, or their keys. The error
// names an attribute that makes no sense, and the remedy.
func (c *Config) Caller(given map[string]string) (*Caller, error) {
	caller := &Caller{Attributes: make(map[string]string, len(given))}
	for name, text := range given {
		if name == "ip" {
			ip, err := c.clientIP(text)
			if err != nil {
				return nil, err
			}
			caller.Attributes[name] = ip
			continue
		}
		caller.Attributes[name] = c.Value(name, text)
	}
	for i, a := range c.Identity.Attributes {
		value, lacking := c.resolve(caller, c.identities[i], &a, given[a.Name])
		caller.Attributes[a.Name] = value
		if lacking != "" && caller.Without == "" {
			caller.Without, caller.Reason = a.Name, lacking
		}
	}
	return caller, nil
}

// clientIP returns what limits see of a client's address.
func (c *Config) clientIP(text string) (string, error) {
	if text == httplimit.UnknownAddress {
		return text, nil
	}
	addr, err := netip.ParseAddr(text)
	if network, nerr := netip.ParsePrefix(text); nerr == nil && c.Identity.Addresses.Key(network.Addr()) == text {
		return text, nil // as it stands in keys
	}
	if err != nil {
		return "", fmt.Errorf("ip=%s: want an address such as 192.0.2.7 or 2001:db8::1, or %s for a client that has none", text, httplimit.UnknownAddress)
	}
	return c.Identity.Addresses.Key(addr), nil
}

// resolve returns the value of an identity, or why a gateway would turn the
// request away.
func (c *Config) resolve(caller *Caller, i *httplimit.Identity, a *AttributeConfig, text string) (value, lacking string) {
	note := func(format string, args ...any) {
		caller.Notes = append(caller.Notes, a.Name+" "+fmt.Sprintf(format, args...))
	}
	address := "ip:" + cmp.Or(caller.Attributes["ip"], httplimit.UnknownAddress)
	shown := address
	if caller.Attributes["ip"] == "" {
		shown += ", since no ip is given"
	}
	if a.Lower && !a.keys.Has(text) {
		text = strings.ToLower(text)
	}
	if text == "" {
		switch {
		case a.Required:
			return "", a.Name + " is required and missing"
		case a.Unknown == httplimit.UnknownAddressed:
			note("is not given: a gateway counts the request by its address, as %s", shown)
			return address, ""
		}
		return "", ""
	}
	value, known := i.Judge(text)
	switch {
	case known:
	case a.Unknown == httplimit.UnknownRefused:
		return "", fmt.Sprintf("%s %s is named neither by the keys nor by a limit", a.Name, value)
	case a.Unknown == httplimit.UnknownAddressed:
		note("%s is named neither by the keys nor by a limit: a gateway counts the request by its address, as %s", value, shown)
		return address, ""
	case a.keys != nil:
		note("%s is named neither by the keys nor by a limit: a gateway counts it by itself", value)
	}
	return value, ""
}
