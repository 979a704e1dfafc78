package gateway

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// TransportOptions bound the connections to upstreams. Zero values stand for
// the defaults named.
type TransportOptions struct {
	// Dial bounds the time to connect; 0: 5 s.
	Dial time.Duration
	// Response bounds the time from the request's end to the first byte of
	// the answer's headers; 0: 60 s.
	Response time.Duration
	// TLS says which upstreams with https are believed; nil: those that the
	// system's authorities vouch for. It is not changed.
	TLS *tls.Config
}

// A Transport talks to upstreams over HTTP/1.1, HTTP/2 with TLS and, where a
// route asks for it, HTTP/2 without. It may be shared by gateways that replace
// one another, so that a reload keeps its connections.
type Transport struct {
	plain, h2c *http.Transport
}

// NewTransport returns a transport. It keeps as many idle connections as there
// was use for, since a new connection for each request is what makes a proxy
// slow.
func NewTransport(o TransportOptions) *Transport {
	if o.Dial == 0 {
		o.Dial = 5 * time.Second
	}
	if o.Response == 0 {
		o.Response = 60 * time.Second
	}
	h2c := o.transport()
	h2c.Protocols = new(http.Protocols)
	h2c.Protocols.SetUnencryptedHTTP2(true)
	return &Transport{plain: o.transport(), h2c: h2c}
}

func (o *TransportOptions) transport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: o.Dial, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       o.TLS.Clone(),
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   o.Dial,
		ResponseHeaderTimeout: o.Response,
		ExpectContinueTimeout: time.Second,
		// What the upstream compressed stays so; what it did not, too.
		DisableCompression: true,
	}
}

// knownScheme says whether upstreams can have a scheme.
func knownScheme(scheme string) bool {
	return scheme == "http" || scheme == "https" || scheme == "h2c"
}

// of returns the transport for a scheme of an upstream.
func (t *Transport) of(scheme string) http.RoundTripper {
	if scheme == "h2c" {
		return t.h2c
	}
	return t.plain
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}
