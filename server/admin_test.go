package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// admin asks the admin listener, by a host of one's own if it is not "".
func (r *running) admin(path, host string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequest("GET", "http://"+r.Addr("admin")+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Host = host
	res, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// page reads a page of the admin listener.
func (r *running) page(path string) string {
	r.t.Helper()
	_, body := r.admin(path, "")
	return body
}

const topYAML = `limits:
  - {name: key, key: [tenant], limit: 2/h}
  - {name: all, key: [], limit: 1000/h, shards: 10}
identity: {tenant: {header: X-Api-Key, required: false}}
gateway: {listen: '127.0.0.1:0', routes: [{id: a, match: /, upstream: 'UPSTREAM'}]}
admin: {listen: 'ADMIN'}
`

// TestTop: the admin API tells the keys, and no secret.
func TestTop(t *testing.T) {
	r := start(t, strings.Replace(topYAML, "ADMIN", "127.0.0.1:0", 1))
	r.statuses(5, "/", "X-Api-Key: very-secret")
	r.statuses(1, "/", "X-Api-Key: other-secret")
	code, body := r.admin("/v1/top", "")
	var answer topAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if len(answer.Limits) != 2 || answer.Limits[0].Name != "key" || len(answer.Limits[0].Busiest) != 2 {
		t.Fatalf("top: %s", body)
	}
	if k := answer.Limits[0].Busiest[0]; !strings.HasPrefix(k.Key, "key|tenant=") || k.Requests != 5 || k.Refused != 3 {
		t.Errorf("the busiest key: %+v, want 5 requests and 3 refused", k)
	}
	// In memory a key is not spread.
	if k := answer.Limits[1].Busiest[0]; k.Key != "all" || k.Requests != 6 || len(answer.Limits[0].Refused) != 1 {
		t.Errorf("the limit of all: %+v", k)
	}
	if strings.Contains(body, "secret") {
		t.Errorf("the answer tells a secret: %s", body)
	}
	for _, tt := range []struct {
		path, host string
		code       int
		body       string
	}{
		{"/v1/top?limit=all&n=1", "", 200, `{"limits":[{"limit":"all",`},
		{"/v1/top?limit=none", "", 404, `limit=\"none\": no limit has this name`},
		{"/v1/top?n=0", "", 400, "want a whole number from 1 to 1000"},
		{"/v1/top?n=x", "", 400, "want a whole number from 1 to 1000"},
		{"/v1/top", "localhost:9090", 200, `"limit":"key"`},
		{"/v1/top", "[::1]", 200, `"limit":"key"`},
		{"/v1/top", "rebound.example", 403, "this machine only"},
		{"/metrics", "rebound.example", 200, "sluice_build_info"},
	} {
		if code, body := r.admin(tt.path, tt.host); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s to host %q: %d %.200s, want %d and %s", tt.path, tt.host, code, body, tt.code, tt.body)
		}
	}
}
