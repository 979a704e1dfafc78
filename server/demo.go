package server

import (
	"fmt"
	"net/http"
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
    - {id: hello, match: GET /, upstream: "http://127.0.0.1:1"}
`

// Demo returns the configuration that serves when there is no file: in memory,
// with an upstream of its own, two requests in ten seconds for each address.
func Demo() (*Config, error) {
	c, err := parse("demo.yaml", []byte(demoYAML))
	if err != nil {
		return nil, err
	}
	c.Path = ""
	c.Gateway.Routes[0].Upstream = nil
	c.Gateway.Routes[0].Handler = http.HandlerFunc(hello)
	return c, nil
}

func hello(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Hello from the upstream: %s %s passed the limit.\n", r.Method, r.URL.Path)
}
