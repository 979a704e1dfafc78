package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

// shop serves a limit by tenant and returns its gateway's and its admin's address.
func shop(t *testing.T) (gateway, admin string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	s := serve(t, "-c", file(t, "s.yaml", `limits:
  - {name: shop, key: [tenant], limit: 2/h}
  - {name: all, key: [], limit: 1000/h, shadow: true}
identity: {tenant: {header: X-Tenant}}
gateway: {listen: '127.0.0.1:0', routes: [{id: a, match: /, upstream: '`+upstream.URL+`'}]}
admin: {listen: '127.0.0.1:0'}
`))
	t.Cleanup(func() { s.end() })
	gateway = s.wait(&s.log, `for=gateway address=(\S+)`)
	return "http://" + gateway, "http://" + s.wait(&s.log, `for=admin address=(\S+)`)
}

func ask(t *testing.T, url, tenant string, n int) {
	t.Helper()
	for range n {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Tenant", tenant)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
}

func TestTop(t *testing.T) {
	gateway1, admin1 := shop(t)
	gateway2, admin2 := shop(t)
	ask(t, gateway1, "a", 5)
	ask(t, gateway1, "b", 4)
	ask(t, gateway2, "b", 3)
	ask(t, gateway2, "c", 1)

	stdout, _ := wantRun(t, 0, "1 instance", "", "top", "--once", "--admin", admin1)
	for _, row := range []string{
		`(?m)^shop, the last \d+s$`,
		`(?m)^  REQ/S +REFUSED/S +REQUESTS +REFUSED +SOURCE +BUSIEST$`,
		`(?m)^  \d +\d +5 +60\.0% +store +shop\|tenant=a$`,
		`(?m)^  \d +\d +4 +50\.0% +store +shop\|tenant=b$`,
		`MOST REFUSED`,
		`(?m)^all, the last \d+s, shadow$`,
		`(?m)^  \d +\d +9 +0\.0% +store +all$`,
	} {
		if !regexp.MustCompile(row).MatchString(stdout) {
			t.Errorf("no %s in\n%s", row, stdout)
		}
	}

	// The sum of two instances turns the order around.
	stdout, _ = wantRun(t, 0, "", "", "top", "-json", "-once", "-limit", "shop", "-n", "2", "-admin", admin1, "-admin", strings.TrimPrefix(admin2, "http://"))
	var look topLook
	if err := json.Unmarshal([]byte(stdout), &look); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if look.Instances != 2 || len(look.Away) != 0 || len(look.Limits) != 1 || len(look.Limits[0].Busiest) != 2 {
		t.Fatalf("two instances: %s", stdout)
	}
	b := look.Limits[0].Busiest[0]
	if b.Key != "shop|tenant=b" || b.Requests != 7 || b.Refused != 3 || b.Sources["store"] != 7 {
		t.Errorf("the busiest key of both: %+v", b)
	}
	if r := look.Limits[0].Refused; len(r) != 2 || r[0].Key != "shop|tenant=a" || r[0].Refused != 3 {
		t.Errorf("the most refused keys of both: %+v", r)
	}

	// One that is away is told, and is no failure.
	stdout, _ = wantRun(t, 0, "away: http://127.0.0.1:1: ", "", "top", "-admin", admin1, "-admin", "http://127.0.0.1:1")
	if !strings.Contains(stdout, "1 instance\n") {
		t.Errorf("one of two: %s", stdout)
	}
}

func TestTopErrors(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>"))
	}))
	defer page.Close()
	_, admin := shop(t)
	wantRun(t, 1, "", "http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused", "top", "-once", "-admin", "127.0.0.1:1")
	wantRun(t, 1, "", "the answer is not that of an admin listener", "top", "-once", "-admin", page.URL)
	wantRun(t, 1, "", `limit="none": no limit has this name`, "top", "-once", "-limit", "none", "-admin", admin)
	wantRun(t, 2, "", "-n 0: want 1 to 1000", "top", "-n", "0")
	wantRun(t, 2, "", "-interval 1ms: want at least 10ms", "top", "-interval", "1ms")
	wantRun(t, 2, "", "want a URL such as http://127.0.0.1:9090", "top", "-admin", "ftp://x")
	wantRun(t, 2, "", `unexpected "x"`, "top", "x")
	wantRun(t, 0, "ctrl-C ends it", "", "top", "-h")
}

