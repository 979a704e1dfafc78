package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// An Input is one log to read. It is read once, by one goroutine.
type Input struct {
	// Name stands in messages.
	Name string
	// Reader gives the log, plain or gzip, told apart by its first bytes.
	Reader io.Reader
	// Size is the bytes that Reader will give; 0 means unknown.
	Size int64

	file *os.File // opened here
}

// Open opens a log file; "-" is stdin, which stays open. Whoever opened an
// input closes it.
func Open(name string, stdin io.Reader) (Input, error) {
	if name == "-" {
		return Input{Name: "stdin", Reader: stdin}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return Input{}, err
	}
	in := Input{Name: name, Reader: f, file: f}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: want log files", name)
	}
	if err != nil {
		return Input{}, errors.Join(err, f.Close())
	}
	if info.Mode().IsRegular() {
		in.Size = info.Size()
	}
	return in, nil
}

// Close closes the file that Open opened; for any other input it does nothing.
func (in *Input) Close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

const (
	// maxLine is the longest line read, in bytes: longer ones are bad lines.
	maxLine = 64 << 10
	// readBytes is how much is read at once.
	readBytes = 256 << 10
)

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// A lineReader gives the lines of an input.
type lineReader struct {
	raw    counter
	input  *bufio.Reader
	number int64 // of the line given last, from 1
}

// A counter counts the bytes read, as they are in the file.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// open finds out whether the log is compressed.
func (l *lineReader) open(r io.Reader) error {
	l.raw.r = r
	l.input = bufio.NewReaderSize(&l.raw, readBytes)
	head, err := l.input.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
			_, err := l.input.Discard(3)
			return err
		}
		return nil
	}
	unzipped, err := gzip.NewReader(l.input)
	if err != nil {
		return err
	}
	l.input = bufio.NewReaderSize(unzipped, readBytes)
	return nil
}

// next returns the next line without its end, valid until the call after it.
// The error is errLong for a line to skip, io.EOF at the end.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.input.ReadSlice('\n')
	if len(line) > 0 {
		l.number++
	}
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.input.ReadSlice('\n')
	}
	if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
	if long || len(line) > maxLine {
		return line[:min(len(line), shownBytes+1)], errLong
	}
	return line, nil
}
