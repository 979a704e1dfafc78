package coalesce

import (
	"errors"
	"runtime"
	"sync"
)

var errCount = errors.New("coalesce: the store did not answer every charge")

// maxIdle bounds the workers that wait for work.
const maxIdle = 64

// workers are the goroutines that make the calls. One that has ended a call
// makes the next that is ready in its lane; with none, it waits for one of any
// lane.
type workers struct {
	work chan *batch
	quit chan struct{}
	wait sync.WaitGroup

	mu     sync.Mutex
	idle   int
	closed bool
}

func (p *workers) init() {
	p.work = make(chan *batch)
	p.quit = make(chan struct{})
}

// run gives a call to a worker that waits, or to a new one.
func (p *workers) run(b *batch) {
	select {
	case p.work <- b:
		return
	default:
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		b.abort(ErrClosed)
		return
	}
	p.wait.Add(1)
	p.mu.Unlock()
	go p.worker(b)
}

func (p *workers) worker(b *batch) {
	defer p.wait.Done()
	for b != nil {
		b.run()
		if b.lane.busy() {
			// Those who were just answered ask again before the next call goes
			// out, and go along: calls get half as many again. The wire has
			// work meanwhile.
			runtime.Gosched()
		}
		next := b.lane.landed(b)
		if len(b.back) > 0 {
			p.hand(next)
			next = nil
			b.giveBack()
		} else if next != nil {
			p.hand(next.next)
			next.next = nil
		}
		b.recycle()
		if b = next; b == nil {
			b = p.next()
		}
	}
}

// hand gives linked calls to other workers. It is called by a worker, for which
// close still waits.
func (p *workers) hand(b *batch) {
	for b != nil {
		next := b.next
		b.next = nil
		select {
		case p.work <- b:
		default:
			p.wait.Add(1)
			go p.worker(b)
		}
		b = next
	}
}

// next waits for a call; nil if the worker is to end.
func (p *workers) next() *batch {
	p.mu.Lock()
	if p.idle >= maxIdle || p.closed {
		p.mu.Unlock()
		return nil
	}
	p.idle++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.idle--
		p.mu.Unlock()
	}()
	select {
	case b := <-p.work:
		return b
	case <-p.quit:
		return nil
	}
}

func (p *workers) close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
	p.mu.Unlock()
	p.wait.Wait()
}

// abort answers everyone with an error, as if the call had been made, and those
// that follow it.
func (b *batch) abort(err error) {
	for b != nil {
		b.fail(err)
		last := b
		for last.next != nil {
			last = last.next
		}
		last.next = b.lane.landed(b)
		next := b.next
		b.recycle()
		b = next
	}
}
