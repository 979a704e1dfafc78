package sluice_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a file may be before it must hold more than one idea.
const maxLines = 450

// vague are names that say nothing about what a package holds.
var vague = []string{"util", "utils", "common", "types", "helper", "helpers", "pkg", "misc", "base"}

// TestSource holds the code against what can be counted of its style.
func TestSource(t *testing.T) {
	described := map[string]bool{} // folders whose package has a doc comment
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		problems, hasDoc := inspect(name, src)
		for _, problem := range problems {
			t.Error(problem)
		}
		dir := filepath.Dir(name)
		described[dir] = described[dir] || hasDoc
	}
	for dir, ok := range described {
		if !ok {
			t.Errorf("%s: the package has no doc comment that begins with its name", dir)
		}
	}
}

// TestSourceNotices plants faults that must be found.
func TestSourceNotices(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      int
	}{
		{"a/a.go", "package a\n\n// Do does.\nfunc Do() {}\n\nfunc quiet() {}\n", 0},
		{"a/a.go", "package a\n\nfunc Do() {}\n", 1},
		{"a/a.go", "package a\n\n// This does.\nfunc Do() {}\n", 1},
		{"a/a.go", "package a\n\n// Done does.\nfunc Do() {}\n", 1},
		{"a/a.go", "package a\n\n// A Thing is.\ntype Thing struct{}\n\nfunc (*Thing) Do() {}\n", 1},
		{"a/a.go", "package a\n\ntype thing struct{}\n\nfunc (thing) Do() {}\n", 0},
		{"a/a.go", "package a\n\n// A Thing is.\ntype Thing[T any] struct{}\n\nfunc (t *Thing[T]) Do() {}\n", 1},
		{"a/a.go", "package a\n\ntype thing[T any] struct{}\n\nfunc (*thing[T]) Do() {}\n", 0},
		{"a/a.go", "package a\n\nconst One = 1\n", 1},
		{"a/a.go", "package a\n\n// One is.\nvar One = 1\n", 0},
		{"a/a.go", "package a\n\nconst (\n\t// One is.\n\tOne = 1\n\n\tTwo = 2\n)\n", 1},
		{"a/a.go", "package a\n\n// The numbers.\nconst (\n\tOne = 1\n\tTwo = 2\n)\n", 0},
		{"a/a.go", "package a\n\nconst (\n\t// One and Two are.\n\tOne = 1\n\tTwo = 2\n)\n", 0},
		{"main.go", "package main\n\nfunc Do() {}\n", 0},
		{"util/a.go", "package a\n", 1},
		{"a/a.go", "package common\n", 1},
		{"a/a.go", "package a\n" + strings.Repeat("\n", maxLines-1), 0},
		{"a/a.go", "package a\n" + strings.Repeat("\n", maxLines), 1},
		{"a/a.go", "package\n", 1},
	} {
		if got, _ := inspect(tt.name, []byte(tt.src)); len(got) != tt.want {
			t.Errorf("inspect(%q, %.80q) = %q, want %d problems", tt.name, tt.src, got, tt.want)
		}
	}
	if _, hasDoc := inspect("a/a.go", []byte("// Package a is.\npackage a\n")); !hasDoc {
		t.Error("inspect does not see a package's doc comment")
	}
	if _, hasDoc := inspect("a/a.go", []byte("// License: none.\npackage a\n")); hasDoc {
		t.Error("inspect takes any comment for a package's doc comment")
	}
}

// inspect returns what is wrong with a file, and whether it describes its
// package.
func inspect(name string, src []byte) (problems []string, hasDoc bool) {
	fail := func(format string, args ...any) {
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		fail("%v", err)
		return problems, false
	}
	if n := bytes.Count(src, []byte("\n")); n > maxLines {
		fail("the file has %d lines: want at most %d", n, maxLines)
	}
	elements := append(strings.Split(filepath.ToSlash(filepath.Dir(name)), "/"), file.Name.Name)
	for _, element := range elements {
		if slices.Contains(vague, element) {
			fail("a package named %q says nothing about what is in it", element)
			break
		}
	}
	if file.Name.Name == "main" {
		return problems, file.Doc != nil
	}
	for _, declaration := range file.Decls {
		for _, undocumented := range undescribed(declaration) {
			fail("%s: want a doc comment that begins with the name", undocumented)
		}
	}
	return problems, strings.HasPrefix(file.Doc.Text(), "Package "+file.Name.Name+" ")
}

// undescribed returns the exported names of a declaration that lack a comment.
func undescribed(declaration ast.Decl) []string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && receiverExported(d) && !describes(d.Doc, d.Name) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		return undescribedSpecs(d)
	}
	return nil
}

func undescribedSpecs(d *ast.GenDecl) []string {
	var bad []string
	above := "" // the last comment in a group of values, which may name several
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && !describes(s.Doc, s.Name) && (d.Lparen.IsValid() || !describes(d.Doc, s.Name)) {
				bad = append(bad, s.Name.Name)
			}
		case *ast.ValueSpec:
			if s.Doc != nil {
				above = s.Doc.Text()
			}
			for _, name := range s.Names {
				// A group may be described as a whole, a value beside itself.
				group := d.Lparen.IsValid() && d.Doc != nil || s.Comment != nil
				shared := slices.Contains(strings.FieldsFunc(above, notInName), name.Name)
				if name.IsExported() && !group && !shared && !describes(d.Doc, name) {
					bad = append(bad, name.Name)
				}
			}
		}
	}
	return bad
}

func notInName(r rune) bool { return strings.ContainsRune(" \n\t,.:;()[]", r) }

// describes says whether a comment begins with the name, or with an article and
// the name.
func describes(doc *ast.CommentGroup, name *ast.Ident) bool {
	words := strings.FieldsFunc(doc.Text(), notInName)
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	return len(words) > 0 && words[0] == name.Name
}

// receiverExported says whether a function is no method, or one of an exported
// type.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	var base *ast.Ident // the first name: behind it stand type parameters
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && base == nil {
			base = id
		}
		return base == nil
	})
	return base != nil && base.IsExported()
}
