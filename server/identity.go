package server

import (
	"crypto/sha256"
	"errors"
	"net/netip"
	"strings"

	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/strictyaml"
)

func (d *decoder) identity(n strictyaml.Node) IdentityConfig {
	var c IdentityConfig
	for _, e := range n.Entries() {
		switch e.Name {
		case "ip":
			c.Addresses = d.addresses(e.Value)
		case "hash_key_file":
			c.HashKeyFile, c.hashKey = d.hashKey(e.Value)
		case "method", "path", "host", "route":
			e.Value.Problem("%s is read from the request: want another name, such as tenant", e.Name)
		default:
			c.Attributes = append(c.Attributes, d.attribute(e.Name, e.Value))
		}
	}
	return c
}

func (d *decoder) addresses(n strictyaml.Node) httplimit.Addresses {
	m := n.Mapping("trusted_proxies", "ipv6_prefix")
	a := httplimit.Addresses{IPv6Prefix: int(m.Get("ipv6_prefix").Int(64, 1, 128))}
	list := m.Get("trusted_proxies")
	for _, text := range list.Texts() {
		p, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); err != nil && aerr == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			list.Problem("%q: want a network such as 10.0.0.0/8, or an address", text)
			continue
		}
		a.TrustedProxies = append(a.TrustedProxies, p.Masked())
	}
	return a
}

func (d *decoder) attribute(name string, n strictyaml.Node) AttributeConfig {
	m := n.Mapping("header", "required", "secret", "keys", "unknown", "lower")
	header := m.Need("header", "the header that carries it, such as X-Api-Key")
	a := AttributeConfig{
		Name:     name,
		Header:   header.Text(),
		Required: m.Get("required").Bool(false),
		Lower:    m.Get("lower").Bool(false),
		source:   n.Source(),
	}
	if secret := m.Get("secret"); secret.Exists() {
		a.Secret = httplimit.NotSecret
		if secret.Bool(true) {
			a.Secret = httplimit.Secret
		}
	}
	a.KeysFile, a.keys = d.keys(m.Get("keys"))
	unknown := m.Get("unknown")
	a.Unknown, _ = httplimit.ParseUnknown(unknown.OneOf("default", "default", "ip", "401"))
	if header.IsText() {
		if _, err := httplimit.NewIdentity(httplimit.IdentityOptions{Name: name, Header: a.Header}); err != nil {
			header.Problem("%q: want a header's name such as X-Api-Key", a.Header)
		}
	}
	return a
}

// keys reads a keys file: the SHA-256 of each key, and whose it is.
func (d *decoder) keys(n strictyaml.Node) (string, *httplimit.Keys) {
	path, data := d.file(n)
	if data == nil {
		return path, nil
	}
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		var problem strictyaml.Problem
		errors.As(err, &problem)
		n.Problem("%s:%d: want a line for each key, the SHA-256 of the key and the name of who has it: %q", path, problem.Line, "6b51...: shop-a")
		return path, nil
	}
	hashes := make(map[string]string)
	for _, e := range doc.Root().Entries() {
		hashes[e.Name] = e.Value.Text()
	}
	// Only the line is told of what is wrong: a field that is no hash may be
	// the key itself.
	for _, problem := range doc.Problems() {
		n.Problem("%s:%d: %s", path, problem.Line, problem.Message)
	}
	keys, err := httplimit.ParseKeys(hashes)
	if err != nil {
		n.Problem("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return path, keys
}

// shortestHashKey is the least length of a key that hashes secrets.
const shortestHashKey = 16

func (d *decoder) hashKey(n strictyaml.Node) (string, []byte) {
	path, data := d.file(n)
	key := []byte(strings.TrimSpace(string(data)))
	if data != nil && len(key) < shortestHashKey {
		n.Problem("%s holds %d bytes: want at least %d random ones, as from openssl rand -hex 32", path, len(key), shortestHashKey)
	}
	return path, key
}

// identify builds what tells requests apart. Which values the limits name is
// looked up later, as the limits are read after the identities.
func (c *Config) identify() {
	key := c.Identity.hashKey
	if len(key) == 0 {
		// The same on every instance, and no secret: these hashes are as safe
		// as the secrets are hard to guess.
		sum := sha256.Sum256([]byte("sluice secrets under " + c.Prefix))
		key = sum[:]
	}
	c.hasher = httplimit.NewHasher(key)
	for _, a := range c.Identity.Attributes {
		i, err := httplimit.NewIdentity(httplimit.IdentityOptions{
			Name:     a.Name,
			Header:   a.Header,
			Required: a.Required,
			Secret:   a.Secret,
			Hasher:   c.hasher,
			Keys:     a.keys,
			Unknown:  a.Unknown,
			Named: func(value string) bool {
				return c.namedValues[a.Name][value] || c.named != nil && c.named(a.Name, value)
			},
		})
		if err != nil {
			i = nil // told already, where it stands
		}
		c.identities = append(c.identities, i)
	}
}

// lower returns the functions that make one of the spellings of identities.
func (c *Config) lower() map[string]func(string) string {
	functions := make(map[string]func(string) string)
	for _, a := range c.Identity.Attributes {
		if a.Lower {
			functions[a.Name] = strings.ToLower
		}
	}
	return functions
}
