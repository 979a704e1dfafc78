package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A caller asks one request after the other over one connection. It does less
// than an http.Client, as it shares the machine with what it measures.
type caller struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

func dial(site string) (*caller, error) {
	u, err := url.Parse(site)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, patience)
	if err != nil {
		return nil, err
	}
	return &caller{conn, bufio.NewReader(conn), []byte("GET / HTTP/1.1\r\nHost: " + u.Host + "\r\n\r\n")}, nil
}

// get asks once and returns the status.
func (c *caller) get() (int, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
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

// each lets callers, each with its number and connection, do something at once.
func each(site string, n int, do func(i int, c *caller) error) error {
	all := make([]*caller, n)
	for i := range all {
		c, err := dial(site)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		all[i] = c
	}
	errs := make(chan error, n)
	var wait sync.WaitGroup
	for i, c := range all {
		wait.Go(func() { errs <- do(i, c) })
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// succeed asks once for an answer 200.
func (c *caller) succeed() error {
	status, err := c.get()
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: want 200", status)
	}
	return err
}

// flood asks as much as callers can, and returns the requests answered in a
// second.
func flood(site string, connections int, d time.Duration) (float64, error) {
	var answered atomic.Int64
	start := time.Now()
	err := each(site, connections, func(_ int, c *caller) error {
		for {
			if err := c.succeed(); err != nil {
				return err
			}
			answered.Add(1)
			if time.Since(start) >= d {
				return nil
			}
		}
	})
	return float64(answered.Load()) / time.Since(start).Seconds(), err
}

// paced asks at a rate and returns the median of the times from a request to its
// answer.
func paced(site string, connections int, rate float64, d time.Duration) (time.Duration, error) {
	times, err := pacedTimes(site, connections, rate, d)
	if err != nil {
		return 0, err
	}
	return times[len(times)/2], nil
}

// pacedTimes asks at a rate, in requests a second over all connections, and
// returns the times from a request to its answer, sorted. A rate that cannot be
// kept is an error: the figure would be that of another load.
func pacedTimes(site string, connections int, rate float64, d time.Duration) ([]time.Duration, error) {
	times := make([][]time.Duration, connections)
	every := time.Duration(float64(connections) * float64(time.Second) / rate)
	start := time.Now()
	err := each(site, connections, func(i int, c *caller) error {
		first := start.Add(every * time.Duration(i) / time.Duration(connections))
		for due := first; due.Sub(start) < d && time.Since(start) < d; due = due.Add(every) {
			time.Sleep(time.Until(due))
			sent := time.Now()
			if err := c.succeed(); err != nil {
				return err
			}
			times[i] = append(times[i], time.Since(sent))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	if want := rate * d.Seconds(); len(all) == 0 || float64(len(all)) < 0.8*want {
		return nil, fmt.Errorf("%d requests in %v: want %.0f, the machine is too busy", len(all), d, want)
	}
	return all, nil
}
