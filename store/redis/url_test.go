package redis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
)

// plain is what of a target can be compared; passwords are read.
type plain struct {
	Mode           rueidis.ClientMode
	Addrs          []string
	Master         string
	DB             int
	TLS            bool
	CA, Cert, Key  string
	User, Password string
	Guide, Word    string
}

func flatten(t *testing.T, from *target) plain {
	t.Helper()
	user, password, err := from.login.read()
	if err != nil {
		t.Fatal(err)
	}
	guide, word, err := from.guide.read()
	if err != nil {
		t.Fatal(err)
	}
	return plain{from.mode, from.addrs, from.master, from.db, from.tls, from.ca, from.cert, from.key, user, password, guide, word}
}

func TestParseURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(file, []byte("from file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_TEST_WORD", "from env")
	one, cluster, sentinel := rueidis.ClientModeStandalone, rueidis.ClientModeCluster, rueidis.ClientModeSentinel
	for url, want := range map[string]plain{
		"redis://localhost":          {Mode: one, Addrs: []string{"localhost:6379"}},
		"redis://h:1/":               {Mode: one, Addrs: []string{"h:1"}},
		"redis://h:1/5":              {Mode: one, Addrs: []string{"h:1"}, DB: 5},
		"redis://[::1]":              {Mode: one, Addrs: []string{"[::1]:6379"}},
		"redis://[::1]:7":            {Mode: one, Addrs: []string{"[::1]:7"}},
		"redis://::1":                {Mode: one, Addrs: []string{"[::1]:6379"}},
		"redis://app:pw@h":           {Mode: one, Addrs: []string{"h:6379"}, User: "app", Password: "pw"},
		"redis://:pw@h":              {Mode: one, Addrs: []string{"h:6379"}, Password: "pw"},
		"redis://a%3Ab:p%40%2F%25@h": {Mode: one, Addrs: []string{"h:6379"}, User: "a:b", Password: "p@/%"},
		"redis://a:p:q+r@h":          {Mode: one, Addrs: []string{"h:6379"}, User: "a", Password: "p:q+r"},
		"redis://h?user=app&password_env=SLUICE_TEST_WORD": {Mode: one, Addrs: []string{"h:6379"}, User: "app", Password: "from env"},
		"redis://app@h?password_file=" + file:              {Mode: one, Addrs: []string{"h:6379"}, User: "app", Password: "from file"},
		"rediss://h?ca=/a%20b&cert=c&key=k":                {Mode: one, Addrs: []string{"h:6379"}, TLS: true, CA: "/a b", Cert: "c", Key: "k"},
		"redis+cluster://a,b:2,[::3]:3":                    {Mode: cluster, Addrs: []string{"a:6379", "b:2", "[::3]:3"}},
		"rediss+cluster://app:pw@a,b/0":                    {Mode: cluster, Addrs: []string{"a:6379", "b:6379"}, TLS: true, User: "app", Password: "pw"},
		"redis+sentinel://my%20master@a,b:2/1":             {Mode: sentinel, Addrs: []string{"a:26379", "b:2"}, Master: "my master", DB: 1},
		"rediss+sentinel://m@a?user=u&password_file=" + file + "&sentinel_user=s&sentinel_password_env=SLUICE_TEST_WORD": {
			Mode: sentinel, Addrs: []string{"a:26379"}, Master: "m", TLS: true, User: "u", Password: "from file", Guide: "s", Word: "from env",
		},
	} {
		got, err := parseURL(url)
		if err != nil {
			t.Errorf("parseURL(%q): %v", url, err)
			continue
		}
		if diff := cmp.Diff(want, flatten(t, got)); diff != "" {
			t.Errorf("parseURL(%q): -want +got:\n%s", url, diff)
		}
	}
}

// badURLs maps each to a part of its error.
var badURLs = map[string]string{
	"":                                   "begin with",
	"localhost:6379":                     "begin with",
	"http://h":                           "begin with",
	"redis+redis://h":                    "begin with",
	"redis+other://h":                    "begin with",
	"valkey://h":                         "begin with",
	"redis://":                           "host is missing",
	"redis+cluster://a,,b":               "host is missing",
	"redis://a,b":                        "several are for",
	"redis://h:port":                     "port is not",
	"redis://h:0":                        "port is not",
	"redis://h:65536":                    "port is not",
	"redis://a:1:2":                      "host is not",
	"redis://h/db":                       "number of a database",
	"redis://h/-1":                       "number of a database",
	"redis://h/1/2":                      "number of a database",
	"redis+cluster://h/1":                "database 0 only",
	"redis+sentinel://h":                 "master's name is missing",
	"redis+sentinel://m:s3cret@h":        "master's name alone",
	"redis://a:s3cret/x@h":               "must be written",
	"redis://a:s3cret?x@h":               "must be written",
	"redis://a:s3cret#x@h":               "must be written",
	"redis://a:s3cret%zz@h":              "must be written",
	"redis://a:s3cret@x@h":               "must be written",
	"redis://h#x":                        "must be written",
	"redis://h?ca=%zz":                   "must be written",
	"redis://h?timeout=1s":               `unknown parameter "timeout"`,
	"redis://h?password=s3cret":          "does not stand in a parameter",
	"redis://h?ca=x":                     "are for rediss",
	"rediss://h?cert=x":                  "belong together",
	"rediss://h?ca=":                     "want one value",
	"rediss://h?ca=x&ca=y":               "want one value",
	"redis://h?sentinel_user=x":          "is for redis+sentinel",
	"redis://a@h?user=b":                 "user stands before",
	"redis://a:s3cret@h?password_file=x": "given twice",
	"redis://h?password_env=A&password_file=x": "given twice",
	"redis+sentinel://m@h?sentinel_ca=x":       "unknown parameter",
}

func TestParseURLErrors(t *testing.T) {
	for url, want := range badURLs {
		got, err := parseURL(url)
		if check := CheckURL(url); (check == nil) != (err == nil) {
			t.Errorf("CheckURL(%q) = %v, want %v", url, check, err)
		}
		if err == nil {
			t.Errorf("parseURL(%q) = %+v, want an error with %q", url, got, want)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("parseURL(%q) = %v, want an error with %q and nothing secret", url, err, want)
		}
	}
}

// Whatever stands where a password belongs, no error repeats it.
func FuzzURLTellsNoPassword(f *testing.F) {
	for _, s := range []string{"word", "a/b", "a?b=c", "a#b", "a%zz", "a@b", "a:b", "[", "a,b", "?x=y&z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, password string) {
		const mark = "s3cret"
		for _, scheme := range []string{"redis", "rediss", "redis+cluster", "redis+sentinel"} {
			url := scheme + "://app:" + mark + password + mark + "@h"
			if _, err := parseURL(url); err != nil && strings.Contains(err.Error(), mark) {
				t.Errorf("parseURL(%q) = %v", url, err)
			}
		}
	})
}

func TestOpenNamesBadFiles(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"rediss://h?ca=" + none:                    none,
		"rediss://h?ca=" + empty:                   "holds no certificate",
		"rediss://h?cert=" + none + "&key=" + none: none,
	} {
		if _, err := Open(t.Context(), url, OpenOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want an error with %q", url, err, want)
		}
	}
	for url, want := range map[string]string{
		"?password_file=" + none:            none,
		"?password_file=" + empty:           "one line",
		"?password_env=SLUICE_TEST_NOT_SET": "is not set",
	} {
		from, err := parseURL("redis://h" + url)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := from.login.read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the password of %q: %v, want an error with %q", url, err, want)
		}
	}
}
