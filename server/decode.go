package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/store/redis"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// A decoder reads a configuration, recording problems at their places.
type decoder struct {
	dir     string // to which names of files are relative
	sources []source
}

func (d *decoder) config(doc *strictyaml.Document) *Config {
	m := doc.Root().Mapping("store", "prefix", "max_keys", "budget", "instances", "limits",
		"rules", "identity", "gateway", "admin", "drain")
	c := &Config{
		Store:     d.store(m.Get("store")),
		Prefix:    d.prefix(m.Get("prefix")),
		MaxKeys:   int(m.Get("max_keys").Int(0, 1, 1<<30)),
		Budget:    m.Get("budget").Duration(5*time.Millisecond, 100*time.Microsecond, 10*time.Second),
		Instances: int(m.Get("instances").Int(1, 1, 10_000)),
		Rules:     d.rules(m.Get("rules")),
		Identity:  d.identity(m.Get("identity")),
		Gateway:   d.gateway(m.Get("gateway")),
		Admin:     d.admin(m.Get("admin")),
		Drain:     d.drain(m.Get("drain")),
	}
	c.identify()
	limits := m.Need("limits", "a list of limits")
	attributes := c.attributes()
	if identity := m.Get("identity"); m.Misspelt("identity") || identity.Exists() && !identity.IsMapping() {
		attributes = nil // which there are is not known
	}
	decoded := c.limits(limits, attributes)
	if doc.Err() != nil {
		return c // nothing is made of what is wrong
	}
	if err := c.index(decoded); err != nil {
		// What can be wrong was told where it stands; a set that is refused
		// without that is a mistake of this program, and no panic.
		limits.Problem("%v", err)
	}
	return c
}

func (d *decoder) store(n strictyaml.Node) string {
	s := n.Text()
	if s == "" || s == "memory" {
		return "memory"
	}
	// What is wrong with a URL is told without repeating it: it may hold a
	// password.
	if err := redis.CheckURL(s); err != nil {
		n.Problem("want memory or a URL: %s", strings.TrimPrefix(err.Error(), "redis: url: "))
	}
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
	const want = "an address with a port, such as :8080 or 127.0.0.1:9090"
	s := n.TextAs(want)
	if !n.IsText() {
		return ""
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		n.Problem("%q: want %s", s, want)
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
		source:  n.Source(),
	}
	g.TLS = d.tls(m.Get("tls"))
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
	var table gateway.Table
	ids := make(map[string]strictyaml.Node)
	var added []strictyaml.Node // beside the routes of the table
	for _, item := range n.Items() {
		m := item.Mapping("id", "match", "upstream")
		r := gateway.Route{
			ID:       m.Need("id", "a name such as create-order").TextAs("a name such as create-order"),
			Match:    m.Need("match", "a pattern such as POST /orders").TextAs("a pattern such as POST /orders"),
			Upstream: d.upstream(m.Need("upstream", "a URL such as http://127.0.0.1:9001")),
		}
		if first, ok := ids[r.ID]; ok && r.ID != "" {
			m.Get("id").Problem("%q is the id of %s already: want another", r.ID, place(first))
		} else {
			ids[r.ID] = item
		}
		// A conflict is told where the second pattern stands.
		if match := m.Get("match"); match.IsText() {
			if err := table.Add(r.ID, r.Match); err != nil {
				match.Problem("%s", explainPattern(err, added))
			} else {
				added = append(added, item)
			}
		}
		routes = append(routes, r)
	}
	return routes
}

// place returns where a value stands: "gateway.routes[0] (sluice.yaml:12)".
func place(n strictyaml.Node) string { return n.Field() + " (" + n.Source() + ")" }

// explainPattern says what is wrong with a route's pattern, and of a conflict
// where the other route stands.
func explainPattern(err error, added []strictyaml.Node) string {
	var conflict *gateway.ConflictError
	if !errors.As(err, &conflict) {
		return err.Error()
	}
	first := place(added[conflict.First])
	if conflict.Pattern == conflict.FirstPattern {
		return fmt.Sprintf("pattern %q is that of %s already: want another", conflict.Pattern, first)
	}
	return fmt.Sprintf("pattern %q is in conflict with %q of %s: %s: want another",
		conflict.Pattern, conflict.FirstPattern, first, conflict.Why)
}

func (d *decoder) upstream(n strictyaml.Node) *url.URL {
	const want = "a URL such as http://127.0.0.1:9001"
	text := n.TextAs(want)
	u, err := url.Parse(text)
	switch {
	case !n.IsText():
	case text == "":
		n.Problem("want %s", want)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		n.Problem("%q: want %s, its scheme http, https or h2c", text, want)
	case u.User != nil:
		n.Problem("want a URL without a user and a password, which would go to nobody")
	case u.RawQuery != "" || u.Fragment != "":
		n.Problem("%q: want a URL that ends with its path", text)
	default:
		return u
	}
	return &url.URL{}
}
