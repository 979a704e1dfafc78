package httplimit

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
)

// Case G116: two spellings of one resource are one value.
func TestCaseG116Path(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"/a//b", "/a/b"},
		{"/a/b", "/a/b"},
		{"/a/./b", "/a/b"},
		{"/a/x/../b", "/a/b"},
		{"/../a", "/a"},
		{"/a/", "/a/"},
		{"/a//", "/a/"},
		{"/a/.", "/a"},
		{"//", "/"},
		{"/", "/"},
		{"", "/"},
		{"/%61/b", "/a/b"},
		{"/a%2Fb", "/a%2Fb"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%252Fb", "/a%252Fb"},
		{"/100%25", "/100%25"},
		{"/a%2F..%2Fb", "/a%2F..%2Fb"},
		{"/%2e%2e/b", "/../b"},
		{"/caf%C3%A9", "/café"},
		{"/caf%c3%a9//x", "/café/x"},
		{"/a?q=//", "/a"},
	} {
		u, err := url.Parse("http://h" + tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := cleanPath(&http.Request{Method: "GET", URL: u}); got != tt.want {
			t.Errorf("path of %q = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Paths are one value exactly if ServeMux sees the same segments in them.
func FuzzPath(f *testing.F) {
	f.Add("/a//b", "/a/b")
	f.Add("/a%2Fb", "/a/b")
	f.Add("/%61", "/a")
	f.Add("/a%252Fb", "/a%2Fb")
	f.Add("/%41/b%25", "//A/./b%25")
	read := func(p string) (value string, segments []string, ok bool) {
		u, err := url.ParseRequestURI(p)
		if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" {
			return "", nil, false
		}
		escaped := u.EscapedPath()
		clean := path.Clean("/" + escaped)
		if strings.HasSuffix(escaped, "/") && clean != "/" {
			clean += "/"
		}
		segments = strings.Split(clean, "/")
		for i, s := range segments {
			if segments[i], err = url.PathUnescape(s); err != nil {
				return "", nil, false
			}
		}
		return cleanPath(&http.Request{Method: "GET", URL: u}), segments, true
	}
	check := func(t *testing.T, one, two string) {
		v1, s1, ok1 := read(one)
		v2, s2, ok2 := read(two)
		if ok1 && ok2 && slices.Equal(s1, s2) != (v1 == v2) {
			t.Fatalf("%q and %q have segments %q and %q, but are %q and %q", one, two, s1, s2, v1, v2)
		}
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		check(t, one, two)
		check(t, one, strings.ReplaceAll(one, "/", "//"))
		check(t, one, strings.ReplaceAll(one, "/", "/x/../"))
		check(t, one, strings.ReplaceAll(one, "a", "%61"))
		check(t, one, strings.Replace(one, "%2F", "/", 1))
		check(t, one, strings.ReplaceAll(one, "%", "%25"))
	})
}

func TestConnectPath(t *testing.T) {
	r := &http.Request{Method: "CONNECT", URL: &url.URL{Path: "/a//b"}}
	if got := cleanPath(r); got != "/a//b" {
		t.Errorf("path of CONNECT = %q, want it as it is", got)
	}
}

func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"Example.ORG":      "example.org",
		"example.org:8080": "example.org",
		"example.org.":     "example.org",
		"[2001:DB8::1]:80": "2001:db8::1",
		"[2001:db8::1]":    "2001:db8::1",
		"example.org.:443": "example.org",
		"":                 "",
	} {
		if got := hostName(&http.Request{Host: in}); got != want {
			t.Errorf("host of %q = %q, want %q", in, got, want)
		}
	}
}
