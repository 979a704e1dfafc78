package gateway

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/sluice-limiter/sluice/httplimit"
)

// limited asks the limiter before h.
func (o *Options) limited(route string, h http.Handler) http.Handler {
	limit, maxBody := o.Limit, o.MaxBody
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit != nil && !limit.AdmitRoute(w, r, route) {
			return
		}
		if maxBody > 0 {
			if r.ContentLength > maxBody {
				tooLarge(w, r)
				return
			}
			if r.Body != nil && r.Body != http.NoBody {
				r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			}
		}
		h.ServeHTTP(w, r)
	})
}

// newProxy returns the proxy of one route. The caller's Host goes on to the
// upstream, as it chose the route. X-Forwarded-For goes on only as far as it
// can be believed.
func newProxy(upstream *url.URL, o *Options) http.Handler {
	target := *upstream
	if target.Scheme == "h2c" {
		target.Scheme = "http"
	}
	limit := o.Limit
	return &httputil.ReverseProxy{
		Transport:  o.Transport.of(upstream.Scheme),
		BufferPool: buffers,
		ErrorLog:   log.New(io.Discard, "", 0), // ErrorHandler tells
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&target)
			p.Out.Host = p.In.Host
			if limit != nil && limit.TrustsPeer(p.In) {
				p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			}
			p.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			upstreamFailed(w, r, err, o.Errors)
		},
	}
}

// upstreamFailed answers for an upstream that did not.
func upstreamFailed(w http.ResponseWriter, r *http.Request, err error, tell func(*http.Request, error)) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		tooLarge(w, r)
		return
	case r.Context().Err() != nil:
		// The caller is gone; nobody reads an answer.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if tell != nil {
		tell(r, err)
	}
	p := httplimit.Problem{
		Status: http.StatusBadGateway,
		Title:  "Upstream failed",
		Detail: "The service behind this gateway could not be reached.",
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		p = httplimit.Problem{
			Status: http.StatusGatewayTimeout,
			Title:  "Upstream too slow",
			Detail: "The service behind this gateway did not answer in time.",
		}
	}
	httplimit.WriteProblem(w, r, p)
}

func tooLarge(w http.ResponseWriter, r *http.Request) {
	httplimit.WriteProblem(w, r, httplimit.Problem{
		Status: http.StatusRequestEntityTooLarge,
		Title:  "Request body too large",
		Detail: "The request's body is larger than this gateway passes on.",
	})
}

// buffers lends the memory through which bodies are copied.
var buffers = &bufferPool{}

type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }
