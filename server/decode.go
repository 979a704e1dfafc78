package server

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// A decoder reads a configuration, recording problems at their places.
type decoder struct {
	dir string // to which names of files are relative
}

func (d *decoder) config(n strictyaml.Node) *Config {
	m := n.Mapping("store", "prefix", "max_keys", "budget", "instances", "limits",
		"identity", "gateway", "admin", "drain")
	c := &Config{
		Store:     d.store(m.Get("store")),
		Prefix:    d.prefix(m.Get("prefix")),
		MaxKeys:   int(m.Get("max_keys").Int(0, 1, 1<<30)),
		Budget:    m.Get("budget").Duration(5*time.Millisecond, 100*time.Microsecond, 10*time.Second),
		Instances: int(m.Get("instances").Int(1, 1, 10_000)),
		Identity:  d.identity(m.Get("identity")),
		Gateway:   d.gateway(m.Get("gateway")),
		Admin:     AdminConfig{Listen: d.listen(m.Get("admin").Mapping("listen").Get("listen"))},
		Drain:     d.drain(m.Get("drain")),
	}
	if err := c.identify(); err != nil {
		m.Get("identity").Problem("%v", err)
	}
	c.limits(m.Get("limits"))
	return c
}

func (d *decoder) store(n strictyaml.Node) string {
	s := n.Text()
	if s == "" || s == "memory" {
		return "memory"
	}
	scheme, _, _ := strings.Cut(s, ":")
	n.Problem("unknown store %q: want memory", scheme)
	return s
}

func (d *decoder) prefix(n strictyaml.Node) string {
	s := n.Text()
	if strings.ContainsAny(s, "{} \t\r\n") || len(s) > 64 {
		n.Problem("%q: want at most 64 letters without spaces or braces, such as rl", s)
	}
	if s == "" {
		return "rl"
	}
	return s
}

// listen reads an address such as ":8080" or "127.0.0.1:9090".
func (d *decoder) listen(n strictyaml.Node) string {
	s := n.Text()
	if s == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(s)
	if p, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil && port != "" || port == "" && p == 0 {
		n.Problem("%q: want an address with a port, such as :8080 or 127.0.0.1:9090", s)
	}
	return s
}

func (d *decoder) drain(n strictyaml.Node) DrainConfig {
	m := n.Mapping("delay", "timeout")
	return DrainConfig{
		Delay:   m.Get("delay").Duration(0, 0, time.Hour),
		Timeout: m.Get("timeout").Duration(30*time.Second, 0, time.Hour),
	}
}

// file reads the name of a file that must be there.
func (d *decoder) file(n strictyaml.Node) string {
	name := n.Text()
	if name == "" {
		return ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.dir, name)
	}
	if _, err := os.Stat(name); err != nil {
		n.Problem("file %s cannot be read: want one that is there, its name relative to this file's folder", n.Text())
	}
	return name
}

func (d *decoder) identity(n strictyaml.Node) IdentityConfig {
	var c IdentityConfig
	for _, e := range n.Entries() {
		switch e.Name {
		case "ip":
			c.Addresses = d.addresses(e.Value)
		case "hash_key_file":
			c.HashKeyFile = d.file(e.Value)
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
	a := AttributeConfig{
		Name:     name,
		Header:   m.Need("header", "the header that carries it, such as X-Api-Key").Text(),
		Required: m.Get("required").Bool(false),
		Lower:    m.Get("lower").Bool(false),
		KeysFile: d.file(m.Get("keys")),
	}
	if secret := m.Get("secret"); secret.Exists() {
		a.Secret = httplimit.NotSecret
		if secret.Bool(true) {
			a.Secret = httplimit.Secret
		}
	}
	if a.KeysFile != "" {
		keys, err := loadKeys(a.KeysFile)
		if err != nil {
			m.Get("keys").Problem("%v", err)
		}
		a.keys = keys
	}
	a.Unknown, _ = httplimit.ParseUnknown(m.Get("unknown").OneOf("default", "default", "ip", "401"))
	if _, err := httplimit.NewIdentity(httplimit.IdentityOptions{Name: a.Name, Header: a.Header}); err != nil && a.Header != "" {
		n.Problem("%v", err)
	}
	return a
}

func (d *decoder) gateway(n strictyaml.Node) *GatewayConfig {
	if !n.Exists() {
		return nil
	}
	m := n.Mapping("listen", "routes", "tls", "max_body", "max_header", "read_header_timeout",
		"idle_timeout", "dial_timeout", "upstream_timeout", "headers")
	g := &GatewayConfig{
		Listen:            d.listen(m.Need("listen", "an address such as :8080")),
		Routes:            d.routes(m.Need("routes", "a list of routes")),
		MaxBody:           m.Get("max_body").Size(0, 0, 1<<50),
		MaxHeader:         m.Get("max_header").Size(64<<10, 1<<10, 16<<20),
		ReadHeaderTimeout: m.Get("read_header_timeout").Duration(10*time.Second, 100*time.Millisecond, time.Hour),
		IdleTimeout:       m.Get("idle_timeout").Duration(2*time.Minute, time.Second, 24*time.Hour),
		Transport: gateway.TransportOptions{
			Dial:     m.Get("dial_timeout").Duration(5*time.Second, time.Millisecond, time.Hour),
			Response: m.Get("upstream_timeout").Duration(60*time.Second, time.Millisecond, 24*time.Hour),
		},
		Headers: d.headers(m.Get("headers")),
	}
	if tls := m.Get("tls").Mapping("cert", "key"); m.Get("tls").Exists() {
		g.TLS.Cert = d.file(tls.Need("cert", "a file with the certificate in PEM"))
		g.TLS.Key = d.file(tls.Need("key", "a file with the certificate's key in PEM"))
		if _, err := loadCertificate(g.TLS); err != nil && g.TLS.Cert != "" && g.TLS.Key != "" {
			m.Get("tls").Problem("%v", err)
		}
	}
	return g
}

func (d *decoder) headers(n strictyaml.Node) HeaderConfig {
	m := n.Mapping("x_ratelimit", "ratelimit", "jitter")
	return HeaderConfig{
		HideXRateLimit: !m.Get("x_ratelimit").Bool(true),
		HideRateLimit:  !m.Get("ratelimit").Bool(true),
		Jitter:         m.Get("jitter").Duration(0, 0, time.Hour),
	}
}

func (d *decoder) routes(n strictyaml.Node) []gateway.Route {
	var routes []gateway.Route
	ids := make(map[string]int)
	for _, item := range n.Items() {
		m := item.Mapping("id", "match", "upstream")
		r := gateway.Route{
			ID:       m.Need("id", "a name such as create-order").Text(),
			Match:    m.Need("match", "a pattern such as POST /orders").Text(),
			Upstream: d.upstream(m.Need("upstream", "a URL such as http://127.0.0.1:9001")),
		}
		if line, ok := ids[r.ID]; ok && r.ID != "" {
			m.Get("id").Problem("%q is the id of the route on line %d already", r.ID, line)
		}
		ids[r.ID] = item.Line()
		// Each pattern is tried beside those before it: a conflict is told
		// where the second one stands.
		next := append(routes[:len(routes):len(routes)], r)
		if r.Match != "" {
			if _, err := gateway.Routes(next); err != nil {
				m.Get("match").Problem("%v", err)
				continue
			}
		}
		routes = next
	}
	return routes
}

func (d *decoder) upstream(n strictyaml.Node) *url.URL {
	u, err := url.Parse(n.Text())
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		n.Problem("%q: want a URL such as http://127.0.0.1:9001, its scheme http, https or h2c", n.Text())
		return &url.URL{}
	}
	return u
}

// loadKeys reads a keys file: the SHA-256 of each key, and whose it is.
func loadKeys(path string) (*httplimit.Keys, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.Parse(filepath.Base(path), data)
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string)
	for _, e := range doc.Root().Entries() {
		hashes[e.Name] = e.Value.Text()
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return httplimit.ParseKeys(hashes)
}
