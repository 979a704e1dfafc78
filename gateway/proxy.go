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

// forward returns the proxy of one route. The caller's Host and query go on to
// the upstream as they came. What X-Forwarded fields say goes on only from
// proxies that are believed.
func (g *proxy) forward(route string, upstream *url.URL) http.Handler {
	target := *upstream
	if target.Scheme == "h2c" {
		target.Scheme = "http"
	}
	if target.Path != "" && target.Path[0] != '/' { // as url.URL.JoinPath leaves it
		target.Path, target.RawPath = "/"+target.Path, ""
	}
	return &httputil.ReverseProxy{
		Transport:  g.o.Transport.of(upstream.Scheme),
		BufferPool: buffers,
		ErrorLog:   log.New(io.Discard, "", 0), // ErrorHandler tells
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			p.SetURL(&target)
			p.Out.Host = p.In.Host
			g.setForwarded(p)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.failed(w, r, route, err)
		},
	}
}

// setForwarded says who asks, where and how. Behind a trusted proxy that is
// what it says, if it does.
func (g *proxy) setForwarded(p *httputil.ProxyRequest) {
	trusted := g.o.Limit != nil && g.o.Limit.TrustsPeer(p.In)
	if trusted {
		p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	}
	p.SetXForwarded()
	if !trusted {
		return
	}
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header[name]; len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// failed answers for an upstream that did not.
func (g *proxy) failed(w http.ResponseWriter, r *http.Request, route string, err error) {
	var large *http.MaxBytesError
	var caller *callerError
	switch {
	case errors.As(err, &large):
		tooLarge(w, r)
		return
	case r.Context().Err() != nil:
		// The caller is gone; nobody reads an answer.
		w.WriteHeader(http.StatusBadGateway)
		return
	case errors.As(err, &caller):
		httplimit.WriteProblem(w, r, httplimit.Problem{
			Status: http.StatusBadRequest,
			Detail: "The request's body could not be read.",
		})
		return
	}
	if g.o.Errors != nil {
		g.o.Errors(route, err)
	}
	httplimit.WriteProblem(w, r, problemOf(err))
}

// problemOf returns what a caller is told of an upstream's failure. What the
// error says is for the operator: it has addresses.
func problemOf(err error) httplimit.Problem {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return httplimit.Problem{
			Status: http.StatusGatewayTimeout,
			Title:  "Upstream too slow",
			Detail: "The service behind this gateway did not answer in time.",
		}
	}
	return httplimit.Problem{
		Status: http.StatusBadGateway,
		Title:  "Upstream failed",
		Detail: "The service behind this gateway could not be reached.",
	}
}

// buffers lends the memory through which bodies are copied.
var buffers = &bufferPool{}

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }
