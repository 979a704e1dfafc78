package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// Options say how a Handler reads requests and answers them. The zero value
// believes no proxy, knows no identity, sends all fields, and answers 503 where
// nothing can be decided.
type Options struct {
	// Addresses says how the client's address, the attribute "ip", is found.
	Addresses Addresses
	// Identities say who asks: attributes such as "tenant".
	Identities []*Identity
	// Attributes are attributes of your own by their names. They stand before
	// the built-in ones: ip, method, path, host, route and header:NAME. They
	// are called from many goroutines, at most once a request.
	Attributes map[string]func(*http.Request) string
	// Normalize turns the spellings of an attribute's value into one, by the
	// attribute's name: strings.ToLower for a mail address, say. Identities
	// are normalised before they are looked up or hashed.
	Normalize map[string]func(string) string
	// Hasher hides the header of a secret identity where a limit reads that as
	// header:NAME too; nil: one with a random key, for a single process. Other
	// headers are read as they are; package policy keeps those that hold
	// secrets out of its keys.
	Hasher *Hasher

	// HideXRateLimit leaves out X-RateLimit-Limit, -Remaining and -Reset.
	HideXRateLimit bool
	// HideRateLimit leaves out the fields of
	// draft-ietf-httpapi-ratelimit-headers-11, RateLimit-Policy and RateLimit.
	HideRateLimit bool
	// PartitionKeys adds to these which counter was charged, as a hash.
	PartitionKeys bool
	// Jitter lengthens each wait told to a caller by a random time up to this
	// one, so that not all come back at once. It never shortens a wait.
	Jitter time.Duration

	// OnError says what happens when nothing can be decided.
	OnError ErrorMode
	// Logger is told of errors, at most once a second, and once of a proxy
	// that is not trusted; nil: nobody is.
	Logger *slog.Logger
	// Observe is told every verdict, or the error in place of one, before the
	// answer; nil: nobody is. Shadow limits are in the verdict's results. The
	// verdict must not be kept or changed. It is called from many goroutines.
	Observe func(*http.Request, *policy.Verdict, error)
	// Latency is told how long each request was kept, from its arrival to the
	// decision or the refusal's answer; nil: nobody is, and no clock is read.
	// It is called from many goroutines.
	Latency func(time.Duration)
}

// An ErrorMode says what happens to a request about which the engine cannot
// decide.
type ErrorMode uint8

// The error modes; the zero value refuses.
const (
	ErrorUnavailable ErrorMode = iota // answer 503
	ErrorAllow                        // pass
)

// A Handler stands before other handlers and passes on what its limits allow.
// It may be used from many goroutines.
type Handler struct {
	engine   *policy.Engine
	o        Options
	secrets  map[string]bool // headers of secret identities
	requests sync.Pool       // *request
	errors   errorLog
	warned   atomic.Bool
}

