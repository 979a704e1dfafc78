package replay

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice/policy"
)

// readLine reads a line as a stream does and returns the attributes asked.
func readLine(line string, o Options, names ...string) (at time.Time, values []string, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return at, nil, err
	}
	src := &source{}
	src.json = newObject(o.Fields, &src.time)
	if err := src.parse([]byte(line)); err != nil {
		return at, nil, err
	}
	read := newAttributes(&o, names)
	read.e = &src.next
	for _, name := range names {
		values = append(values, read.get(name))
	}
	return time.Unix(0, src.next.at).UTC(), values, nil
}

const stampText = "[17/May/2015:10:05:03 +0000]"

func TestLines(t *testing.T) {
	when := time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC)
	all := []string{"ip", "user", "method", "path", "status", "header:referer", "user_agent", "host"}
	for _, tt := range []struct {
		name, line string
		names      []string
		want       []string
	}{
		{
			"combined", `10.0.0.1 - - ` + stampText + ` "GET /a?b=c HTTP/1.1" 200 5 "http://r/" "A b"`, all,
			[]string{"10.0.0.1", "", "GET", "/a", "200", "http://r/", "A b", ""},
		},
		{
			"common", `10.0.0.1 - alice ` + stampText + ` "GET /a HTTP/1.1" 200 -`, all,
			[]string{"10.0.0.1", "alice", "GET", "/a", "200", "", "", ""},
		},
		{
			"escaped quotes", `10.0.0.1 - - ` + stampText + ` "GET /\"x\" HTTP/1.1" 200 5 "-" "say \"hi\" \\"`, all,
			[]string{"10.0.0.1", "", "GET", `/"x"`, "200", "", `say "hi" \`, ""},
		},
		{
			"nginx escapes", `10.0.0.1 - - ` + stampText + ` "GET /\x22 HTTP/1.1" 200 5 "-" "\xC3\xA9"`, all,
			[]string{"10.0.0.1", "", "GET", `/"`, "200", "", "é", ""},
		},
		{
			"user with spaces and brackets", `10.0.0.1 - a [b] c ` + stampText + ` "GET / HTTP/1.1" 200 5`, all,
			[]string{"10.0.0.1", "a [b] c", "GET", "/", "200", "", "", ""},
		},
		{"user that forges a time", `10.0.0.1 - x [01/Jan/1999:00:00:00 +0000] \"GET ` + stampText + ` "GET / HTTP/1.1" 200 5`, nil, nil},
		{
			"virtual host", `www.Example.org:443 10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1" 200 5 "-" "-" 0.1`, all,
			[]string{"10.0.0.1", "", "GET", "/", "200", "", "", "www.example.org"},
		},
		{
			"absolute target", `10.0.0.1 - - ` + stampText + ` "GET HTTP://h.example:8080/p?q HTTP/1.1" 200 5`, all,
			[]string{"10.0.0.1", "", "GET", "/p", "200", "", "", "h.example"},
		},
		{"encoded path", `10.0.0.1 - - ` + stampText + ` "GET /caf%C3%A9/%zz HTTP/1.1" 404 5`, []string{"path"}, []string{"/caf%C3%A9/%zz"}},
		{"decoded path", `10.0.0.1 - - ` + stampText + ` "GET /caf%C3%A9%3fa HTTP/1.1" 404 5`, []string{"path"}, []string{"/café?a"}},
		{"path with a space", `10.0.0.1 - - ` + stampText + ` "GET /a b HTTP/1.1" 400 5`, []string{"path"}, []string{"/a b"}},
		{"no request", `10.0.0.1 - - ` + stampText + ` "-" 408 -`, all, []string{"10.0.0.1", "", "", "", "408", "", "", ""}},
		{
			"TLS on a plain port", `10.0.0.1 - - ` + stampText + ` "\x16\x03\x01" 400 226 "-" "-"`, all,
			[]string{"10.0.0.1", "", "", "", "400", "", "", ""},
		},
		{"name for address", `host.example - - ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"ip"}, []string{"host.example"}},
		{"port", `10.0.0.1:5001 - - ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"ip"}, []string{"10.0.0.1"}},
		{"IPv6 with port", `[2001:db8::1]:443 - - ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"ip"}, []string{"2001:db8::"}},
		{"v4-mapped", `::ffff:10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"ip"}, []string{"10.0.0.1"}},
		{"zone", `fe80::1%eth0 - - ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"ip"}, []string{"fe80::"}},
		{"tenant is the user", `10.0.0.1 - alice ` + stampText + ` "GET / HTTP/1.1" 200 5`, []string{"tenant", "nothing", "route"}, []string{"alice", "", ""}},
		{"east of UTC", `10.0.0.1 - - [17/May/2015:12:05:03 +0200] "GET / HTTP/1.1" 200 5`, nil, nil},
		{"west of UTC", `10.0.0.1 - - [17/May/2015:06:35:03 -0330] "GET / HTTP/1.1" 200 5`, nil, nil},
		{"ISO in brackets", `10.0.0.1 - - [2015-05-17T10:05:03+00:00] "GET / HTTP/1.1" 200 5`, nil, nil},

		{
			"JSON", `{"time":"2015-05-17T10:05:03Z","ip":"10.0.0.1","method":"GET","path":"/a?b","status":200,"user":"u","host":"H"}`, all,
			[]string{"10.0.0.1", "u", "GET", "/a", "200", "", "", "h"},
		},
		{
			"JSON nginx", ` {"time_local":"17/May/2015:10:05:03 +0000","remote_addr":"10.0.0.1","remote_user":"","request":"POST /a HTTP/1.1","status":"201","http_user_agent":"A","http_x_plan":"gold"}`,
			append(all, "header:X-Plan", "tenant"),
			[]string{"10.0.0.1", "", "POST", "/a", "201", "", "A", "", "gold", ""},
		},
		{
			"JSON Caddy", `{"ts":1431857103.0,"request":{"remote_ip":"10.0.0.9","client_ip":"10.0.0.1","method":"GET","host":"h","uri":"/a?b","headers":{"User-Agent":["A"],"X-Plan":["gold","x"]}},"user_id":"","status":200}`,
			append(all, "header:x-plan", "request.headers.X-Plan"),
			[]string{"10.0.0.1", "", "GET", "/a", "200", "", "A", "h", "gold", "gold"},
		},
		{
			"JSON Traefik", `{"ClientHost":"10.0.0.1","RequestMethod":"GET","RequestPath":"/a","DownstreamStatus":200,"time":"2015-05-17T10:05:03Z","request_User-Agent":"A","StartUTC":"2015-05-17T10:05:02Z"}`,
			all,
			[]string{"10.0.0.1", "", "GET", "/a", "200", "", "A", ""},
		},
		{
			"JSON escapes", `{"timestamp":"2015-05-17 10:05:03","ip":"10.0.0.1","plan":"g\u00f6\"ld\\\ud83d\ude00","pla\u006e2":"x","n":-1.5e3,"ok":true,"no":null}`,
			[]string{"plan", "plan2", "n", "ok", "no"},
			[]string{`gö"ld\😀`, "x", "-1.5e3", "true", ""},
		},
		{"JSON last of a name", `{"@timestamp":"2015-05-17T10:05:03.000+00:00","plan":"a","plan":"b"}`, []string{"plan"}, []string{"b"}},
		{"JSON millis", `{"ts":1431857103000,"a":[],"b":[{"c":1},[2]],"d":{}}`, []string{"b", "d"}, []string{"", ""}},
		{"JSON micros", `{"ts":"1431857103000000"}`, nil, nil},
		{"JSON nanos", `{"ts":1431857103000000000}`, nil, nil},
		{"JSON float", `{"ts":1.431857103e9}`, nil, nil},
		{"JSON request after path", `{"ts":1431857103,"uri":"/own","request":"PUT /other HTTP/1.1"}`, []string{"method", "path"}, []string{"PUT", "/own"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, values, err := readLine(tt.line, Options{}, tt.names...)
			if tt.name == "user that forges a time" {
				// The quote in the name is escaped nowhere else than here, and
				// the line is bad, or of the true time: never of 1999.
				if err == nil && !at.Equal(when) {
					t.Errorf("time = %v", at)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tt.line, err)
			}
			if !at.Equal(when) {
				t.Errorf("time = %v, want %v", at, when)
			}
			if diff := cmp.Diff(tt.want, values); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.names, diff)
			}
		})
	}
}

func TestPathsAreThoseOfAGateway(t *testing.T) {
	for raw, want := range map[string]string{
		"/a//b": "/a/b", "/a/./b": "/a/b", "/a/x/../b": "/a/b", "/../a": "/a", "/a/": "/a/", "/a//": "/a/", "/a/.": "/a",
		"//": "/", "/": "/", "/%61/b": "/a/b", "/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2Fb", "/a%252Fb": "/a%252Fb", "/100%25": "/100%25",
		"/a%2F..%2Fb": "/a%2F..%2Fb", "/%2e%2e/b": "/../b", "/caf%c3%a9//x": "/café/x", "/a?q=//": "/a", "/a%": "/a%", "/a/..": "/",
	} {
		_, values, err := readLine(`192.0.2.1 - - `+stampText+` "GET `+raw+` HTTP/1.1" 200 5`, Options{}, "path")
		if err != nil || values[0] != want {
			t.Errorf("path %q = %q, %v, want %q", raw, values, err, want)
		}
	}
}

func TestHostNames(t *testing.T) {
	for raw, want := range map[string]string{
		"A.Example": "a.example", "a:80": "a", "[2001:db8::1]:443": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "a.": "a", "": "", "2001:db8::1": "2001:db8::1",
	} {
		if got := hostName([]byte(raw)); got != want {
			t.Errorf("host %q = %q, want %q", raw, got, want)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	s := set(t, policy.Limit{Name: "l", Key: []string{"header:X-Api-Key"}, Default: limit(t, "1/h")})
	r := replay(t, s, Options{}, text(`{"ts":1700000000,"headers":{"X-Api-Key":["hunter2"]}}`, `{"ts":1700000000,"headers":{"X-Api-Key":["hunter2"]}}`))
	if k := r.Limits[0].Top[0]; k.Refused != 1 || k.Key != "#f52fbd32b2b3b86ff88ef6c490628285" {
		t.Errorf("top = %+v", k)
	}
}

func TestFields(t *testing.T) {
	o := Options{Fields: map[string]string{"at": "time", "who.addr": "ip", "uid": "tenant", "ua": "header:User-Agent"}}
	at, values, err := readLine(`{"time":"no time","at":1431857103,"ip":"10.0.0.1","who":{"addr":"10.0.0.2"},"tenant":"a","uid":"b","ua":"A"}`, o, "ip", "tenant", "user_agent")
	if err != nil || at.Unix() != 1431857103 {
		t.Fatalf("time = %v, %v", at, err)
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "b", "A"}, values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBadLines(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"hello", errNoRequest.Error()},
		{`10.0.0.1 - - "GET / HTTP/1.1" 200 5`, errNoTime.Error()},
		{` ` + stampText + ` "GET / HTTP/1.1" 200 5`, errNoAddress.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1`, errOpenRequest.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1\" 200 5`, errOpenRequest.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1" ok 5`, errStatus.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1"`, errStatus.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1" 200 5 "-`, errOpenReferer.Error()},
		{`10.0.0.1 - - ` + stampText + ` "GET / HTTP/1.1" 200 5 "-" "a`, errOpenAgent.Error()},
		{`10.0.0.1 - - [30/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, errTime.Error()},
		{`10.0.0.1 - - [17/May/2015:24:05:03 +0000] "GET / HTTP/1.1" 200 5`, errTime.Error()},
		{`10.0.0.1 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, errTime.Error()},
		{`10.0.0.1 - - [17/May/2015:10:05:03 0000] "GET / HTTP/1.1" 200 5`, errTime.Error()},
		{`10.0.0.1 - - [17/May/2015:10:05:03] "GET / HTTP/1.1" 200 5`, ""},
		{`10.0.0.1 - - [] "GET / HTTP/1.1" 200 5`, errTime.Error()},
		{`{"ip":"10.0.0.1"}`, errNoField.Error()},
		{`{"ts":"yesterday"}`, errTime.Error()},
		{`{"ts":1431857103`, errJSON.Error()},
		{`{"ts":1431857103} x`, errJSON.Error()},
		{`{"ts":01}`, errJSON.Error()},
		{`{"ts":1,}`, errJSON.Error()},
		{`{"ts":1e99}`, errTime.Error()},
		{strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), errDepth.Error()},
	} {
		_, _, err := readLine(tt.line, Options{})
		if (tt.want == "") != (err == nil) || err != nil && err.Error() != tt.want {
			t.Errorf("%s: err = %v, want %q", tt.line, err, tt.want)
		}
	}
}

