package server

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-limiter/sluice/strictyaml"
)

// A source is a file that a configuration was read from, and what it held.
type source struct {
	path string
	sum  [sha256.Size]byte // zero: it could not be read
}

// read reads a file and notes it as a source, also if it cannot be read: it may
// come back.
func (d *decoder) read(path string) ([]byte, error) {
	s, data, err := readSource(path)
	d.sources = append(d.sources, s)
	return data, err
}

func readSource(path string) (source, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = fmt.Errorf("%s: %w", path, at.Err)
		}
		return source{path: path}, nil, err
	}
	return source{path, sha256.Sum256(data)}, data, nil
}

// changed says whether a file holds something else now.
func changed(sources []source) bool {
	for _, s := range sources {
		if now, _, _ := readSource(s.path); now != s {
			return true
		}
	}
	return false
}

// file reads the file that a value names; data is nil if there is none.
func (d *decoder) file(n strictyaml.Node) (path string, data []byte) {
	if !n.Exists() {
		return "", nil
	}
	path = n.TextAs("the name of a file")
	if path == "" {
		if n.IsText() {
			n.Problem("want the name of a file")
		}
		return "", nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.dir, path)
	}
	data, err := d.read(path)
	if err != nil {
		n.Problem("%v: want a file that can be read, its name relative to the folder of this one", err)
		return path, nil
	}
	return path, data
}

// tls reads a certificate and its key.
func (d *decoder) tls(n strictyaml.Node) TLSConfig {
	if !n.Exists() {
		return TLSConfig{}
	}
	m := n.Mapping("cert", "key")
	cert, certPEM := d.file(m.Need("cert", "a file with the certificate in PEM"))
	key, keyPEM := d.file(m.Need("key", "a file with the certificate's key in PEM"))
	c := TLSConfig{Cert: cert, Key: key}
	if certPEM == nil || keyPEM == nil {
		return c
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		n.Problem("%v: want a certificate and its key, both in PEM", err)
		return c
	}
	c.pair = &pair
	return c
}
