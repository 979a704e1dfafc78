package proxy_test

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice/servers/proxy"
)

// echo starts a server that answers with what it is sent, and returns a proxy
// before it.
func echo(t *testing.T) *proxy.Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	p, err := proxy.Start(l.Addr().String())
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a word and waits so long for it to come back.
func ask(conn net.Conn, within time.Duration) (string, error) {
	if _, err := conn.Write([]byte("word")); err != nil {
		return "", err
	}
	conn.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, 4)
	_, err := io.ReadFull(conn, buf)
	return string(buf), err
}

func passes(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if got, err := ask(conn, 5*time.Second); err != nil || got != "word" {
		t.Fatalf("answer = %q, %v, want %q", got, err, "word")
	}
	return time.Since(start)
}

func TestDelayOnConnectionsOldAndNew(t *testing.T) {
	p := echo(t)
	old := dial(t, p)
	passes(t, old)
	const late = 30 * time.Millisecond
	p.Delay(late)
	for name, conn := range map[string]net.Conn{"old": old, "new": dial(t, p)} {
		if took := passes(t, conn); took < late {
			t.Errorf("on the %s connection an answer took %v, want at least %v", name, took, late)
		}
	}
	// Many answers are late side by side, not one after the other.
	const many = 200
	start := time.Now()
	for range many {
		_, err := old.Write([]byte("word"))
		must(t, err)
		runtime.Gosched()
	}
	_, err := io.ReadFull(old, make([]byte, 4*many))
	must(t, err)
	if took := time.Since(start); took < late || took > many*late/2 {
		t.Errorf("%d answers took %v", many, took)
	}
	p.Clear()
	passes(t, old)
}

func TestSwallowedAnswersEndTheConnectionWhenItIsOver(t *testing.T) {
	p := echo(t)
	old := dial(t, p)
	passes(t, old)
	p.Swallow()
	for name, conn := range map[string]net.Conn{"old": old, "new": dial(t, p)} {
		_, err := ask(conn, 50*time.Millisecond)
		if e, ok := err.(net.Error); !ok || !e.Timeout() {
			t.Errorf("on the %s connection: %v, want no answer in time", name, err)
		}
	}
	p.Clear()
	if _, err := ask(old, 5*time.Second); err == nil {
		t.Error("a connection goes on on which an answer is missing")
	}
	passes(t, dial(t, p))
}

func TestEndsArePassedOn(t *testing.T) {
	p := echo(t)
	conn := dial(t, p)
	passes(t, conn)
	must(t, conn.(*net.TCPConn).CloseWrite())
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read after the end = %v, want EOF", err)
	}
	nowhere, err := proxy.Start("127.0.0.1:1")
	must(t, err)
	t.Cleanup(nowhere.Close)
	if _, err := ask(dial(t, nowhere), 5*time.Second); err == nil {
		t.Error("an answer from a server that is not there")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p := echo(t)
	for _, fault := range []func(){p.Clear, func() { p.Delay(time.Minute) }, p.Swallow} {
		fault()
		_, err := dial(t, p).Write([]byte("word"))
		must(t, err)
	}
	conn := dial(t, p)
	p.Close()
	if _, err := ask(conn, 5*time.Second); err == nil {
		t.Error("a connection goes on after Close")
	}
	if _, err := net.Dial("tcp", p.Addr); err == nil {
		t.Error("a connection is accepted after Close")
	}
}
