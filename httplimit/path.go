package httplimit

import (
	"net"
	"net/http"
	"path"
	"strings"
)

// cleanPath returns the request's path in the form in which ServeMux routes it,
// so that two spellings of one resource are one value: without doubled slashes,
// "." and "..", and with every segment decoded. As ServeMux does, it takes an
// encoded slash for a part of its segment: that and an encoded percent sign
// stay encoded, so that different resources stay different.
func cleanPath(r *http.Request) string {
	u := r.URL
	if r.Method == http.MethodConnect {
		return u.Path // ServeMux takes it as it is
	}
	if u.RawPath == "" {
		p := cleanSlashes(u.Path)
		if strings.IndexByte(p, '%') < 0 {
			return p
		}
		return strings.ReplaceAll(p, "%", "%25")
	}
	return decodeSegments(cleanSlashes(u.EscapedPath()))
}

// cleanSlashes returns the shortest rooted path that means the same; a slash at
// the end stays, as it means something to ServeMux.
func cleanSlashes(p string) string {
	if p == "" {
		return "/"
	}
	rooted := p
	if p[0] != '/' {
		rooted = "/" + p
	}
	clean := path.Clean(rooted)
	if rooted[len(rooted)-1] != '/' || clean == "/" {
		return clean
	}
	if len(rooted) == len(clean)+1 && strings.HasPrefix(rooted, clean) {
		return rooted
	}
	return clean + "/"
}

// decodeSegments decodes a path but for encoded slashes and percent signs. The
// path comes from URL.EscapedPath: its escapes are valid.
func decodeSegments(p string) string {
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] != '%' || i+2 >= len(p) {
			b = append(b, p[i])
			continue
		}
		switch c := unhex(p[i+1])<<4 | unhex(p[i+2]); c {
		case '/':
			b = append(b, "%2F"...)
		case '%':
			b = append(b, "%25"...)
		default:
			b = append(b, c)
		}
		i += 2
	}
	return string(b)
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// hostName returns the host that the request asks, in lower case, without a
// port, a dot at the end, or the brackets of an IPv6 address.
func hostName(r *http.Request) string {
	host := r.Host
	if strings.IndexByte(host, ':') >= 0 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		} else {
			host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