// New returns a handler that asks the engine, or an error that joins all that
// is wrong with the options.
func New(engine *policy.Engine, o Options) (*Handler, error) {
	errs := []error{o.validate()}
	if engine == nil {
		errs = append(errs, errors.New("the engine is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if o.Hasher == nil {
		o.Hasher = NewHasher(nil)
	}
	h := &Handler{engine: engine, o: o, errors: errorLog{logger: o.Logger}}
	h.secrets = make(map[string]bool)
	for _, i := range o.Identities {
		if i.secret {
			h.secrets[i.o.Header] = true
		}
	}
	h.requests.New = h.newRequest
	return h, nil
}

func (o *Options) validate() error {
	errs := []error{o.Addresses.Validate()}
	seen := make(map[string]bool)
	for n, i := range o.Identities {
		if i == nil {
			errs = append(errs, fmt.Errorf("identity %d is nil", n+1))
			continue
		}
		if seen[i.o.Name] {
			errs = append(errs, fmt.Errorf("identity %q stands twice", i.o.Name))
		}
		seen[i.o.Name] = true
		if o.Attributes[i.o.Name] != nil {
			errs = append(errs, fmt.Errorf("attribute %q is also an identity", i.o.Name))
		}
	}
	if o.Jitter < 0 {
		errs = append(errs, fmt.Errorf("jitter is %v: want 0 or more", o.Jitter))
	}
	return errors.Join(errs...)
}

// PerIP returns a handler that gives every client address one limit, written as
// [sluice.ParseLimit] reads it: "10/s", "100/m burst 20".
func PerIP(store sluice.Store, limit string, o Options) (*Handler, error) {
	parsed, err := sluice.ParseLimit(limit)
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	set, err := policy.NewSet([]policy.Limit{{Name: "ip", Key: []string{"ip"}, Default: parsed}})
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	return New(policy.NewEngine(store, set), o)
}

// Wrap returns a handler that calls next for requests that pass and answers the
// others. The attribute "route" is the pattern by which a ServeMux found the
// wrapped handler: it is empty where Wrap stands around the mux itself.
func (h *Handler) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Admit decides a request, with the pattern of its ServeMux as its route. If it
// returns false, the request is answered; else only headers are set and the
// request is the caller's to answer.
func (h *Handler) Admit(w http.ResponseWriter, r *http.Request) bool {
	return h.AdmitRoute(w, r, r.Pattern)
}

// AdmitRoute is Admit with a route of the caller's own.
func (h *Handler) AdmitRoute(w http.ResponseWriter, r *http.Request, route string) bool {
	q := h.requests.Get().(*request)
	q.r, q.route, q.addr = r, route, ""
	ok := h.timed(w, q)
	q.r = nil
	h.requests.Put(q)
	return ok
}

// timed is admit with its latency told.
func (h *Handler) timed(w http.ResponseWriter, q *request) bool {
	if h.o.Latency == nil {
		return h.admit(w, q)
	}
	began := time.Now()
	ok := h.admit(w, q)
	h.o.Latency(time.Since(began))
	return ok
}

// TrustsPeer says whether the request comes directly from a trusted proxy.
func (h *Handler) TrustsPeer(r *http.Request) bool { return h.o.Addresses.TrustsPeer(r) }

// admit charges first and turns away requests without identity then: the limits
// that need no identity hold for them too.
func (h *Handler) admit(w http.ResponseWriter, q *request) bool {
	h.warnProxy(q.r)
	without, why := q.identify()
	ask := policy.Request{Attributes: q.ask, N: 1}
	if without != nil {
		ask.Without = without.o.Name
	}
	err := h.engine.Decide(q.r.Context(), ask, &q.verdict)
	if h.o.Observe != nil {
		h.o.Observe(q.r, &q.verdict, err)
	}
	if err != nil {
		if !h.undecided(w, q.r, err) {
			return false
		}
	} else {
		jitter := h.jitter(q.verdict.Allowed)
		q.fields.write(w.Header(), &q.verdict, &h.o, jitter)
		if !q.verdict.Allowed {
			h.refuse(w, q, jitter)
			return false
		}
	}
	if without != nil {
		unidentified(w, q.r, without, why)
		return false
	}
	return true
}

func (h *Handler) jitter(allowed bool) time.Duration {
	if allowed || h.o.Jitter == 0 {
		return 0
	}
	return rand.N(h.o.Jitter + 1)
}

// warnProxy tells once that clients are hidden behind a proxy that is not
// trusted.
func (h *Handler) warnProxy(r *http.Request) {
	if h.o.Logger == nil || h.warned.Load() || !h.o.Addresses.Ignored(r) || h.warned.Swap(true) {
		return
	}
	h.o.Logger.Warn("X-Forwarded-For from a peer that is not a trusted proxy is ignored: if the peer is yours, all its clients share one limit until it is listed in trusted_proxies",
		slog.String("peer", r.RemoteAddr))
}
