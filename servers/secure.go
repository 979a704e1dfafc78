package servers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A Secure is a redis-server that speaks TLS only.
type Secure struct {
	Redis
	*Authority
}

// An Authority signs the certificates of servers that speak TLS only, for
// 127.0.0.1 and localhost, and of their clients.
type Authority struct {
	// CA is the file of the authority's own certificate.
	CA string
	// Cert and Key are the files of a certificate for a client.
	Cert, Key string

	dir    string
	client *tls.Config
}

// StartRedisTLS starts a redis-server that speaks TLS only, under a certificate
// of an authority of its own for 127.0.0.1 and localhost. It asks for no
// client's certificate, unless the arguments say "--tls-auth-clients", "yes".
// Users are added as in "--user", "name", "on", ">password", "~*", "+@all".
func StartRedisTLS(ctx context.Context, args ...string) (*Secure, error) {
	r, err := newRedis(nil)
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(r.Dir)
	if err != nil {
		r.Close()
		return nil, err
	}
	r.secure(a, args...)
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	return &Secure{*r, a}, nil
}

// secure lets a server that is not started yet speak TLS alone.
func (r *Redis) secure(a *Authority, args ...string) {
	r.tls = a.client
	r.args = r.plainArgs("--port", "0", "--tls-port", strconv.Itoa(r.Port()), "--tls-auth-clients", "no")
	for name, file := range a.files() {
		r.args = append(r.args, "--"+name, file)
	}
	r.args = append(r.args, args...)
}

// files returns a server's settings that name files.
func (a *Authority) files() map[string]string {
	return map[string]string{
		"tls-ca-cert-file": a.CA,
		"tls-cert-file":    filepath.Join(a.dir, "server.pem"),
		"tls-key-file":     filepath.Join(a.dir, "server.key"),
	}
}

// newAuthority writes an authority and the certificates that it signs into a
// folder.
func newAuthority(dir string) (*Authority, error) {
	a := &Authority{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"),
		dir: dir,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template(1, "test authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	server, client := template(2, "localhost"), template(3, "client")
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := errors.Join(
		writePEM(a.CA, "CERTIFICATE", der),
		sign(server, ca, key, filepath.Join(dir, "server")),
		sign(client, ca, key, filepath.Join(dir, "client")),
	); err != nil {
		return nil, err
	}
	return a, a.trust(der)
}

// tempAuthority returns an authority in a folder of its own, for several servers.
func tempAuthority() (*Authority, error) {
	dir, err := os.MkdirTemp("", "sluice-authority-")
	if err != nil {
		return nil, err
	}
	a, err := newAuthority(dir)
	if err != nil {
		os.RemoveAll(dir)
	}
	return a, err
}

// url completes a store's URL whose scheme and files depend on TLS.
func (a *Authority) url(rest string) string {
	if a == nil {
		return "redis" + rest
	}
	return "rediss" + rest + "?ca=" + a.CA + "&cert=" + a.Cert + "&key=" + a.Key
}

// close removes the folder of an authority of several servers.
func (a *Authority) close() {
	if a != nil {
		os.RemoveAll(a.dir)
	}
}

// trust sets how a client speaks with the servers.
func (a *Authority) trust(der []byte) error {
	pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	a.client = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	a.client.RootCAs.AddCert(authority)
	return nil
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign writes a certificate and its key to base.pem and base.key.
func sign(cert, ca *x509.Certificate, caKey *ecdsa.PrivateKey, base string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(base+".pem", "CERTIFICATE", der), writePEM(base+".key", "EC PRIVATE KEY", private))
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
