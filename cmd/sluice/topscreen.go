package main

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// What a terminal is told.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n" // and nothing of what stood there before
	screenRest  = "\x1b[K\x1b[J"
)

// live shows looks on a terminal until q, ctrl-C or the end of ctx, and leaves the
// terminal as it was.
func (v *topView) live(ctx context.Context, out *os.File) error {
	fd := int(out.Fd())
	keys, stop := readKeys(fd)
	defer stop()
	size := func() (width, height int) {
		width, height, err := term.GetSize(fd)
		if err != nil || width < 1 || height < 1 {
			return 80, 24 // some say nothing
		}
		return width, height
	}
	return v.show(ctx, out, keys, size)
}

// readKeys has a terminal hand on each key as it is typed. Without one to read
// from there are no keys, and ctrl-C is a signal as ever.
func readKeys(fd int) (keys <-chan byte, stop func()) {
	// Not standard input: this one can be closed while it is read.
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, func() {}
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		tty.Close()
		return nil, func() {}
	}
	typed := make(chan byte, 16)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(typed)
		key := make([]byte, 1)
		for {
			if _, err := tty.Read(key); err != nil {
				return
			}
			select {
			case typed <- key[0]:
			default: // nobody looks
			}
		}
	})
	return typed, func() {
		// A failure leaves the terminal to the shell, which sets it right.
		_ = term.Restore(fd, before)
		interruptible := tty.SetReadDeadline(time.Now()) == nil
		tty.Close()
		if interruptible { // else its reader ends with the program
			reading.Wait()
		}
	}
}

// show draws looks until it is told to end.
func (v *topView) show(ctx context.Context, out io.Writer, keys <-chan byte, size func() (width, height int)) (err error) {
	if _, err := io.WriteString(out, screenEnter); err != nil {
		return err
	}
	defer func() {
		if _, failed := io.WriteString(out, screenLeave); err == nil {
			err = failed
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looks := make(chan *topLook)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() { v.keepLooking(ctx, looks) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case key, ok := <-keys:
			switch {
			case !ok:
				keys = nil
			case key == 'q', key == 'Q', key == 3: // ctrl-C
				return nil
			}
		case look := <-looks:
			width, height := size()
			if _, err := io.WriteString(out, draw(look.lines(time.Now()), width, height)); err != nil {
				return err
			}
		}
	}
}

// keepLooking looks at each interval until ctx ends.
func (v *topView) keepLooking(ctx context.Context, looks chan<- *topLook) {
	ticker := time.NewTicker(v.interval)
	defer ticker.Stop()
	for {
		look := v.look(ctx)
		select {
		case <-ctx.Done():
			return
		case looks <- look:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// draw makes of lines what fills a terminal, without scrolling it.
func draw(lines []string, width, height int) string {
	lines[0] += "   q quits"
	var b strings.Builder
	b.WriteString(screenHome)
	for i, line := range lines[:max(1, min(len(lines), height-1))] {
		if i > 0 {
			b.WriteString(lineEnd)
		}
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:max(0, width)])
		}
		b.WriteString(line)
	}
	b.WriteString(screenRest)
	return b.String()
}
