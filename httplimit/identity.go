package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// Values of an identity that are made here begin with a word of their own, so
// that no caller can be counted as another by its choice of name.
const (
	prefixAddress = "ip:"    // the client's address in place of an identity
	prefixSecret  = "key:"   // a hashed secret
	prefixValue   = "value:" // a plain value that begins like one of these
)

func reserved(value string) bool {
	return strings.HasPrefix(value, prefixAddress) ||
		strings.HasPrefix(value, prefixSecret) || strings.HasPrefix(value, prefixValue)
}

// IdentityOptions describe one attribute that says who asks, such as tenant.
type IdentityOptions struct {
	// Name is the attribute.
	Name string
	// Header carries the identity. Of Authorization it is the credentials
	// without the scheme.
	Header string
	// Required turns away requests without the header: 401.
	Required bool
	// Secret says whether the value is a secret; zero: X-Api-Key and
	// Authorization are.
	Secret Secrecy
	// Hasher hides secrets; nil: one with a random key, for a single process.
	Hasher *Hasher
	// Keys gives secrets, or plain values, the names of their holders; nil:
	// none has a name. With Keys, rules know identities by these names only.
	Keys *Keys
	// Unknown says what becomes of values without a name.
	Unknown Unknown
	// Named says whether a rule names a value of the attribute, which then is
	// not unknown; nil: none does. Of a secret it is told the hash, see
	// [Identity.RuleValue]. It is called from many goroutines.
	Named func(value string) bool
	// Challenge is sent as WWW-Authenticate with a 401; "": "Bearer" for
	// Authorization, else "ApiKey" with the header's name.
	Challenge string
}

// Secrecy says whether an identity is secret.
type Secrecy uint8

// The secrecies; the zero value decides by the header.
const (
	SecretByHeader Secrecy = iota
	Secret
	NotSecret
)

// Unknown says what becomes of an identity that neither the keys nor a rule
// name.
type Unknown uint8

// The zero value is UnknownDefault.
const (
	// UnknownDefault counts each value by itself: whoever makes up values has
	// a fresh counter for each. It needs a limit by address beside it.
	UnknownDefault Unknown = iota
	// UnknownAddressed counts the request by its address instead, also where
	// the header is missing but not required.
	UnknownAddressed
	// UnknownRefused turns the request away: 401.
	UnknownRefused
)

// ParseUnknown reads the names of configuration: default, ip or 401.
func ParseUnknown(s string) (Unknown, error) {
	switch s {
	case "default":
		return UnknownDefault, nil
	case "ip":
		return UnknownAddressed, nil
	case "401":
		return UnknownRefused, nil
	}
	return 0, fmt.Errorf("unknown is %q: want default, ip or 401", s)
}

// An Identity finds out who asks. Nothing that it returns, logs or counts by is
// a secret. It may be used from many goroutines.
type Identity struct {
	o      IdentityOptions
	secret bool
	keys   atomic.Pointer[Keys]
}

// NewIdentity returns an identity, or an error that joins all that is wrong.
func NewIdentity(o IdentityOptions) (*Identity, error) {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("identity: want the name of an attribute"))
	}
	if o.Header == "" || strings.ContainsAny(o.Header, " :\t\r\n") {
		errs = append(errs, fmt.Errorf("identity %q: header %q: want a header's name such as X-Api-Key", o.Name, o.Header))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o.Header = http.CanonicalHeaderKey(o.Header)
	if o.Challenge == "" {
		o.Challenge = `ApiKey header="` + o.Header + `"`
		if o.Header == "Authorization" {
			o.Challenge = "Bearer"
		}
	}
	i := &Identity{o: o}
	i.secret = o.Secret == Secret ||
		o.Secret == SecretByHeader && (o.Header == "X-Api-Key" || o.Header == "Authorization")
	if i.secret && o.Hasher == nil {
		i.o.Hasher = NewHasher(nil)
	}
	i.keys.Store(o.Keys)
	return i, nil
}

// Name returns the attribute.
func (i *Identity) Name() string { return i.o.Name }

