package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sluice-limiter/sluice/servers"
)

// A site is one sluice serve, a process of its own.
type site struct {
	*servers.Process
	admin string // address
}

// siteYAML has a wide budget, so that a slow machine measures the store and not
// the fallback.
const siteYAML = `store: %q
budget: 1s
limits: %s
gateway:
  listen: %s
  routes:
    - {id: all, match: /, upstream: %q}
admin: {listen: %s}
`

// startSite starts the program sluice before an upstream, with limits as in a
// configuration file.
func startSite(ctx context.Context, program, store, limits, upstream string) (*site, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s := &site{admin: admin}
	ready := func() error {
		if _, err := fetch(ctx, "http://"+addr); err != nil {
			return err
		}
		if store == "memory" || limits == "[]" {
			return nil
		}
		if n, err := s.counted(ctx, "sluice_decisions_total", `source="store"`); err != nil || n == 0 {
			return errors.Join(err, errors.New("no decision of the store yet"))
		}
		return nil
	}
	text := fmt.Sprintf(siteYAML, store, limits, addr, upstream, admin)
	s.Process, err = servers.StartProgram(ctx, addr, map[string]string{"sluice.yaml": text}, ready,
		program, "serve", "-c", "sluice.yaml", "-level", "warn")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fallbacks returns how many decisions were made without the store.
func (s *site) fallbacks(ctx context.Context) (float64, error) {
	return s.counted(ctx, "sluice_fallback_decisions_total", "")
}

// counted adds up the series of a metric whose labels hold a text.
func (s *site) counted(ctx context.Context, name, label string) (float64, error) {
	text, err := fetch(ctx, "http://"+s.admin+"/metrics")
	total := 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, labels, _ := strings.Cut(series, "{")
		if metric != name || !strings.Contains(labels, label) {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			total += n
		}
	}
	return total, err
}

func freeAddr() (string, error) {
	port, err := servers.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// startUpstream starts what is limited: it does next to nothing.
func startUpstream() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello\n")
	}))
}

// startBalancer hands requests to each site in turn.
func startBalancer(sites []*site) *httptest.Server {
	var next atomic.Uint64
	return httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to := sites[next.Add(1)%uint64(len(sites))]
			r.SetURL(&url.URL{Scheme: "http", Host: to.Addr})
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	})
}
