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
	// CA is the file of the authority that signed its certificate.
	CA string
	// Cert and Key are the files of a certificate for a client.
	Cert, Key string
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
	s := &Secure{Redis: *r, CA: filepath.Join(r.Dir, "ca.pem"), Cert: filepath.Join(r.Dir, "client.pem"), Key: filepath.Join(r.Dir, "client.key")}
	s.ready = func() error {
		_, err := s.Do("PING")
		return err
	}
	if err := s.certify(); err != nil {
		s.Close()
		return nil, err
	}
	s.args = append([]string{
		"--bind", "127.0.0.1", "--port", "0", "--tls-port", strconv.Itoa(s.Port()), "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--logfile", "",
		"--tls-ca-cert-file", s.CA, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(s.Dir, "server.pem"), "--tls-key-file", filepath.Join(s.Dir, "server.key"),
	}, args...)
	return s, s.begin(ctx)
}

// certify writes an authority and the certificates that it signs.
func (s *Secure) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template(1, "test authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return err
	}
	server, client := template(2, "localhost"), template(3, "client")
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := errors.Join(
		writePEM(s.CA, "CERTIFICATE", der),
		sign(server, ca, key, filepath.Join(s.Dir, "server")),
		sign(client, ca, key, filepath.Join(s.Dir, "client")),
	); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	s.tls = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	s.tls.RootCAs.AddCert(authority)
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
