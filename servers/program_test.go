package servers_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-limiter/sluice/servers"
)

func TestFindSaysWhatToInstall(t *testing.T) {
	_, err := servers.Find("no-such-program", "some-package")
	if !errors.Is(err, servers.ErrNotInstalled) || err.Error() != "no-such-program is not installed: apt-get install some-package" {
		t.Errorf("%v", err)
	}
}

func TestStartProgram(t *testing.T) {
	p, err := servers.StartProgram(t.Context(), "127.0.0.1:1", map[string]string{"what": "hello"}, func() error { return nil }, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(p.Dir, "what")); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	p.Close()
	if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", p.Dir, err)
	}
	never := func() error { return errors.New("never") }
	if _, err := servers.StartProgram(t.Context(), "127.0.0.1:1", nil, never, "false"); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("a program that ends: %v", err)
	}
	if _, err := servers.StartProgram(t.Context(), "127.0.0.1:1", map[string]string{"../x": ""}, never, "false"); err == nil {
		t.Error("a file outside of the folder: want an error")
	}
}
