package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Redis is one redis-server.
type Redis struct {
	Process
}

// StartRedis starts a redis-server that keeps nothing on disk; arguments are
// added to its command line, as in "--maxmemory", "2mb".
func StartRedis(ctx context.Context, args ...string) (*Redis, error) {
	return startRedis(ctx, nil, args...)
}

func startRedis(ctx context.Context, env []string, args ...string) (*Redis, error) {
	r, err := newRedis(env)
	if err != nil {
		return nil, err
	}
	r.args = append(r.plainArgs("--port", strconv.Itoa(r.Port())), args...)
	return r, r.begin(ctx)
}

// plainArgs returns the command line of a server that keeps nothing on disk, and
// more.
func (r *Redis) plainArgs(args ...string) []string {
	return append([]string{
		"--bind", "127.0.0.1", "--dir", r.Dir,
		"--save", "", "--appendonly", "no", "--logfile", "",
		"--enable-debug-command", "yes",
	}, args...)
}

// startNode starts one of several servers; with an authority it speaks TLS alone,
// also with the others.
func startNode(ctx context.Context, a *Authority, args ...string) (*Redis, error) {
	if a == nil {
		return startRedis(ctx, nil, args...)
	}
	r, err := newRedis(nil)
	if err != nil {
		return nil, err
	}
	r.secure(a, append(args, "--tls-replication", "yes")...)
	return r, r.begin(ctx)
}

// newRedis returns a server that is not started yet, with a port and a folder.
func newRedis(env []string) (*Redis, error) {
	path, err := Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-redis-")
	if err != nil {
		return nil, err
	}
	r := &Redis{Process{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Dir:  dir,
		name: path,
		env:  env,
	}}
	r.ready = func() error {
		answer, err := r.Do("PING")
		if err == nil && !strings.HasPrefix(answer, "PONG") && !strings.HasPrefix(answer, "-NOAUTH") {
			err = errors.New(answer)
		}
		return err
	}
	return r, nil
}

// begin starts a server for the first time, and leaves nothing if that fails.
func (r *Redis) begin(ctx context.Context) error {
	err := r.start(ctx)
	if err != nil {
		r.Close()
	}
	return err
}

// Port returns the port alone.
func (p *Process) Port() int {
	_, port, _ := net.SplitHostPort(p.Addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Do sends one command over a connection of its own and returns the answer as
// text; an error answer begins with "-". It is for setting up, not for load.
func (p *Process) Do(words ...string) (string, error) {
	conn, err := p.dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readAnswer(bufio.NewReader(conn))
}

func (p *Process) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	if p.tls == nil {
		return dialer.Dial("tcp", p.Addr)
	}
	return tls.DialWithDialer(dialer, "tcp", p.Addr, p.tls)
}

// readAnswer reads one value of the Redis protocol; the parts of an array are
// joined by newlines.
func readAnswer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '$':
		n, _ := strconv.Atoi(line[1:])
		if n < 0 {
			return "", nil
		}
		buf := make([]byte, n+2)
		_, err := readFull(r, buf)
		return string(buf[:n]), err
	case '*':
		n, _ := strconv.Atoi(line[1:])
		parts := make([]string, 0, max(n, 0))
		for range n {
			part, err := readAnswer(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, "\n"), nil
	}
	return line, nil
}

func readFull(r *bufio.Reader, buf []byte) (int, error) {
	for n := 0; n < len(buf); {
		m, err := r.Read(buf[n:])
		if err != nil {
			return n, err
		}
		n += m
	}
	return len(buf), nil
}
