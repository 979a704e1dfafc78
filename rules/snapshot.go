package rules

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-limiter/sluice/policy"
)

// A snapshot is a line, the name of the database, the rows, and the SHA-256 of
// all that stands before it. Tenants are in it as limits see them: of secrets
// it has the hashes alone.
const snapshotLine = "sluice rules 1\n"

var errSnapshot = errors.New("no snapshot of rules, or a damaged one")

// writeSnapshot writes the rows of a set.
func writeSnapshot(w io.Writer, database string, s *policy.Set) error {
	sum := sha256.New()
	b := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	buf := append([]byte(snapshotLine), byte(len(database)))
	buf = append(buf, database...)
	buf = binary.AppendUvarint(buf, uint64(s.RowCount()))
	if _, err := b.Write(buf); err != nil {
		return err
	}
	for r := range s.Rows() {
		buf = r.AppendTo(buf[:0])
		if _, err := b.Write(buf); err != nil {
			return err
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// readSnapshot calls put with each row of a snapshot that is whole and of the
// database.
func readSnapshot(data []byte, database string, put func(policy.Row)) error {
	end := len(data) - sha256.Size
	if end < 0 || !bytes.HasPrefix(data, []byte(snapshotLine)) {
		return errSnapshot
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return errSnapshot
	}
	rest := data[len(snapshotLine):end]
	name := append([]byte{byte(len(database))}, database...)
	if !bytes.HasPrefix(rest, name) {
		return fmt.Errorf("a snapshot of another database than %s", database)
	}
	rest = rest[len(name):]
	n, size := binary.Uvarint(rest)
	if size <= 0 {
		return errSnapshot
	}
	rest = rest[size:]
	for range n {
		r, tail, err := policy.CutRow(rest)
		if err != nil {
			return errSnapshot
		}
		rest = tail
		put(r)
	}
	return nil
}

// restore publishes the rows of the snapshot, but for those whose time is over.
func (t *Table) restore() {
	data, err := os.ReadFile(t.keeper.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("there is no snapshot of the rules yet: only the file's limits are in force", slog.String("snapshot", t.keeper.path))
		return
	}
	now := time.Now()
	c := begin(t.o.Current().Refill(0))
	if err == nil {
		err = readSnapshot(data, t.source.name, func(r policy.Row) {
			if r.Expires.IsZero() || r.Expires.After(now) {
				c.put(r)
			}
		})
	}
	if err != nil {
		t.log.Error("the snapshot of the rules cannot be read: only the file's limits are in force", slog.String("snapshot", t.keeper.path), slog.Any("error", err))
		return
	}
	c.anew = true
	next := c.edit.Set()
	t.enforce(c, next)
	t.log.Warn("rules are those of the snapshot", slog.String("snapshot", t.keeper.path), slog.Int("rows", next.RowCount()))
}

// A keeper writes snapshots beside all else, the latest rows only.
type keeper struct {
	path     string
	database string
	log      *slog.Logger
	next     chan *policy.Set
	pause    time.Duration // between two snapshots
}

// snapshotPause is the least time between snapshots, which cost some 100 ms
// with 300,000 rows.
const snapshotPause = 10 * time.Second

func newKeeper(path, database string, log *slog.Logger) *keeper {
	return &keeper{path: path, database: database, log: log, next: make(chan *policy.Set, 1), pause: snapshotPause}
}

// offer takes rows in place of those that wait to be written. Only one goroutine
// offers.
func (k *keeper) offer(s *policy.Set) {
	select {
	case <-k.next:
	default:
	}
	k.next <- s
}

// run writes what is offered until ctx ends, and then what is left.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			k.last()
			return
		case s := <-k.next:
			k.write(s)
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.pause):
		}
	}
}

func (k *keeper) last() {
	select {
	case s := <-k.next:
		k.write(s)
	default:
	}
}

// write replaces the file, whole or not at all.
func (k *keeper) write(s *policy.Set) {
	if err := k.replace(s); err != nil {
		k.log.Warn("the snapshot of the rules cannot be written: a start without the database would be one without rules",
			slog.String("snapshot", k.path), slog.Any("error", err))
	}
}

func (k *keeper) replace(s *policy.Set) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(k.path), filepath.Base(k.path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(writeSnapshot(f, k.database, s), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), k.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
