package httplimit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// A Hasher turns secrets into what may be stored, logged and shown: the first
// 16 bytes of HMAC-SHA256 (RFC 2104) in hex, after "key:". Equal keys give equal
// hashes. It may be used from many goroutines.
type Hasher struct {
	states sync.Pool // *hasherState
}

type hasherState struct {
	mac hash.Hash
	in  []byte
	sum [sha256.Size]byte
	out [len(prefixSecret) + 2*secretBytes]byte
}

const secretBytes = 16

// isHash says whether a text has the form of a hash.
func isHash(text string) bool {
	digits, ok := strings.CutPrefix(text, prefixSecret)
	if !ok || len(digits) != 2*secretBytes {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}

// NewHasher returns a hasher with a key. Instances that share a store must have
// the same key, else each counts on its own; who changes the key starts every
// hashed counter afresh. An empty key stands for a random one, which serves a
// single process.
func NewHasher(key []byte) *Hasher {
	if len(key) == 0 {
		key = make([]byte, 32)
		rand.Read(key) // never fails
	} else {
		key = append([]byte(nil), key...)
	}
	h := &Hasher{}
	h.states.New = func() any { return &hasherState{mac: hmac.New(sha256.New, key)} }
	return h
}

// Hash returns the hash of a secret.
func (h *Hasher) Hash(secret string) string {
	s := h.states.Get().(*hasherState)
	defer h.states.Put(s)
	s.in = append(s.in[:0], secret...)
	s.mac.Reset()
	s.mac.Write(s.in)
	s.mac.Sum(s.sum[:0])
	clear(s.in)
	out := append(s.out[:0], prefixSecret...)
	out = hex.AppendEncode(out, s.sum[:secretBytes])
	return string(out)
}
