package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServerRestarts(t *testing.T) {
	p := ownServer(t)
	d := newDB(t, p)
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	d.add("a", "r", 5)
	i := follow(t, d.url, nil)
	p.Kill()
	eventually(t, "a stale status", func() bool { return i.table.Status().Stale })
	if i.capacity("a", "r") != 5 {
		t.Error("the last rows did not stay")
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.conn = connectTo(t, d.url)
	d.add("b", "r", 6)
	i.wants("b", "r", 6)
	d.add("c", "r", 7)
	i.wants("c", "r", 7)
	if s := i.table.Status(); s.Stale || s.Problem != "" {
		t.Errorf("status %+v, want one that is not stale", s)
	}
	if strings.Contains(i.log.String(), p.Password) {
		t.Error("the log holds the password")
	}
}

// What changes while the connection is cut is seen when it is back.
func TestConnectionIsCut(t *testing.T) {
	p := sharedServer(t)
	d := migrated(t)
	d.add("a", "r", 5)
	between := newProxy(t, p.Addr)
	i := follow(t, between.through(d.url), nil)
	for n := range 3 {
		between.cut()
		d.exec("UPDATE rate_limit_rule SET capacity = $1", 10+n)
		i.wants("a", "r", int64(10+n))
	}
}

// A connection that is open and dead is noticed by the poll.
func TestConnectionHangs(t *testing.T) {
	p := sharedServer(t)
	d := migrated(t)
	d.add("a", "r", 5)
	between := newProxy(t, p.Addr)
	i := follow(t, between.through(d.url), func(o *TableOptions) { o.Poll = 50 * time.Millisecond })
	i.wants("a", "r", 5)
	between.setDeaf(true)
	d.exec("UPDATE rate_limit_rule SET capacity = 6")
	time.Sleep(200 * time.Millisecond) // a poll must have begun
	if i.capacity("a", "r") != 5 {
		t.Error("the last rows did not stay")
	}
	between.cut() // as the network does at last
	between.setDeaf(false)
	i.wants("a", "r", 6)
}

// A standby cannot be listened to.
func TestStandby(t *testing.T) {
	p := ownServer(t)
	d := newDB(t, p)
	if _, err := Migrate(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	d.add("a", "r", 5)
	p.Kill()
	if err := os.WriteFile(filepath.Join(p.Dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := follow(t, d.url, nil)
	i.wants("a", "r", 5)
	if s := i.table.Status(); s.Stale || i.log.count("a standby tells nobody of changes") != 1 {
		t.Errorf("status %+v, log\n%s", s, i.log)
	}
}
