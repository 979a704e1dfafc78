package redis

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// A target is where a URL leads. Nothing in it is secret: passwords stay behind
// the functions that read them.
type target struct {
	mode   rueidis.ClientMode
	addrs  []string
	master string // Sentinel's name for it
	db     int
	tls    bool
	ca     string // files
	cert   string
	key    string
	login  credentials // of the servers that decide
	guide  credentials // of the sentinels
}

// CheckURL reports what is wrong with a URL for [Open], without looking at the
// files that it names.
func CheckURL(url string) error {
	_, err := parseURL(url)
	return err
}

// badURL says what is wrong with a URL, in words that repeat nothing from
// where a password may stand.
func badURL(format string, args ...any) error {
	return fmt.Errorf("redis: url: "+format, args...)
}

var errEscape = errors.New("redis: url: a password's @, /, ?, # and % must be written %40, %2F, %3F, %23 and %25; or give it with password_file or password_env")

// schemes are the forms of a URL; rediss is the same over TLS.
var schemes = map[string]rueidis.ClientMode{
	"redis":    rueidis.ClientModeStandalone,
	"cluster":  rueidis.ClientModeCluster,
	"sentinel": rueidis.ClientModeSentinel,
}

// parseURL reads the forms that Open documents. It is not net/url's parser,
// which knows one host and repeats passwords in its errors.
func parseURL(text string) (*target, error) {
	scheme, rest, found := strings.Cut(text, "://")
	base, kind, several := strings.Cut(scheme, "+")
	if !several {
		kind = "redis"
	}
	mode, known := schemes[kind]
	if !found || !known || several && kind == "redis" || base != "redis" && base != "rediss" {
		return nil, badURL("it must begin with redis://, rediss://, redis+cluster:// or redis+sentinel://")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.ContainsAny(tail, "@#") {
		return nil, errEscape
	}
	t := &target{mode: mode, tls: base == "rediss"}
	user, hosts, found := cutLast(authority, "@")
	if !found {
		user, hosts = "", authority
	}
	if err := t.user(user); err != nil {
		return nil, err
	}
	if err := t.hosts(hosts); err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(tail, "?")
	if err := t.path(path); err != nil {
		return nil, err
	}
	return t, t.query(query)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// user reads what stands before the @: user and password, or Sentinel's name of
// the master.
func (t *target) user(text string) error {
	name, password, hasPassword := strings.Cut(text, ":")
	name, err1 := url.PathUnescape(name)
	password, err2 := url.PathUnescape(password)
	switch {
	case err1 != nil || err2 != nil || strings.ContainsAny(text, "@"):
		return errEscape
	case t.mode != rueidis.ClientModeSentinel:
		t.login.user = name
		if hasPassword {
			t.login.literal(password)
		}
	case hasPassword:
		return badURL("before the @ stands the master's name alone: give a password with password_file or password_env")
	case name == "":
		return badURL("the master's name is missing: want redis+sentinel://NAME@HOST,HOST")
	default:
		t.master = name
	}
	return nil
}

func (t *target) hosts(text string) error {
	port := "6379"
	if t.mode == rueidis.ClientModeSentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(text, ",") {
		addr, err := address(host, port)
		if err != nil {
			return err
		}
		t.addrs = append(t.addrs, addr)
	}
	if len(t.addrs) > 1 && t.mode == rueidis.ClientModeStandalone {
		return badURL("%d hosts: several are for redis+cluster:// or redis+sentinel://", len(t.addrs))
	}
	return nil
}

// address completes a host with the usual port. An IPv6 address with a port is
// in brackets.
func address(host, port string) (string, error) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	switch {
	case host == "":
		return "", badURL("a host is missing")
	case strings.Contains(host, ":") && net.ParseIP(host) == nil, strings.ContainsAny(host, " []"):
		// No more is said: without an @ this may be a password.
		return "", badURL("a host is not as in host, host:port or [IPv6]:port")
	case err != nil || number == 0:
		return "", badURL("a port is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func (t *target) path(text string) error {
	text = strings.TrimPrefix(text, "/")
	if text == "" {
		return nil
	}
	db, err := strconv.Atoi(text)
	if err != nil || db < 0 {
		return badURL("after the hosts stands the number of a database or nothing")
	}
	if t.mode == rueidis.ClientModeCluster && db != 0 {
		return badURL("a cluster has database 0 only")
	}
	t.db = db
	return nil
}

// query reads the parameters.
func (t *target) query(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errEscape
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) != 1 || values[name][0] == "" {
			return badURL("parameter %s: want one value", name)
		}
		if err := t.parameter(name, values[name][0]); err != nil {
			return err
		}
	}
	if (t.cert == "") != (t.key == "") {
		return badURL("cert and key belong together")
	}
	if !t.tls && cmp.Or(t.ca, t.cert) != "" {
		return badURL("ca, cert and key are for rediss://, rediss+cluster:// and rediss+sentinel://")
	}
	return nil
}

// parameters are the names that query knows.
const parameters = "user, password_file, password_env, sentinel_user, sentinel_password_file, sentinel_password_env, ca, cert, key"

func (t *target) parameter(name, value string) error {
	plain, of := name, &t.login
	if rest, ok := strings.CutPrefix(name, "sentinel_"); ok {
		if t.mode != rueidis.ClientModeSentinel {
			return badURL("parameter %s is for redis+sentinel://", name)
		}
		plain, of = rest, &t.guide
	}
	switch {
	case plain == "user":
		if of.user != "" {
			return badURL("the user stands before the @ and in a parameter")
		}
		of.user = value
	case plain == "password_file" || plain == "password_env":
		if of.password != nil {
			return badURL("parameter %s: the password is given twice", name)
		}
		of.from(plain, value)
	case name == "ca":
		t.ca = value
	case name == "cert":
		t.cert = value
	case name == "key":
		t.key = value
	case plain == "password":
		return badURL("a password does not stand in a parameter: use password_file or password_env")
	default:
		return badURL("unknown parameter %q: there are %s", name, parameters)
	}
	return nil
}