// TestStampsAgreeWithTime compares the arithmetic of dates with package time's.
func TestStampsAgreeWithTime(t *testing.T) {
	var s stamper
	for _, layout := range []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339Nano, "2006-01-02 15:04:05.000", "02/Jan/2006:15:04:05.000 -0700"} {
		for i := range 4000 {
			at := time.Unix(int64(i)*3_000_007-5_000_000_000, 123_000_000).In(time.FixedZone("", (i%27-13)*3600+1800))
			if layout == "2006-01-02 15:04:05.000" {
				at = at.UTC()
			}
			text := at.Format(layout)
			want, err := time.Parse(layout, text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.read([]byte(text)); err != nil || got != want.UnixNano() {
				t.Fatalf("%s = %d, %v, want %d", text, got, err, want.UnixNano())
			}
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add(`10.0.0.1 - - ` + stampText + ` "GET /a?b=%41\x41 HTTP/1.1" 200 5 "http://r/" "A \"b\""`)
	f.Add(`h:80 ::1 - a b ` + stampText + ` "GET http://h/ HTTP/1.1" 200 - "-" "-" x`)
	f.Add(`{"ts":1431857103.5,"request":{"uri":"/a","headers":{"X":["a\ud83d\ude00"]}},"n":[1,[2,{"a":null}]]}`)
	f.Add(`{"@timestamp":"2015-05-17T10:05:03.123+02:00","request":"GET / HTTP/1.1"}`)
	f.Fuzz(func(t *testing.T, line string) {
		names := []string{"ip", "user", "tenant", "method", "path", "status", "host", "user_agent", "header:Referer", "header:X-A", "extra"}
		at, values, err := readLine(line, Options{}, names...)
		if start := strings.TrimLeft(line, " \t"); strings.HasPrefix(start, "{") && len(line) < maxLine {
			checkJSON(t, start, values, err)
		}
		if err != nil {
			return
		}
		again, sameValues, err := readLine(line, Options{}, names...)
		if err != nil || !again.Equal(at) || !cmp.Equal(values, sameValues) {
			t.Errorf("read twice: %v, %v, %v", again, sameValues, err)
		}
		if math.Abs(float64(at.Unix())) > 7.3e9 {
			t.Errorf("time = %v", at)
		}
	})
}

// checkJSON compares with package encoding/json: what it can read, and what it
// reads in a field of no meaning.
func checkJSON(t *testing.T, line string, values []string, err error) {
	var fields map[string]any
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	valid := json.Valid([]byte(line)) && decoder.Decode(&fields) == nil
	if broken := err == errJSON; valid == broken && err != errDepth {
		t.Fatalf("%q: %v, but json.Valid says %v", line, err, valid)
	}
	if !valid || err != nil {
		return
	}
	if want, ok := fields["extra"].(string); ok && strings.ToValidUTF8(values[len(values)-1], "\ufffd") != strings.ToValidUTF8(want, "\ufffd") {
		// Runs of bytes that are no text become one sign or several.
		if !strings.Contains(want, "\ufffd") {
			t.Errorf("extra = %s, want %s", strconv.Quote(values[len(values)-1]), strconv.Quote(want))
		}
	}
}