// Header returns the header that carries the identity, in its canonical form.
func (i *Identity) Header() string { return i.o.Header }

// SetKeys puts other keys in force; requests under way keep theirs.
func (i *Identity) SetKeys(k *Keys) { i.keys.Store(k) }

// RuleValue returns what a value written in a rule must become to match. A
// secret that has no name in the keys becomes its hash, so that also the rules
// hold no secret; names, hashes and plain values stay. With keys a rule speaks
// of names only, so all stays.
func (i *Identity) RuleValue(text string) string {
	if !i.secret || text == "" || reserved(text) || i.keys.Load() != nil {
		return text
	}
	return i.o.Hasher.Hash(text)
}

// Judge returns what limits see of an identity as a person writes it: the name
// of a holder, a key, a plain value, or a hash made here. known is false where
// neither the keys nor a rule name it; the value is then the one that
// [UnknownDefault] counts by. A value returned is never a secret.
func (i *Identity) Judge(text string) (value string, known bool) {
	keys := i.keys.Load()
	if keys.Has(text) {
		return text, true
	}
	if name, ok := keys.name(text); ok {
		return name, true
	}
	if isHash(text) || !i.secret && reserved(text) {
		return text, i.o.Named != nil && i.o.Named(text)
	}
	return i.value(text)
}

// HeaderValue returns what limits see of a value of the identity's header that
// they read as header:NAME: the hash of a secret, also where it stands already.
func (i *Identity) HeaderValue(text string) string {
	if !i.secret || text == "" || isHash(text) {
		return text
	}
	return i.o.Hasher.Hash(text)
}

// A denial is why a request has no identity.
type denial uint8

const (
	identified denial = iota
	missing           // 401: required and not there
	rejected          // 401: not known
	repeated          // 400: the header came more than once
)

// resolve returns the value of the attribute for a request. address is asked
// only where the address stands in for the identity.
func (i *Identity) resolve(r *http.Request, normalize func(string) string, address func() string) (string, denial) {
	lines := r.Header[i.o.Header]
	if len(lines) > 1 {
		// To pick one would be to let the caller choose which one counts,
		// while the service behind may pick the other.
		return "", repeated
	}
	raw := ""
	if len(lines) == 1 {
		raw = i.read(lines[0])
	}
	if raw != "" && normalize != nil {
		raw = normalize(raw)
	}
	switch {
	case raw == "" && i.o.Required:
		return "", missing
	case raw == "" && i.o.Unknown == UnknownAddressed:
		return prefixAddress + address(), identified
	case raw == "":
		return "", identified
	}
	if name, ok := i.keys.Load().name(raw); ok {
		return name, identified
	}
	value, named := i.value(raw)
	switch {
	case named || i.o.Unknown == UnknownDefault:
		return value, identified
	case i.o.Unknown == UnknownAddressed:
		return prefixAddress + address(), identified
	}
	return "", rejected
}

// value returns what stands for a value without a name in the keys, and
// whether a rule names it.
func (i *Identity) value(raw string) (value string, named bool) {
	switch {
	case i.secret:
		value = i.o.Hasher.Hash(raw)
	case reserved(raw) || i.keys.Load().Has(raw):
		// Neither a value made here nor a name that only a key gives can be
		// claimed by writing it.
		value = prefixValue + raw
	default:
		value = raw
	}
	return value, i.o.Named != nil && i.o.Named(value)
}

// read returns the identity in a header's value.
func (i *Identity) read(line string) string {
	if i.o.Header != "Authorization" {
		return line
	}
	return credentials(line)
}

// credentials returns what follows the scheme in an Authorization header. The
// scheme does not matter, nor does its case: "apikey K", "ApiKey K" and a bare
// "K" are one caller. A scheme without credentials is none.
func credentials(line string) string {
	line = strings.Trim(line, " \t")
	if at := strings.IndexAny(line, " \t"); at >= 0 {
		return strings.TrimLeft(line[at:], " \t")
	}
	for _, scheme := range [...]string{"Bearer", "ApiKey", "Basic", "Token"} {
		if strings.EqualFold(line, scheme) {
			return ""
		}
	}
	return line
}
