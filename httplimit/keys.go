package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys maps secrets to the names of those who hold them. It holds only hashes
// of the secrets, is immutable, and may be used from many goroutines.
type Keys struct {
	names   map[[sha256.Size]byte]string
	holders map[string]struct{}
}

// ParseKeys reads the content of a keys file: the SHA-256 of each secret in hex,
// optionally after "sha256:", and the name of its holder. An operator makes the
// hash with
//
//	printf %s SECRET | sha256sum
//
// Several secrets may have one name, so that a secret can be replaced without a
// gap. A plain hash is safe only for secrets that nobody can guess, as API keys
// are; the file should be readable to the server alone. The error joins all that
// is wrong and shows no more than the first four characters of an entry, as what
// is no hash may be the secret itself.
func ParseKeys(hashes map[string]string) (*Keys, error) {
	k := &Keys{
		names:   make(map[[sha256.Size]byte]string, len(hashes)),
		holders: make(map[string]struct{}),
	}
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(hashes)) {
		name := hashes[text]
		hash, ok := parseHash(text)
		if !ok {
			if _, turned := parseHash(name); turned {
				errs = append(errs, fmt.Errorf("key %s: it stands where the hash should and the hash where the name should: want SHA-256: name", clip(text)))
				continue
			}
			errs = append(errs, fmt.Errorf("key %s of %s: want the 64 hex digits of a SHA-256, then the name", clip(text), clip(name)))
			continue
		}
		if err := checkName(name); err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", clip(text), err))
			continue
		}
		if other, ok := k.names[hash]; ok && other != name {
			errs = append(errs, fmt.Errorf("key %s names both %q and %q", clip(text), other, name))
		}
		k.names[hash] = name
		k.holders[name] = struct{}{}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return k, nil
}

// Len returns the number of secrets.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.names)
}

// Has says whether a secret belongs to the name.
func (k *Keys) Has(name string) bool {
	if k == nil {
		return false
	}
	_, ok := k.holders[name]
	return ok
}

// name returns the holder of a secret.
func (k *Keys) name(secret string) (string, bool) {
	if k == nil {
		return "", false
	}
	name, ok := k.names[sha256.Sum256([]byte(secret))]
	return name, ok
}

func parseHash(text string) (hash [sha256.Size]byte, ok bool) {
	if cut, found := strings.CutPrefix(text, "sha256:"); found {
		text = cut
	}
	if len(text) != 2*sha256.Size {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(text))
	return hash, err == nil
}

// checkName refuses names that could be taken for a value made here.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case reserved(name):
		return fmt.Errorf("name %q: names must not begin with %q, %q or %q", name, prefixAddress, prefixSecret, prefixValue)
	}
	return nil
}

func clip(text string) string {
	if len(text) > 8 {
		text = text[:4] + "..."
	} else {
		text = "(too short to show)"
	}
	return strings.ToValidUTF8(text, "?")
}
