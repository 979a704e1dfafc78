package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A stream reads logs into one sequence of requests in the order of time.
type stream struct {
	o       *Options
	sources []*source
	order   *reorderer
	lines   int64
	bad     []BadLine
	badAll  int64
	failed  []error // logs that could not be read to their end
	size    int64   // bytes of all logs; 0: unknown
	told    time.Time
}

// A source is one log of a stream with the request that comes next in it.
type source struct {
	lineReader
	name string
	json *object
	time stamper
	next entry
}

func newStream(inputs []Input, o *Options, release func(*entry) error) *stream {
	s := &stream{o: o, order: newReorderer(o, release)}
	for i := range inputs {
		src := &source{name: inputs[i].Name}
		src.json = newObject(o.Fields, &src.time)
		if err := src.open(inputs[i].Reader); err != nil {
			s.fail(src, err)
			continue
		}
		s.sources = append(s.sources, src)
		s.size += inputs[i].Size
	}
	for i := range inputs {
		if inputs[i].Size == 0 {
			s.size = 0
		}
	}
	return s
}

// run reads the logs to their end. Of several logs the one whose next request
// is earliest is read on, so that neither their order nor their number matters:
// rotated logs follow each other, logs of several machines are interleaved.
func (s *stream) run(ctx context.Context) error {
	open := s.sources[:0]
	for _, src := range s.sources {
		ok, err := s.advance(ctx, src)
		if err != nil {
			return err
		}
		if ok {
			open = append(open, src)
		}
	}
	for len(open) > 0 {
		first := earliest(open)
		if err := s.order.add(&open[first].next); err != nil {
			return err
		}
		ok, err := s.advance(ctx, open[first])
		if err != nil {
			return err
		}
		if !ok {
			open = append(open[:first], open[first+1:]...)
		}
	}
	if err := s.order.flush(); err != nil {
		return err
	}
	s.report()
	return errors.Join(s.failed...)
}

// earliest returns the source that comes next; the first of equals.
func earliest(sources []*source) int {
	first := 0
	for i := 1; i < len(sources); i++ {
		if sources[i].next.at < sources[first].next.at {
			first = i
		}
	}
	return first
}

// betweenLooks is how many lines pass between two looks at the context and the
// clock.
const betweenLooks = 256

// advance reads the next request of a source; ok is false at its end.
func (s *stream) advance(ctx context.Context, src *source) (ok bool, err error) {
	for {
		if s.lines%betweenLooks == 0 {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			s.progress()
		}
		line, err := src.lineReader.next()
		switch {
		case errors.Is(err, errLong):
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			s.fail(src, err)
			return false, nil
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			err = src.parse(line)
		}
		s.lines++
		if err == nil {
			return true, nil
		}
		s.addBad(src, line, err)
	}
}

// parse reads a line in the format that it begins like.
func (src *source) parse(line []byte) error {
	src.next.reset(line)
	if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte{'{'}) {
		return src.json.read(&src.next)
	}
	return combined(&src.next, &src.time)
}

func (s *stream) fail(src *source, err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the log is cut off")
	}
	s.failed = append(s.failed, fmt.Errorf("%s: after line %d: %w", src.name, src.number, err))
}

const (
	// badShown is how many bad lines a result shows.
	badShown = 5
	// shownBytes is how much of one it shows.
	shownBytes = 160
)

func (s *stream) addBad(src *source, line []byte, err error) {
	s.badAll++
	if len(s.bad) >= badShown {
		return
	}
	text := string(line[:min(len(line), shownBytes)])
	if len(line) > shownBytes {
		text += "..."
	}
	s.bad = append(s.bad, BadLine{File: src.name, Line: src.number, Reason: err.Error(), Text: text})
}

// betweenReports keeps a terminal readable.
const betweenReports = 250 * time.Millisecond

func (s *stream) progress() {
	if s.o.Progress == nil {
		return
	}
	if now := time.Now(); now.Sub(s.told) >= betweenReports {
		s.told = now
		s.report()
	}
}

func (s *stream) report() {
	if s.o.Progress == nil {
		return
	}
	p := Progress{Lines: s.lines, Total: s.size}
	for _, src := range s.sources {
		p.Bytes += src.raw.n
	}
	s.o.Progress(p)
}
