package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// A watch sees when a store writes down what it admits: a script that refuses
// writes nothing.
type watch struct {
	conn net.Conn
	done chan struct{}

	// Of the goroutine that reads, until done.
	first, last time.Time
	err         error
}

// monitor begins to watch a Redis for what scripts write to keys whose names
// hold a text.
func monitor(addr, key string) (*watch, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(conn, 1<<16)
	if err := begin(conn, lines); err != nil {
		return nil, errors.Join(fmt.Errorf("MONITOR: %w", err), conn.Close())
	}
	w := &watch{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.read(lines, key)
	}()
	return w, nil
}

func begin(conn net.Conn, lines *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return err
	}
	answer, err := lines.ReadString('\n')
	if err == nil && answer != "+OK\r\n" {
		err = errors.New(strings.TrimSpace(answer))
	}
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

// read notes the first and the last write until the connection ends.
func (w *watch) read(lines *bufio.Reader, key string) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			w.err = err
			return
		}
		at, ok := written(line, key)
		if !ok {
			continue
		}
		if w.first.IsZero() {
			w.first = at
		}
		w.last = at
	}
}

// stop returns the store's times of the first and the last write.
func (w *watch) stop() (first, last time.Time, err error) {
	// What was sent before has to be read: the server is slower in telling
	// than in answering.
	if err := w.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return first, last, err
	}
	<-w.done
	_ = w.conn.Close()
	var timeout net.Error
	if !errors.As(w.err, &timeout) || !timeout.Timeout() {
		return first, last, fmt.Errorf("MONITOR: %w", w.err)
	}
	if w.first.IsZero() {
		return first, last, errors.New("MONITOR: nothing was written")
	}
	return w.first, w.last, nil
}

// written reads a line of MONITOR such as
//
//	+1780000000.123456 [0 lua] "SET" "rl:b:key" "1" "PX" "9"
//	+1780000000.123456 [0 lua] "INCRBY" "rl:b:key" "1"
func written(line, key string) (time.Time, bool) {
	at, rest, _ := strings.Cut(strings.TrimPrefix(line, "+"), " ")
	rest, ok := strings.CutPrefix(rest, `[0 lua] "`)
	command, rest, _ := strings.Cut(rest, `" "`)
	name, _, _ := strings.Cut(rest, `"`)
	if !ok || command != "SET" && command != "INCRBY" || !strings.Contains(name, key) {
		return time.Time{}, false
	}
	seconds, micros, _ := strings.Cut(at, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, us*1000), err == nil && err2 == nil
}
