package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A Clock moves the time that servers started under it see, by libfaketime.
type Clock struct {
	file string
	lib  string
}

// NewClock returns a clock that shows the true time until it is moved; dir holds
// its file.
func NewClock(dir string) (*Clock, error) {
	lib := findClock()
	if lib == "" {
		return nil, fmt.Errorf("libfaketime is %w: apt-get install faketime", ErrNotInstalled)
	}
	c := &Clock{file: filepath.Join(dir, "clock"), lib: lib}
	return c, c.Move(0)
}

// HasClock says whether what NewClock needs is installed.
func HasClock() bool { return findClock() != "" }

// findClock returns the library's path, "" if it is not installed.
func findClock() string {
	matches, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(matches) == 0 {
		return ""
	}
	return matches[0]
}

// Move makes the clock show the true time and an offset.
func (c *Clock) Move(offset time.Duration) error {
	// Renamed into place: the file is read whole or not at all.
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", offset.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// StartRedis starts a redis-server under the clock.
func (c *Clock) StartRedis(ctx context.Context, args ...string) (*Redis, error) {
	return startRedis(ctx, []string{
		// jemalloc asks for the time while libfaketime asks it for memory; with
		// the C library's allocator in front both come up.
		"LD_PRELOAD=" + c.lib + ":libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + c.file,
		"FAKETIME_NO_CACHE=1",
		"DONT_FAKE_MONOTONIC=1",
	}, args...)
}
