package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/sluice-limiter/sluice/strictyaml"
)

func (d *decoder) admin(n strictyaml.Node) AdminConfig {
	m := n.Mapping("listen", "token_file")
	listen, token := m.Get("listen"), m.Get("token_file")
	c := AdminConfig{Listen: d.listen(listen)}
	var data []byte
	if c.TokenFile, data = d.file(token); data != nil {
		if _, err := parseToken(data); err != nil {
			token.Problem("%s: %v", c.TokenFile, err)
		}
	}
	switch {
	case c.Listen == "" && token.Exists() && !m.Misspelt("listen") && !listen.Exists():
		token.Problem("it is for the admin listener, and there is none: want admin.listen beside it")
	case c.Listen != "" && !token.Exists() && !m.Misspelt("token_file") && !loopback(c.Listen) && !strings.HasPrefix(c.Listen, "localhost:"):
		listen.Problem("%q is reached from other machines, and there is no token: want %s, or an address of this machine such as 127.0.0.1:9090", c.Listen, wantToken)
	}
	return c
}

const (
	wantToken = "admin.token_file, a file with a secret of at least 16 characters as from openssl rand -hex 32"
	// shortestToken and longestToken bound a token, in bytes.
	shortestToken = 16
	longestToken  = 4096
)

// parseToken returns the token that a file holds.
func parseToken(data []byte) (string, error) {
	token := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(token) < shortestToken:
		return "", fmt.Errorf("it holds %d characters: want one line of at least %d random ones, as from openssl rand -hex 32", len(token), shortestToken)
	case len(token) > longestToken:
		return "", fmt.Errorf("want one line of at most %d characters", longestToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("want one line without spaces, of ASCII characters alone, since a header carries it")
	}
	return token, nil
}

// readToken reads the token anew, so that another one counts from the next
// request on, also while the configuration has mistakes.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longestToken+3))
	if err != nil {
		return "", err
	}
	token, err := parseToken(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// A turnedAway request of the admin API is answered with a status and why.
type turnedAway struct {
	status int
	why    string
}

// admit says whether a request may reach a handler of the admin API; nil: it may.
//
// Without a token operators are those on this machine: the listener must be on a
// loopback address, and the request must name one, so that no web page can have a
// browser here read what it has no business with (DNS rebinding). They read and
// never write. With a token nobody is let in without it, from here neither: a
// browser has no token to send, so that the host does not matter.
func (s *Server) admit(r *http.Request, write bool) *turnedAway {
	path := s.started.Admin.TokenFile
	if path != "" {
		return admitToken(path, r.Header.Get("Authorization"))
	}
	switch {
	case !loopback(s.Addr("admin")):
		return &turnedAway{http.StatusForbidden, "without a token the admin API answers on a loopback address only: want " + wantToken}
	case !local(r.Host):
		return &turnedAway{http.StatusForbidden, "the admin API answers requests to this machine only: want the host 127.0.0.1, ::1 or localhost"}
	case write:
		return &turnedAway{http.StatusForbidden, "without a token the admin API reads and never writes: want " + wantToken}
	}
	return nil
}

// admitToken holds a request's token against that of the file, in a time that
// tells nothing of either.
func admitToken(path, authorization string) *turnedAway {
	scheme, given, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") || given == "" {
		return &turnedAway{http.StatusUnauthorized, "the token is missing: want the header Authorization: Bearer TOKEN, the token being that of admin.token_file"}
	}
	token, err := readToken(path)
	if err != nil {
		return &turnedAway{http.StatusServiceUnavailable, "admin.token_file: " + err.Error()}
	}
	want, have := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(want[:], have[:]) != 1 {
		return &turnedAway{http.StatusUnauthorized, "the token is not that of admin.token_file"}
	}
	return nil
}

// local says whether a Host field names this machine.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
