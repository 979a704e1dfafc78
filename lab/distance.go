package lab

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A distance hands everything on to a server after a while, as a network
// between would. It carries no less for that: only the way is longer.
type distance struct {
	addr     string
	upstream string
	oneWay   time.Duration
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

// newDistance listens before a server that is to be so far away, there and back.
func newDistance(upstream string, roundTrip time.Duration) (*distance, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &distance{addr: listener.Addr().String(), upstream: upstream, oneWay: roundTrip / 2, listener: listener}
	d.running.Go(d.accept)
	return d, nil
}

func (d *distance) accept() {
	for {
		near, err := d.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", d.upstream)
		if err != nil {
			near.Close()
			continue
		}
		if !d.hold(near, far) {
			return
		}
		d.running.Go(func() { d.carry(near, far) })
		d.running.Go(func() { d.carry(far, near) })
	}
}

// hold remembers connections, so that close ends them; false: it has begun.
func (d *distance) hold(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, conns...)
	if d.closed {
		for _, c := range conns {
			c.Close()
		}
	}
	return !d.closed
}

// A parcel is on its way.
type parcel struct {
	data []byte
	due  time.Time
}

// carry carries one direction until either end is closed.
func (d *distance) carry(from io.Reader, to net.Conn) {
	way := make(chan parcel, 1024)
	d.running.Go(func() {
		for p := range way {
			pause(time.Until(p.due))
			to.Write(p.data) // an error ends the reading end as well
		}
		to.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			way <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(d.oneWay)}
		}
		if err != nil {
			close(way)
			return
		}
	}
}

// pause sleeps as exactly as the system does: timers of a program that has
// nothing else to do are late by up to a millisecond, which here is all.
func pause(d time.Duration) {
	if d > 0 {
		wait := syscall.NsecToTimespec(d.Nanoseconds())
		syscall.Nanosleep(&wait, nil) // one that is cut short is early, no more
	}
}

// close ends all connections and waits until nothing is on its way.
func (d *distance) close() {
	d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for _, c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
}
