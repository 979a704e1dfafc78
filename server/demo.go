package server

import (
	"fmt"
	"net/http"
	"path/filepath"
)

// demoYAML is the configuration of the demo.
const demoYAML = `store: memory
limits:
  - name: demo
    key: [ip]
    limit: 2/10s
gateway:
  listen: 127.0.0.1:8080
  routes:
    - {id: hello, match: /, upstream: "http://upstream.invalid"}
drain: {timeout: 5s}
`

// Demo returns the configuration that serves when there is no file: in memory,
// with an upstream of its own, two requests in ten seconds for each address. It
// listens at an address, "" meaning 127.0.0.1:8080.
func Demo(listen string) (*Config, error) {
	d := decoder{dir: filepath.Dir("")}
	c, err := d.parse("demo.yaml", []byte(demoYAML))
	if err != nil {
		return nil, err
	}
	c.Path = ""
	if listen != "" {
		c.Gateway.Listen = listen
	}
	route := &c.Gateway.Routes[0]
	route.Upstream, route.Handler = nil, http.HandlerFunc(hello)
	return c, nil
}

func hello(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Hello from the upstream: %s %s passed the limit.\n", r.Method, r.URL.Path)
}
