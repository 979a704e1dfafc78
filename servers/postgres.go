package servers

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A Postgres is one PostgreSQL server with the superuser "postgres". It keeps
// its data over Kill and Restart, though not over a crash of the machine, since
// it never waits for the disk.
type Postgres struct {
	Process
	// Password is that of the superuser.
	Password string
}

// StartPostgres makes a database cluster and starts a server on it; arguments
// are added to its command line, as in "-c", "max_connections=10". PostgreSQL
// refuses to be run by root: then it runs as the user postgres or nobody.
func StartPostgres(ctx context.Context, args ...string) (*Postgres, error) {
	path, err := Find("postgres", "postgresql")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		return nil, err
	}
	p := &Postgres{Password: rand.Text(), Process: Process{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Dir:  dir,
		name: path,
	}}
	p.args = append([]string{
		"-D", p.data(), "-p", strconv.Itoa(port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off",
	}, args...)
	p.ready = p.greet
	err = p.initialize(ctx)
	if err == nil {
		err = p.start(ctx)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Postgres) data() string { return filepath.Join(p.Dir, "data") }

// URL returns where a database is, with the superuser's password.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres:%s@%s/%s?sslmode=disable", p.Password, p.Addr, database)
}

// initialize makes the files of the databases.
func (p *Postgres) initialize(ctx context.Context) error {
	var err error
	if p.user, err = ordinaryUser(); err != nil {
		return err
	}
	secret := filepath.Join(p.Dir, "password")
	if err := os.WriteFile(secret, []byte(p.Password), 0o600); err != nil {
		return err
	}
	if p.user != nil {
		for _, name := range []string{p.Dir, secret} {
			if err := os.Chown(name, int(p.user.Uid), int(p.user.Gid)); err != nil {
				return err
			}
		}
	}
	path, err := Find("initdb", "postgresql")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-D", p.data(), "-U", "postgres", "--pwfile", secret,
		"--auth", "scram-sha-256", "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	cmd.Dir = p.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(string(out)))
	}
	return nil
}

// ordinaryUser returns who is to run what root must not; nil if this program is
// not run by root.
func ordinaryUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("root must not run PostgreSQL, and there is no user postgres or nobody: add one, or run this as another user")
}

// greet says that a client is there; a server that is up asks it for a password,
// one that is on the way says so.
func (p *Postgres) greet() error {
	conn, err := p.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	const words = "user\x00postgres\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(words)))
	hello = binary.BigEndian.AppendUint32(hello, 3<<16) // protocol 3.0
	if _, err := conn.Write(append(hello, words...)); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' {
		return errors.New("it takes no connections yet")
	}
	return nil
}

// Kill ends the server at once, as a crash does; it can be started again. Its
// processes are given the time to go, since they would be in the way of that.
func (p *Postgres) Kill() {
	if p.run == nil {
		return
	}
	// One that is gone already needs no signal.
	_ = p.run.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.run.done:
	case <-time.After(10 * time.Second):
	}
	p.Process.Kill()
}

// Close ends the server and removes its files.
func (p *Postgres) Close() {
	p.Kill()
	p.Process.Close()
}