// watched is a view of a server that has one busy key.
func watched(t *testing.T) *topView {
	t.Helper()
	gateway, admin := shop(t)
	ask(t, gateway, "a", 3)
	return &topView{admins: []string{admin}, n: 3, interval: 20 * time.Millisecond, client: http.DefaultClient}
}

// TestTopStream: without -once a line follows the other until the program is told
// to end.
func TestTopStream(t *testing.T) {
	v := watched(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out pipe
	done := make(chan error, 1)
	go func() { done <- v.stream(ctx, &out) }()
	for deadline := time.Now().Add(patience); strings.Count(out.String(), "\n") < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("no three lines in %q", out.String())
		}
		time.Sleep(2 * time.Millisecond) // a real server must act
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out.String()) {
		var look topLook
		if err := json.Unmarshal([]byte(line), &look); err != nil || look.Instances != 1 || look.Limits[0].Busiest[0].Requests != 3 {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

// TestTopScreen: the terminal shows a table that is drawn again in place, until a
// key ends it, and then what it showed before.
func TestTopScreen(t *testing.T) {
	v := watched(t)
	for name, end := range map[string]byte{"q": 'q', "ctrl-C": 3} {
		t.Run(name, func(t *testing.T) {
			keys := make(chan byte, 2)
			var out pipe
			done := make(chan error, 1)
			go func() { done <- v.show(t.Context(), &out, keys, func() (int, int) { return 40, 6 }) }()
			for deadline := time.Now().Add(patience); strings.Count(out.String(), screenHome) < 3; {
				if time.Now().After(deadline) {
					t.Fatalf("no three looks in %q", out.String())
				}
				time.Sleep(2 * time.Millisecond) // a real server must act
			}
			keys <- 'x'
			keys <- end
			if err := <-done; err != nil {
				t.Error(err)
			}
			shown := out.String()
			if !strings.HasPrefix(shown, screenEnter) || !strings.HasSuffix(shown, screenLeave) || !strings.Contains(shown, "shop, the last") {
				t.Errorf("the terminal was told %q", shown)
			}
			frame := strings.Split(shown, screenHome)[1]
			if lines := strings.Split(frame, lineEnd); len(lines) != 5 {
				t.Errorf("%d lines on a terminal of 6: %q", len(lines), frame)
			}
			for line := range strings.SplitSeq(frame, lineEnd) {
				if n := len(strings.TrimSuffix(line, screenRest)); n > 40 {
					t.Errorf("a line of %d letters on a terminal of 40: %q", n, line)
				}
			}
		})
	}
}

// A terminal without keys to read, such as none, ends with the program.
func TestTopScreenEndsWithTheProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := &topView{admins: []string{"http://127.0.0.1:1"}, n: 1, interval: time.Second, client: http.DefaultClient}
	closed := make(chan byte)
	close(closed)
	for _, keys := range []chan byte{nil, closed} {
		var out bytes.Buffer
		if err := v.show(ctx, &out, keys, func() (int, int) { return 80, 24 }); err != nil || !strings.HasSuffix(out.String(), screenLeave) {
			t.Errorf("show = %v, and the terminal was told %q", err, out.String())
		}
	}
}

// What a foreign server answers cannot move the cursor.
func TestTopIsPlain(t *testing.T) {
	look := topLook{Instances: 1, Away: []topAway{{"u", "\x1b[2J"}}, Limits: []hot.Limit{{
		Name: "a\nb", Every: 3,
		Busiest: []hot.Key{{Key: "k\x1b]0;x\a\u202e", Requests: 3, Sources: map[string]uint64{"st\rore": 2, "denied": 1}}},
	}}}
	text := strings.Join(look.lines(time.Now()), "")
	for _, want := range []string{"a?b, the last 0s, one request in 3 counted for all", "k?]0;x??", "st?ore 66.7%", "away: u: ?[2J"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r\a\n\u202e") {
		t.Errorf("the table moves the cursor: %q", text)
	}
}
