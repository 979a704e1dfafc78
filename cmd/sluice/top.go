package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

const topHelp = `Shows the busiest and the most refused keys of each limit, refreshed every
second: requests and refusals of the last second, the share refused and who
answered over the last minute. It asks the admin listener (admin.listen) of one
instance, or of several, whose keys it sums; -admin may be given several times.
q or ctrl-C ends it. Where the output is no terminal it prints once.`

// usualAdmin is the listener that examples of the configuration name.
const usualAdmin = "http://127.0.0.1:9090"

// A topView is what top was asked to show.
type topView struct {
	admins   []string
	token    string // "": none
	limit    string // "": all
	n        int    // keys of each list
	interval time.Duration
	client   *http.Client
}

func (p *program) top(ctx context.Context, args []string) int {
	f := p.flags("top", "[-admin URL]... [-limit NAME]", topHelp)
	v := &topView{client: &http.Client{Timeout: 3 * time.Second}}
	f.Func("admin", "`URL` of an instance's admin listener; none: "+usualAdmin, v.addAdmin)
	f.StringVar(&v.limit, "limit", "", "`NAME` of the one limit to show")
	f.IntVar(&v.n, "n", 10, "`NUMBER` of keys in each list")
	f.DurationVar(&v.interval, "interval", time.Second, "`TIME` between two looks")
	f.Func("token-file", "`FILE` with the token of the listeners, if they have one (admin.token_file)", v.readToken)
	once := f.Bool("once", false, "print once, and end")
	asJSON := f.Bool("json", false, "print JSON, a line for each look")
	words, code, done := p.parse(f, args)
	switch {
	case done:
		return code
	case len(words) > 0:
		return p.misuse(f, "unexpected %q: name an instance with -admin", words[0])
	case v.n < 1 || v.n > 1000:
		return p.misuse(f, "-n %d: want 1 to 1000", v.n)
	case v.interval < 10*time.Millisecond:
		return p.misuse(f, "-interval %v: want at least 10ms", v.interval)
	}
	if len(v.admins) == 0 {
		v.admins = []string{usualAdmin}
	}
	out, _ := p.stdout.(*os.File)
	screen := out != nil && term.IsTerminal(int(out.Fd()))
	var err error
	switch {
	case *asJSON && !*once:
		err = v.stream(ctx, p.stdout)
	case *asJSON || *once || !screen:
		err = v.once(ctx, p.stdout, *asJSON)
	default:
		err = v.live(ctx, out)
	}
	if err != nil {
		return p.fail(err)
	}
	return exitOK
}

// readToken reads the token that listeners ask for.
func (v *topView) readToken(path string) error {
	data, err := os.ReadFile(path)
	if v.token = strings.TrimSpace(string(data)); err == nil && v.token == "" {
		return errors.New("it is empty")
	}
	return err
}

// addAdmin takes up an instance: a URL, or an address alone.
func (v *topView) addAdmin(text string) error {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("want a URL such as %s", usualAdmin)
	}
	v.admins = append(v.admins, strings.TrimSuffix(text, "/"))
	return nil
}

// once prints one look.
func (v *topView) once(ctx context.Context, w io.Writer, asJSON bool) error {
	look := v.look(ctx)
	if err := look.failed(); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(look)
	}
	_, err := io.WriteString(w, strings.Join(look.lines(time.Now()), "\n")+"\n")
	return err
}

// stream prints a look as a line of JSON at each interval until ctx ends.
func (v *topView) stream(ctx context.Context, w io.Writer) error {
	ticker := time.NewTicker(v.interval)
	defer ticker.Stop()
	for {
		look := v.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := json.NewEncoder(w).Encode(look); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// A topLook is what all instances told at one moment, summed.
type topLook struct {
	Instances int         `json:"instances"` // that answered
	Away      []topAway   `json:"away,omitempty"`
	Limits    []hot.Limit `json:"limits"`
}

// A topAway is an instance that did not answer.
type topAway struct {
	Admin string `json:"admin"`
	Error string `json:"error"`
}

// failed is the error of a look at which no instance answered.
func (l *topLook) failed() error {
	if l.Instances > 0 {
		return nil
	}
	var errs []error
	for _, a := range l.Away {
		errs = append(errs, fmt.Errorf("%s: %s", a.Admin, a.Error))
	}
	return errors.Join(errs...)
}

// look asks all instances at once.
func (v *topView) look(ctx context.Context) *topLook {
	type told struct {
		limits []hot.Limit
		err    error
	}
	answers := make([]chan told, len(v.admins))
	for i, admin := range v.admins {
		answers[i] = make(chan told, 1)
		go func() {
			limits, err := v.ask(ctx, admin)
			answers[i] <- told{limits, err}
		}()
	}
	look := &topLook{Limits: []hot.Limit{}}
	for i, answer := range answers {
		t := <-answer
		if t.err != nil {
			look.Away = append(look.Away, topAway{v.admins[i], t.err.Error()})
			continue
		}
		look.Instances++
		look.add(t.limits)
	}
	look.cut(v.n)
	return look
}

// ask asks one instance. It asks for more keys than are shown, since one that is
// shown may be busy on all instances and among the first of none.
func (v *topView) ask(ctx context.Context, admin string) ([]hot.Limit, error) {
	n := v.n
	if len(v.admins) > 1 {
		n = min(1000, 10*n+100)
	}
	q := url.Values{"n": {fmt.Sprint(n)}}
	if v.limit != "" {
		q.Set("limit", v.limit)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/v1/top?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	res, err := v.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which is told anyway
		}
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Limits []hot.Limit `json:"limits"`
		Error  string      `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(&answer)
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return nil, errors.New("it wants the token of its admin.token_file: name a file that holds it with -token-file")
	case res.StatusCode != http.StatusOK:
		return nil, errors.New(cmp.Or(answer.Error, res.Status))
	case err != nil:
		return nil, fmt.Errorf("the answer is not that of an admin listener: %w", err)
	}
	return answer.Limits, nil
}
