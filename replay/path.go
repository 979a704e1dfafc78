package replay

import (
	"bytes"
	"path"
	"strings"
)

// cleanPath returns a path as a gateway's limits see it, in the form in which
// ServeMux routes it, so that a replay meets the same limits: without doubled
// slashes, "." and "..", each segment decoded but for encoded slashes and
// percent signs. A path with a wrong escape, which a gateway turns away, stays
// as it is.
func cleanPath(raw []byte) string {
	p := string(raw)
	if !validEscapes(p) {
		return p
	}
	return decodeSegments(cleanSlashes(p))
}

func validEscapes(p string) bool {
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			continue
		}
		if _, ok := hexByte([]byte(p[i+1:])); !ok {
			return false
		}
	}
	return true
}

// cleanSlashes keeps a slash at the end, which means something to ServeMux.
func cleanSlashes(p string) string {
	clean := path.Clean("/" + p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/"
	}
	return clean
}

func decodeSegments(p string) string {
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			b.WriteByte(p[i])
			continue
		}
		switch c, _ := hexByte([]byte(p[i+1:])); c {
		case '/':
			b.WriteString("%2F")
		case '%':
			b.WriteString("%25")
		default:
			b.WriteByte(c)
		}
		i += 2
	}
	return b.String()
}

// hostName returns a host in small letters, without a port, the brackets of an
// IPv6 address or a dot at the end.
func hostName(raw []byte) string {
	host := raw
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && (bytes.IndexByte(host, ':') == i || i > 0 && host[i-1] == ']') {
		host = host[:i]
	}
	host = bytes.TrimSuffix(bytes.TrimPrefix(host, []byte{'['}), []byte{']'})
	return strings.ToLower(string(bytes.TrimSuffix(host, []byte{'.'})))
}
