package httplimit

import (
	"net/http"
	"strings"

	"github.com/sluice-limiter/sluice/policy"
)

// A request is one request on its way through the limiter. It is used again for
// another, with the memory of its verdict and its one closure.
type request struct {
	h          *Handler
	r          *http.Request
	route      string
	addr       string
	identities []string // beside h.identities
	verdict    policy.Verdict
	fields     fields
	ask        policy.Attributes // attribute, bound once
}

func (h *Handler) newRequest() any {
	q := &request{h: h, identities: make([]string, len(h.o.Identities))}
	q.ask = q.attribute
	return q
}

// address returns the client's address as limits see it.
func (q *request) address() string {
	if q.addr == "" {
		q.addr = q.h.o.Addresses.Key(q.h.o.Addresses.Client(q.r))
	}
	return q.addr
}

// identify resolves the identities. It returns the first that the request
// lacks, or nil.
func (q *request) identify() (*Identity, denial) {
	var first *Identity
	var why denial
	for n, i := range q.h.o.Identities {
		value, d := i.resolve(q.r, q.h.o.Normalize[i.o.Name], q.address)
		q.identities[n] = value
		if d != identified && first == nil {
			first, why = i, d
		}
	}
	return first, why
}

// attribute reads an attribute of the request by its name.
func (q *request) attribute(name string) string {
	for n, i := range q.h.o.Identities {
		if i.o.Name == name {
			return q.identities[n] // normalised before it was hashed
		}
	}
	value := q.read(name)
	if normalize := q.h.o.Normalize[name]; normalize != nil {
		value = normalize(value)
	}
	return value
}

func (q *request) read(name string) string {
	if own := q.h.o.Attributes[name]; own != nil {
		return own(q.r)
	}
	switch name {
	case "ip":
		return q.address()
	case "method":
		return q.r.Method
	case "path":
		return cleanPath(q.r)
	case "host":
		return hostName(q.r)
	case "route":
		return q.route
	}
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		return q.header(header)
	}
	return ""
}

// header returns a header of the request; the lines of one that came more than
// once are joined, as RFC 9110 section 5.3 reads them. Of the header of a secret
// identity it returns the hash.
func (q *request) header(name string) string {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return q.r.Host
	}
	lines := q.r.Header[name]
	value := ""
	if len(lines) == 1 {
		value = lines[0]
	} else if len(lines) > 1 {
		value = strings.Join(lines, ", ")
	}
	if value != "" && q.h.secrets[name] {
		return q.h.o.Hasher.Hash(value)
	}
	return value
}
