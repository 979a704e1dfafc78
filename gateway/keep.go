package gateway

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// limitFields are the fields by which a limiter tells callers how they stand.
var limitFields = [...]string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	"Ratelimit-Policy", "Ratelimit",
}

// A keeper holds the limiter's fields until the answer's header is sent. The
// proxy would add an upstream's fields of the same names beside them, so that
// nobody could tell which hold, and lose all of them with an interim answer
// such as 103 Early Hints.
type keeper struct {
	http.ResponseWriter
	values [len(limitFields)][]string
	wrote  bool // the header is sent, or another's to send
}

var keepers = sync.Pool{New: func() any { return new(keeper) }}

// keep takes the limiter's fields out of the header; nil if there are none.
func keep(w http.ResponseWriter) *keeper {
	h := w.Header()
	if len(h) == 0 {
		return nil
	}
	var k *keeper
	for i, name := range limitFields {
		values, ok := h[name]
		if !ok {
			continue
		}
		if k == nil {
			k = keepers.Get().(*keeper)
			k.ResponseWriter = w
		}
		k.values[i] = values
		delete(h, name)
	}
	return k
}

// release gives the keeper back; nobody may write to it any more. The header of
// an answer without a body may still be to be sent.
func (k *keeper) release() {
	if !k.wrote {
		k.restore()
	}
	*k = keeper{}
	keepers.Put(k)
}

// WriteHeader puts the limiter's fields into every answer but interim ones.
func (k *keeper) WriteHeader(code int) {
	if code >= http.StatusOK && !k.wrote {
		k.restore()
	}
	k.ResponseWriter.WriteHeader(code)
}

// Hijack implements http.Hijacker: the proxy writes the answer to an upgrade
// itself, from the header as it is then.
func (k *keeper) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	k.restore()
	return http.NewResponseController(k.ResponseWriter).Hijack()
}

func (k *keeper) restore() {
	k.wrote = true
	h := k.Header()
	for i, values := range k.values {
		if values != nil {
			h[limitFields[i]] = values
		}
	}
}

// Write implements io.Writer.
func (k *keeper) Write(b []byte) (int, error) {
	if !k.wrote {
		k.WriteHeader(http.StatusOK)
	}
	return k.ResponseWriter.Write(b)
}

// FlushError implements what http.ResponseController flushes by.
func (k *keeper) FlushError() error {
	if !k.wrote {
		k.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(k.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController set deadlines.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }
