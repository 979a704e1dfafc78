package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// patience is how long an answer may take.
const patience = 10 * time.Second

// A caller asks one request after the other over one connection. It does less
// than an http.Client, as it shares the machine with what it measures.
type caller struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

// get asks once and returns the status.
func (c *caller) get() (int, error) {
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// each lets n callers of an address, each with its number and connection, do
// something at once.
func each(ctx context.Context, addr string, n int, do func(i int, c *caller) error) error {
	all := make([]*caller, n)
	for i := range all {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		all[i] = &caller{conn, bufio.NewReader(conn), []byte("GET / HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")}
	}
	errs := make([]error, n)
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() { errs[i] = do(i, c) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// counts are what callers were answered, and when the first and the last that
// passed were.
type counts struct {
	allowed, refused int
	first, last      time.Time
}

func (c *counts) note(status int, at time.Time) error {
	switch status {
	case http.StatusOK:
		if c.allowed == 0 {
			c.first = at
		}
		c.allowed++
		c.last = at
	case http.StatusTooManyRequests:
		c.refused++
	default:
		return fmt.Errorf("status %d: want 200 or 429", status)
	}
	return nil
}

func (c *counts) add(o counts) {
	if o.allowed > 0 && (c.allowed == 0 || o.first.Before(c.first)) {
		c.first = o.first
	}
	if o.last.After(c.last) {
		c.last = o.last
	}
	c.allowed += o.allowed
	c.refused += o.refused
}

// flood asks as much as callers can, each at least once.
func flood(ctx context.Context, addr string, callers int, length time.Duration) (all counts, err error) {
	parts := make([]counts, callers)
	start := time.Now()
	err = each(ctx, addr, callers, func(i int, c *caller) error {
		for ctx.Err() == nil {
			status, err := c.get()
			if err != nil {
				return err
			}
			if err := parts[i].note(status, time.Now()); err != nil {
				return err
			}
			if time.Since(start) >= length {
				break
			}
		}
		return ctx.Err()
	})
	for _, part := range parts {
		all.add(part)
	}
	return all, err
}

// paced asks at a rate, in requests a second over all callers, as far as it can
// be kept, and returns how long each answer took. Anything but 200 is an error.
func paced(ctx context.Context, addr string, callers int, rate float64, length time.Duration) ([]time.Duration, error) {
	parts := make([][]time.Duration, callers)
	every := time.Duration(float64(callers) * float64(time.Second) / rate)
	start := time.Now()
	err := each(ctx, addr, callers, func(i int, c *caller) error {
		due := start.Add(every * time.Duration(i) / time.Duration(callers))
		for ; due.Sub(start) < length && time.Since(start) < length && ctx.Err() == nil; due = due.Add(every) {
			sleep(ctx, time.Until(due))
			sent := time.Now()
			status, err := c.get()
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("status %d: want 200", status)
			}
			parts[i] = append(parts[i], time.Since(sent))
		}
		return ctx.Err()
	})
	var all []time.Duration
	for _, part := range parts {
		all = append(all, part...)
	}
	return all, err
}

// fetch returns the body of an answer 200.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var text strings.Builder
	_, err = io.Copy(&text, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return text.String(), err
}
