// Package proxy stands between a client and a server and does to the answers
// what a bad network does: it delays them or swallows them.
package proxy

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// A Proxy passes on what clients send, and what they are answered as it was last
// told to. It may be used from many goroutines.
type Proxy struct {
	// Addr is where it listens, "127.0.0.1:PORT".
	Addr string

	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	fault  toxics.Toxic
	pipes  map[*pipe]bool
	closed bool
}

// Start returns a proxy before the server at an address, which need not be there
// yet. It does nothing to the answers. It must be closed.
func Start(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: l.Addr().String(), upstream: upstream, listener: l,
		fault: new(toxics.NoopToxic), pipes: make(map[*pipe]bool),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Delay lets every answer arrive later by d, in whole milliseconds, on the
// connections that stand as on new ones.
func (p *Proxy) Delay(d time.Duration) {
	p.set(&toxics.LatencyToxic{Latency: d.Milliseconds()})
}

// Swallow lets no answer arrive any more; connections stand and are accepted.
func (p *Proxy) Swallow() { p.set(new(toxics.TimeoutToxic)) }

// Clear lets answers pass again. Connections that an answer may be missing on
// are closed, as no client could make sense of the next one.
func (p *Proxy) Clear() { p.set(new(toxics.NoopToxic)) }

func (p *Proxy) set(next toxics.Toxic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, holes := p.fault.(*toxics.TimeoutToxic)
	p.fault = next
	for pipe := range p.pipes {
		if holes {
			pipe.cut()
		} else {
			pipe.change(next)
		}
	}
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for pipe := range p.pipes {
		pipe.cut()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve passes a connection's bytes both ways until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, time.Second)
	if err != nil {
		client.Close()
		return
	}
	pipe := newPipe(client, server)
	if !p.add(pipe) {
		pipe.cut()
		return
	}
	pipe.running.Wait()
	p.mu.Lock()
	delete(p.pipes, pipe)
	p.mu.Unlock()
	pipe.faults.Wait()
}

// add starts a pipe; false if the proxy is closed.
func (p *Proxy) add(pipe *pipe) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.pipes[pipe] = true
	pipe.start(p.fault)
	return true
}

// A pipe is one connection through the proxy.
type pipe struct {
	client, server net.Conn
	in             *stream.ChanWriter // the server's answers
	out            *stream.ChanReader // what becomes of them
	stub           *toxics.ToxicStub  // between the two
	running        sync.WaitGroup     // what copies
	faults         sync.WaitGroup     // what runs in the stub
}

// held is how many answers may be on their way: fewer would be delayed one after
// the other.
const held = 1024

func newPipe(client, server net.Conn) *pipe {
	in, out := make(chan *stream.StreamChunk, held), make(chan *stream.StreamChunk)
	return &pipe{
		client: client, server: server,
		in: stream.NewChanWriter(in), out: stream.NewChanReader(out), stub: toxics.NewToxicStub(in, out),
	}
}

func (p *pipe) start(fault toxics.Toxic) {
	p.run(fault)
	p.running.Go(func() {
		io.Copy(p.server, p.client)
		p.cut()
	})
	p.running.Go(func() {
		io.Copy(p.in, p.server)
		p.in.Close()
	})
	p.running.Go(func() {
		io.Copy(p.client, p.out)
		p.cut()
		io.Copy(io.Discard, p.out) // what is still on its way
	})
}

func (p *pipe) run(fault toxics.Toxic) {
	p.faults.Go(func() { p.stub.Run(&toxics.ToxicWrapper{Toxic: fault, Toxicity: 1}) })
}

// change puts another fault in place, unless the connection has ended.
func (p *pipe) change(next toxics.Toxic) {
	if p.stub.InterruptToxic() {
		p.run(next)
	}
}

// cut ends the connection.
func (p *pipe) cut() {
	p.client.Close()
	p.server.Close()
}
