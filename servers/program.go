package servers

import (
	"context"
	"os"
)

// StartProgram starts any program that is to listen on addr, in a folder of its
// own that holds the files, by their names, and waits until ready is nil.
func StartProgram(ctx context.Context, addr string, files map[string]string, ready func() error, name string, args ...string) (*Process, error) {
	dir, err := os.MkdirTemp("", "sluice-program-")
	if err != nil {
		return nil, err
	}
	p := &Process{Addr: addr, Dir: dir, name: name, args: args, ready: ready}
	err = p.write(files)
	if err == nil {
		err = p.start(ctx)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// write writes files into the folder.
func (p *Process) write(files map[string]string) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, text := range files {
		if err := root.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
