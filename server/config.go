// Package server makes a running server of one configuration file: its
// listeners, its limits, what is reloaded while it runs, and how it stops.
package server

import (
	"crypto/tls"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-limiter/sluice/gateway"
	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/strictyaml"
)

// A Config is a configuration file that was read and found right.
type Config struct {
	// Path is the file; "" for the built-in demo.
	Path string
	// Store is where counters are kept: "memory".
	Store string
	// Prefix begins every key in a store that is shared.
	Prefix string
	// MaxKeys bounds the counters kept in this process; 0: about a million.
	MaxKeys int
	// Budget is the longest that a decision may take.
	Budget time.Duration
	// Instances is how many servers share the store until they are counted.
	Instances int
	// Set holds the limits.
	Set *policy.Set
	// Rules says where more overrides come from; nil: only the file has some.
	Rules *RulesConfig
	// Identity says how requests are told apart.
	Identity IdentityConfig
	// Gateway is the reverse proxy; nil: none.
	Gateway *GatewayConfig
	// Admin is the listener for operators; its Listen is "" for none.
	Admin AdminConfig
	// Drain says how the server stops.
	Drain DrainConfig
	// Warnings are what is allowed and perhaps not meant, "file:line: ...".
	Warnings []string

	// Made of the above; they do not change any more.
	sources     []source
	hasher      *httplimit.Hasher
	identities  []*httplimit.Identity
	namedValues map[string]map[string]bool         // by attribute
	named       func(attribute, value string) bool // by the rows in force; nil: none
}

// A RulesConfig says where overrides come from that change while the server
// runs.
type RulesConfig struct {
	// URL is that of the PostgreSQL database whose table rate_limit_rule holds
	// them.
	URL string
	// Poll is the time between looks at the table.
	Poll time.Duration
	// Changed is a Kafka topic whose messages make the server look; "": none.
	Changed string
	// Snapshot is the file that keeps the rules for a start without the
	// database; "": none.
	Snapshot string

	source string // where it stands: "file:line"
}

// An IdentityConfig says who asks.
type IdentityConfig struct {
	Addresses httplimit.Addresses
	// Attributes are the identities, such as tenant.
	Attributes []AttributeConfig
	// HashKeyFile holds the key with which secrets are hashed; "": one made
	// of the prefix, so that all instances hash alike.
	HashKeyFile string

	hashKey []byte
}

// An AttributeConfig is one identity.
type AttributeConfig struct {
	Name     string
	Header   string
	Required bool
	Secret   httplimit.Secrecy
	KeysFile string // "": none
	Unknown  httplimit.Unknown
	Lower    bool // letters of either case are one

	source string // where it stands: "file:line"
	keys   *httplimit.Keys
}

// A GatewayConfig describes the reverse proxy.
type GatewayConfig struct {
	Listen            string
	Routes            []gateway.Route
	TLS               TLSConfig
	MaxBody           int64 // bytes; 0: no bound
	MaxHeader         int64 // bytes
	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration
	Transport         gateway.TransportOptions
	Headers           HeaderConfig

	source string // where it stands: "file:line"
}

// A HeaderConfig says which fields tell callers how they stand.
type HeaderConfig struct {
	HideXRateLimit bool
	HideRateLimit  bool
	Jitter         time.Duration
}

// A TLSConfig names the files of a certificate; the zero value: no TLS.
type TLSConfig struct {
	Cert, Key string

	pair *tls.Certificate
}

// An AdminConfig describes the listener for operators.
type AdminConfig struct {
	Listen string
	// TokenFile holds the token of operators; "": there is none, and a listener
	// that only this machine reaches reads and never writes.
	TokenFile string
}

// A DrainConfig says how the server stops.
type DrainConfig struct {
	// Delay is how long the server still takes new requests after it began to
	// say that it is not ready, so that balancers notice.
	Delay time.Duration
	// Timeout is how long requests under way may take then.
	Timeout time.Duration
}

// Load reads a configuration file. The error has a line for each thing that is
// wrong: "file:line: field: message".
func Load(path string) (*Config, error) {
	c, _, err := load(path)
	return c, err
}

// load also returns the files that were read, even if they were found wrong.
func load(path string) (*Config, []source, error) {
	d := decoder{dir: filepath.Dir(path)}
	data, err := d.read(path)
	if err != nil {
		return nil, d.sources, err
	}
	c, err := d.parse(path, data)
	return c, d.sources, err
}

// parse reads a configuration that stands in the file path, to whose folder the
// names of other files are relative.
func (d *decoder) parse(path string, data []byte) (*Config, error) {
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		return nil, err
	}
	c := d.config(doc)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	c.Path, c.sources = path, d.sources
	return c, nil
}

// Value returns what limits see of an attribute whose value was written by a
// person: of an address its network, of a secret its hash.
func (c *Config) Value(attribute, text string) string {
	if attribute == "ip" {
		if addr, err := netip.ParseAddr(text); err == nil {
			return c.Identity.Addresses.Key(addr)
		}
		return text
	}
	if i := c.headerOf(attribute); i != nil {
		return i.HeaderValue(text)
	}
	for i, a := range c.Identity.Attributes {
		if a.Name != attribute {
			continue
		}
		if a.Lower {
			text = strings.ToLower(text)
		}
		return c.identities[i].RuleValue(text)
	}
	return text
}

// loopback says whether only this machine can reach an address.
func loopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().IsLoopback()
}
