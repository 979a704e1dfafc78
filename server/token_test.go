package server

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testToken is that of operators in tests.
const testToken = "an-operator's-token-0123456789"

func TestTokenInTheFile(t *testing.T) {
	for _, tt := range []struct {
		admin, token string
		want         string // a part of the error; "": none
	}{
		{"{listen: ':9090'}", "", `sluice.yaml:2: admin.listen: ":9090" is reached from other machines, and there is no token: want admin.token_file`},
		{"{listen: '0.0.0.0:9090'}", "", "want admin.token_file"},
		{"{listen: '192.0.2.7:9090'}", "", "want admin.token_file"},
		{"{listen: '127.0.0.1:9090'}", "", ""},
		{"{listen: 'localhost:9090'}", "", ""},
		{"{listen: '[::1]:9090'}", "", ""},
		{"{listen: ':9090', token_file: TOKEN}", "0123456789abcdef\n", ""},
		{"{listen: ':9090', token_file: TOKEN}", "0123456789abcde\n", "admin.token_file: TOKEN: it holds 15 characters: want one line of at least 16"},
		{"{listen: ':9090', token_file: TOKEN}", "", "it holds 0 characters"},
		{"{listen: ':9090', token_file: TOKEN}", "0123456789abcdef\nmore", "one line without spaces"},
		{"{listen: ':9090', token_file: TOKEN}", strings.Repeat("x", 4097), "at most 4096"},
		{"{listen: ':9090', token_file: TOKEN}", "0123456789abcdef世", "ASCII"},
		{"{listen: ':9090', token_file: TOKEN.none}", "x", "no such file"},
		{"{token_file: TOKEN}", "0123456789abcdef", "admin.token_file: it is for the admin listener, and there is none"},
		{"{listen: ':9090', token_fil: TOKEN}", "0123456789abcdef", "sluice.yaml:2: admin.token_fil: unknown field: did you mean token_file?"},
	} {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, tt.token)
		_, err := decode(t, wideYAML+"admin: "+strings.ReplaceAll(tt.admin, "TOKEN", path)+"\n")
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s with %q: %v", tt.admin, tt.token, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(tt.want, "TOKEN", path)) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s with %q: %v, want %q", tt.admin, tt.token, err, tt.want)
		case tt.token != "" && len(tt.token) > 5 && err != nil && strings.Contains(err.Error(), strings.TrimSpace(tt.token)):
			t.Errorf("%s: the error repeats the token: %v", tt.admin, err)
		}
	}
}

// A name of this machine may lead to an address of others.
func TestListenNeedsToken(t *testing.T) {
	c, err := decode(t, wideYAML+"admin: {listen: '127.0.0.1:0'}\n")
	if err != nil {
		t.Fatal(err)
	}
	c.Admin.Listen = ":0"
	s, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "admin.listen: [::]:") || !strings.Contains(err.Error(), "admin.token_file") {
		t.Errorf("Listen = %v, want that there is no token", err)
	}
}

func TestToken(t *testing.T) {
	r := start(t, strings.Replace(topYAML, "listen: 'ADMIN'", "listen: '0.0.0.0:0', token_file: token", 1), "token", testToken)
	for _, tt := range []struct {
		authorization string
		status        int
		body          string
	}{
		{"", 401, "the token is missing"},
		{"Bearer", 401, "the token is missing"},
		{"Bearer ", 401, "the token is missing"},
		{"Basic " + testToken, 401, "the token is missing"},
		{"Bearer " + testToken[1:], 401, "the token is not that of admin.token_file"},
		{"Bearer " + testToken + "x", 401, "the token is not"},
		{"Bearer  " + testToken, 401, "the token is not"},
		{"Bearer " + testToken, 200, `"limits"`},
		{"bearer " + testToken, 200, `"limits"`},
	} {
		res := r.call("GET", "/v1/top", "", "Authorization: "+tt.authorization, "Host: somewhere.example")
		if res.status != tt.status || !strings.Contains(res.body, tt.body) {
			t.Errorf("%q: %d %s, want %d and %q", tt.authorization, res.status, res.body, tt.status, tt.body)
		}
		if challenge := res.header.Get("WWW-Authenticate"); (challenge != "") != (tt.status == 401) {
			t.Errorf("%q: challenge %q", tt.authorization, challenge)
		}
	}
	for _, open := range []string{"/metrics", "/healthz", "/readyz", "/v1/openapi.json"} {
		if res := r.call("GET", open, ""); res.status != http.StatusOK {
			t.Errorf("%s: %d, want 200 without a token", open, res.status)
		}
	}
	// Another token counts at once, one that is none lets nobody in.
	other := strings.Repeat("another", 3)
	path := r.started.Admin.TokenFile
	replace(t, path, other+"\n")
	if old, now := r.call("GET", "/v1/top", "", "Authorization: Bearer "+testToken), r.call("GET", "/v1/top", "", "Authorization: Bearer "+other); old.status != 401 || now.status != 200 {
		t.Errorf("after another token the old one: %d, the new one: %d", old.status, now.status)
	}
	replace(t, path, "short")
	if res := r.call("GET", "/v1/top", "", "Authorization: Bearer short"); res.status != 503 || !strings.Contains(res.body, "admin.token_file: ") {
		t.Errorf("with a bad file: %d %s", res.status, res.body)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if res := r.call("GET", "/v1/top", "", "Authorization: Bearer "+other); res.status != 503 {
		t.Errorf("without the file: %d %s", res.status, res.body)
	}
	for _, secret := range []string{testToken, other} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("the log holds the token")
		}
	}
}

// Without a token this machine reads and never writes.
func TestWithoutToken(t *testing.T) {
	r := start(t, strings.Replace(topYAML, "ADMIN", "127.0.0.1:0", 1))
	for _, tt := range []struct {
		method, path, host string
		status             int
		body               string
	}{
		{"GET", "/v1/explain?tenant=a", "", 200, "limits"},
		{"GET", "/v1/explain?tenant=a", "rebound.example", 403, "this machine only"},
		{"POST", "/v1/reset", "", 403, "reads and never writes: want admin.token_file"},
		{"PUT", "/v1/rules", "", 403, "never writes"},
		{"PUT", "/v1/rules/1", "", 403, "never writes"},
		{"DELETE", "/v1/rules/1", "", 403, "never writes"},
		{"POST", "/v1/rules", "", 405, "want GET, PUT"},
		{"PATCH", "/v1/rules/1", "", 405, "want DELETE, GET, PUT"},
		{"GET", "/v2", "", 404, "/v1/openapi.json says"},
	} {
		if res := r.call(tt.method, tt.path, "{}", "Host: "+tt.host); res.status != tt.status || !strings.Contains(res.body, tt.body) {
			t.Errorf("%s %s: %d %s, want %d and %q", tt.method, tt.path, res.status, res.body, tt.status, tt.body)
		}
	}
}
