package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	good := file(t, "good.yaml", shopYAML)
	bad := file(t, "bad.yaml", "limits:\n  - {name: a, kee: [], limit: 1/s}\ngateway: {listen: x}\n")
	out, errs := wantRun(t, 0, good+": no mistakes, 2 limits\n", "", "validate", good)
	if errs != "" || strings.Count(out, "\n") != 1 {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}
	if out, _ := wantRun(t, 0, "", "", "validate", "-q", good); out != "" {
		t.Errorf("-q prints %q", out)
	}
	out, _ = wantRun(t, 1, "no mistakes, 2 limits", "", "validate", bad, good)
	line := regexp.MustCompile(`^` + regexp.QuoteMeta(bad) + `:\d+: [\w.\[\]]+: .+\n$`)
	mistakes := 0
	for text := range strings.Lines(out) {
		if line.MatchString(text) {
			mistakes++
		} else if !strings.Contains(text, "no mistakes") {
			t.Errorf("line %q: want file:line: field: message", text)
		}
	}
	if mistakes != 3 { // kee, listen, routes
		t.Errorf("%d mistakes, want 3:\n%s", mistakes, out)
	}
}

func TestValidateFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	wantRun(t, 1, filepath.Join(dir, "none.yaml")+": no such file or directory\n", "", "validate", filepath.Join(dir, "none.yaml"))
	wantRun(t, 1, dir+": is a directory\n", "", "validate", dir)
	wantRun(t, 1, "empty.yaml:1: the file is empty", "", "validate", file(t, "empty.yaml", ""))
}

func TestValidateWarns(t *testing.T) {
	path := file(t, "warn.yaml", "limits: [{name: a, key: [tenant], limit: 1/s}]\nidentity: {tenant: {header: X}}\n")
	out, _ := wantRun(t, 0, "no mistakes, 1 limit\n", "warning: "+path+":2: identity.tenant: unknown is default", "validate", path)
	if strings.Contains(out, "warning") {
		t.Errorf("stdout %q: warnings are no mistakes", out)
	}
}
