package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// events is a watch on the directories that a file is reached through. A file
// that is replaced takes a watch on itself with it; its directory stays.
type events struct {
	path    string
	watcher *fsnotify.Watcher // nil: the system has none to give
	links   []string          // the path, the links behind it, and the file
	dirs    []string          // watched
}

func openEvents(path string) *events {
	e := &events{path: path}
	if w, err := fsnotify.NewWatcher(); err == nil {
		e.watcher = w
	}
	e.follow()
	return e
}

// follow watches the directories that matter now and no others. A directory
// that is not there is tried again the next time.
func (e *events) follow() {
	if e.watcher == nil {
		return
	}
	e.links = chain(e.path)
	var dirs []string
	for _, link := range e.links {
		if dir := filepath.Dir(link); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range e.dirs {
		if !slices.Contains(dirs, dir) {
			// It may be gone, and the watch with it.
			_ = e.watcher.Remove(dir)
		}
	}
	for _, dir := range dirs {
		// Adding again does nothing, unless the directory was replaced. What
		// cannot be watched is polled.
		_ = e.watcher.Add(dir)
	}
	e.dirs = dirs
}

// concerns says whether an event is about the file or a link that leads to it.
func (e *events) concerns(event fsnotify.Event) bool {
	return event.Op&^fsnotify.Chmod != 0 && slices.Contains(e.links, filepath.Clean(event.Name))
}

// events returns the channel of events, which is nil without a watch.
func (e *events) events() <-chan fsnotify.Event {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Events
}

func (e *events) errors() <-chan error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Errors
}

func (e *events) close() {
	if e.watcher != nil {
		// Nothing is lost by a watch that ends badly.
		_ = e.watcher.Close()
		e.watcher = nil
	}
}

// maxLinks bounds the symbolic links followed, as the system does.
const maxLinks = 40

// chain returns the path, every symbolic link on the way to the file, directories
// too, and at the end the file itself, all as absolute paths. Where the way is
// broken, it ends there.
func chain(path string) []string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return []string{filepath.Clean(path)}
	}
	links := []string{abs}
	for range maxLinks {
		link, target := firstLink(links[len(links)-1])
		if link == "" {
			break
		}
		if !slices.Contains(links, link) {
			links = append(links, link)
		}
		links = append(links, target)
	}
	return links
}

// firstLink finds the first symbolic link on an absolute path, and the path
// with that link replaced by what it names; "" if there is none.
func firstLink(path string) (link, resolved string) {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != filepath.Separator {
			continue
		}
		info, err := os.Lstat(path[:end])
		if err != nil {
			return "", ""
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(path[:end])
		if err != nil {
			return "", ""
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path[:end]), target)
		}
		return path[:end], filepath.Join(target, strings.TrimPrefix(path[end:], string(filepath.Separator)))
	}
	return "", ""
}
