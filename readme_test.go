package sluice_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeExamples holds each program in the README equal to the file that
// the comment above it names, and builds these files.
func TestReadmeExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)<!-- (\\S+) -->\n```go\n(.*?)```\n")
	found := program.FindAllSubmatch(readme, -1)
	if all := strings.Count(string(readme), "```go\n"); all == 0 || len(found) != all {
		t.Fatalf("%d of %d programs in the README say which file they are", len(found), all)
	}
	for _, match := range found {
		name, shown := string(match[1]), string(match[2])
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// The file begins with a doc comment, which the README has no need of.
		if _, code, _ := strings.Cut(string(src), "\npackage main"); "package main"+code != shown {
			t.Errorf("the README differs from %s: copy the file, without its doc comment, into the README", name)
		}
	}
	if out, err := exec.Command("go", "vet", "./examples/...").CombinedOutput(); err != nil {
		t.Errorf("go vet ./examples/...: %v\n%s", err, out)
	}
}
