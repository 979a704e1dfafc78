package server

import (
	"crypto/tls"
	"sync/atomic"
)

// A certificate is what a listener shows; a renewed one can be put in its place
// while it listens.
type certificate struct {
	now atomic.Pointer[tls.Certificate]
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.now.Load(), nil
		},
	}
}
