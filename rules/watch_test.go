package rules

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A watched file, the calls that its watcher made, and the end of it.
type watched struct {
	path  string
	calls chan struct{}
}

// watch starts a watcher in the test's own goroutine and ends it with the test.
func watch(t *testing.T, path string, tune func(*Watcher)) *watched {
	t.Helper()
	w := NewWatcher(path)
	w.Settle = 5 * time.Millisecond
	if tune != nil {
		tune(w)
	}
	f := &watched{path: path, calls: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx, func() { f.calls <- struct{}{} }); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

func (f *watched) mustFire(t *testing.T, what string) {
	t.Helper()
	select {
	case <-f.calls:
	case <-time.After(5 * time.Second):
		t.Fatalf("no call within 5 s after: %s", what)
	}
}

// drain drops the calls that one change made, of which there may be two: a
// writer that pauses is seen halfway.
func (f *watched) drain() {
	for len(f.calls) > 0 {
		<-f.calls
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatchWriteInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, nil)
	write(t, path, "b")
	f.mustFire(t, "a write in place")
}

func TestWatchRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, nil)
	for _, text := range []string{"b", "c", "d"} {
		write(t, path+".new", text)
		must(t, os.Rename(path+".new", path))
		f.mustFire(t, "mv new old")
	}
}

// Editors write a file of their own, keep the old one under another name, and
// put the new one in its place.
func TestWatchEditor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, nil)
	write(t, filepath.Join(filepath.Dir(path), ".sluice.yaml.swp"), "x")
	must(t, os.Rename(path, path+"~"))
	write(t, path, "b")
	must(t, os.Remove(path+"~"))
	f.mustFire(t, "an editor's save")
}

// kubernetes makes a mounted ConfigMap: the file is a link into ..data, which is
// a link to a directory that is swapped as a whole.
func kubernetes(t *testing.T, dir, version, text string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
	write(t, filepath.Join(dir, version, "sluice.yaml"), text)
	must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

func TestWatchKubernetesSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	kubernetes(t, dir, "..2026_01", "a")
	path := filepath.Join(dir, "sluice.yaml")
	must(t, os.Symlink(filepath.Join("..data", "sluice.yaml"), path))
	f := watch(t, path, nil)
	old := "..2026_01"
	for _, version := range []string{"..2026_02", "..2026_03", "..2026_04"} {
		kubernetes(t, dir, version, version)
		must(t, os.RemoveAll(filepath.Join(dir, old)))
		f.mustFire(t, "a swap of ..data")
		old = version
	}
}

func TestWatchTargetInAnotherDirectory(t *testing.T) {
	dir := t.TempDir()
	releases := t.TempDir()
	for _, r := range []string{"1", "2"} {
		must(t, os.Mkdir(filepath.Join(releases, r), 0o700))
		write(t, filepath.Join(releases, r, "sluice.yaml"), r)
	}
	current := filepath.Join(releases, "current")
	must(t, os.Symlink("1", current))
	path := filepath.Join(dir, "sluice.yaml")
	must(t, os.Symlink(filepath.Join(current, "sluice.yaml"), path))
	f := watch(t, path, nil)

	write(t, filepath.Join(releases, "1", "sluice.yaml"), "1b")
	f.mustFire(t, "a write behind the links")
	must(t, os.Symlink("2", current+".new"))
	must(t, os.Rename(current+".new", current))
	f.mustFire(t, "a swap of a directory on the way")
	write(t, filepath.Join(releases, "2", "sluice.yaml"), "2b")
	f.mustFire(t, "a write in the new directory")
}

func TestWatchVanishAndComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, nil)
	must(t, os.Remove(path))
	f.mustFire(t, "the file is gone")
	write(t, path, "b")
	f.mustFire(t, "the file is back")
}

func TestWatchBeforeTheFileIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	f := watch(t, path, nil)
	write(t, path, "a")
	f.mustFire(t, "the file is new")
}

// A directory that is replaced as a whole sends no event of the file.
func TestWatchDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, func(w *Watcher) { w.Poll = 10 * time.Millisecond })
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Mkdir(dir, 0o700))
	write(t, path, "b")
	f.mustFire(t, "the directory is another")
	f.drain()
	write(t, path, "c")
	f.mustFire(t, "a write in the new directory")
}

func TestWatchSeesWhatChangedBeforeRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	w := NewWatcher(path)
	write(t, path, "b")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	called := false
	if err := w.Run(ctx, func() { called = true; cancel() }); !errors.Is(err, context.Canceled) || !called {
		t.Error("a change between NewWatcher and Run was missed")
	}
}

func TestWatchIgnoresWhatChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	f := watch(t, path, nil)
	write(t, filepath.Join(filepath.Dir(path), "other.yaml"), "x")
	must(t, os.Chmod(path, 0o640))
	must(t, os.Chtimes(path, time.Now(), time.Now()))
	write(t, path+".same", "a")
	must(t, os.Rename(path+".same", path))
	write(t, path, "b") // the one change
	f.mustFire(t, "the change")
	if n := len(f.calls); n > 1 {
		t.Errorf("%d calls more than the one change", n)
	}
}

// E78: a hundred reloads leave as many goroutines and descriptors as one.
func TestCaseE78ReloadsLeakNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "start")
	f := watch(t, path, func(w *Watcher) { w.Settle = time.Millisecond })
	write(t, path, "first")
	f.mustFire(t, "the first change")
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	for i := range 100 {
		write(t, path+".new", string(rune('a'+i%26))+"!")
		must(t, os.Rename(path+".new", path))
		f.mustFire(t, "a reload")
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines after 100 reloads, %d before", n, goroutines)
	}
	if n := openFiles(t); n > descriptors {
		t.Errorf("%d descriptors after 100 reloads, %d before", n, descriptors)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write(t, path, "a")
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		if err := Watch(ctx, path, func() {}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Watch = %v, want %v", err, context.Canceled)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > goroutines || openFiles(t) > descriptors {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d descriptors, want %d and %d", runtime.NumGoroutine(), openFiles(t), goroutines, descriptors)
		}
		runtime.Gosched()
	}
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not list descriptors")
	}
	return len(entries)
}
