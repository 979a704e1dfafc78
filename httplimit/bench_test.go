package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/store/memory"
)

// A sink is a response of which only the headers are kept.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// BenchmarkAdmit measures what the limiter adds to a request.
func BenchmarkAdmit(b *testing.B) {
	ip := policy.Limit{Name: "ip", Key: []string{"ip"}, Default: limit(b, "1000000/s")}
	tenant := policy.Limit{Name: "tenant-route", Key: []string{"tenant", "route"}, Default: limit(b, "1000000/s")}
	empty := ip
	empty.Default = limit(b, "1/366days")
	for _, bb := range []struct {
		name   string
		limits []policy.Limit
		o      Options
	}{
		{"ip", []policy.Limit{ip}, Options{}},
		{"ip/one-style", []policy.Limit{ip}, Options{HideRateLimit: true}},
		{"ip/no-headers", []policy.Limit{ip}, Options{HideRateLimit: true, HideXRateLimit: true}},
		{"ip+tenant", []policy.Limit{ip, tenant}, Options{Identities: []*Identity{identity(b, IdentityOptions{Header: "X-Api-Key"})}}},
		{"refused", []policy.Limit{empty}, Options{}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := handler(b, engine(b, memory.New(memory.Options{}), bb.limits...), bb.o)
			r := httptest.NewRequest("GET", "/orders/1", nil)
			r.Header.Set("X-Api-Key", "sk_live_0123456789abcdef")
			w := &sink{h: make(http.Header)}
			h.AdmitRoute(w, r, "orders")
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.AdmitRoute(w, r, "orders")
			}
		})
	}
}
