package sluice_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-limiter/sluice"

// A room is a row of the table of floors: what one package may import. The
// standard library is open to all.
type room struct {
	floor   int
	ours    []string // our own packages; none of them may be on a floor above
	modules []string // modules of others
	tests   []string // what only its tests may import: ours, even from above, or modules
	helper  bool     // only tests may import it
}

// testModules are open to every package's tests.
var testModules = []string{"github.com/google/go-cmp", "pgregory.net/rapid"}

// floors is the house, ground floor first. A new edge is a decision: write it
// here before it is imported.
var floors = map[string]room{
	".": {floor: 0, tests: []string{"store/memory", "store/storetest"}},

	"servers": {floor: 0}, // real servers, for tests and for the lab
	// Of toxiproxy the faults alone: its proxy drags in a router and more.
	"servers/proxy": {floor: 0, modules: []string{"github.com/Shopify/toxiproxy/v2"}},

	"strictyaml":      {floor: 1, modules: []string{"go.yaml.in/yaml/v3"}},
	"store/memory":    {floor: 1, ours: []string{"."}},
	"store/redis":     {floor: 1, ours: []string{"."}, modules: []string{"github.com/redis/rueidis"}},
	"store/coalesce":  {floor: 1, ours: []string{"."}},
	"store/denied":    {floor: 1, ours: []string{"."}},
	"store/lease":     {floor: 1, ours: []string{"."}, tests: []string{"store/memory", "store/storetest", "store/denied", "store/shard"}},
	"store/split":     {floor: 1, ours: []string{"."}},
	"store/guard":     {floor: 1, ours: []string{"."}, modules: []string{"github.com/failsafe-go/failsafe-go"}, tests: []string{"github.com/redis/rueidis"}},
	"store/shard":     {floor: 1, ours: []string{"."}},
	"store/region":    {floor: 1, ours: []string{"."}},
	"store/storetest": {floor: 1, ours: []string{"."}, modules: testModules, helper: true},

	"policy": {floor: 2, ours: []string{".", "strictyaml"}},
	"rules": {
		floor: 2, ours: []string{".", "policy", "strictyaml"},
		modules: []string{"github.com/fsnotify/fsnotify", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/sasl"},
		tests:   []string{"github.com/twmb/franz-go/pkg/kfake"},
	},
	"shed": {floor: 2},
	"metrics": {
		floor: 2, ours: []string{".", "policy"},
		modules: []string{"github.com/prometheus/client_golang"}, tests: []string{"httplimit"},
	},

	"metrics/hot": {floor: 2, ours: []string{".", "policy"}},

	"httplimit": {floor: 3, ours: []string{".", "policy"}},
	"gateway":   {floor: 3, ours: []string{"policy", "httplimit"}, tests: []string{"golang.org/x/net"}},
	"replay":    {floor: 3, ours: []string{".", "policy", "store/memory"}},

	"server": {floor: 4, ours: []string{
		".", "strictyaml", "policy", "rules", "metrics", "metrics/hot", "httplimit", "gateway", "replay",
		"store/memory", "store/redis", "store/coalesce", "store/denied", "store/guard", "store/lease", "store/split", "store/shard",
	}, tests: []string{"github.com/jackc/pgx/v5"}},

	"lab/plot": {floor: 0}, // pictures as SVG
	"lab": {
		floor: 5, ours: []string{
			".", "servers", "servers/proxy", "policy", "rules", "metrics", "server", "lab/plot",
			"store/memory", "store/redis", "store/coalesce", "store/denied", "store/guard", "store/lease",
		},
		modules: []string{"github.com/redis/rueidis", "github.com/jackc/pgx/v5"}, // calls and limiters to compare with
	},
	"cmd/sluice": {floor: 5, ours: []string{
		".", "strictyaml", "store/memory", "policy", "rules", "metrics/hot", "httplimit", "gateway", "replay", "server", "lab",
	}, modules: []string{"golang.org/x/term"}, tests: []string{"github.com/jackc/pgx/v5"}},
	"examples/quickstart": {floor: 5, ours: []string{".", "store/memory"}},
	"examples/middleware": {floor: 5, ours: []string{"store/memory", "httplimit"}},
}

// TestLayout fails on every import that the table of floors does not allow.
func TestLayout(t *testing.T) {
	files := goFiles(t)
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	for _, problem := range misplaced(floors, edges(t, files)) {
		t.Error(problem)
	}
}

// TestLayoutNotices plants edges that must be found.
func TestLayoutNotices(t *testing.T) {
	table := map[string]room{
		".":         {floor: 0, tests: []string{"store/memory"}},
		"store/a":   {floor: 1, ours: []string{"."}, modules: []string{"example.org/db/v2"}},
		"storetest": {floor: 1, ours: []string{"."}, helper: true},
		"policy":    {floor: 2, ours: []string{"."}},
		"server":    {floor: 4, ours: []string{"policy", "store/a"}},
	}
	const (
		mod = module
		cmp = "github.com/google/go-cmp/cmp"
	)
	for _, tt := range []struct {
		e  edge
		ok bool
	}{
		{edge{"store/a", "net/http", false}, true},
		{edge{"store/a", mod, false}, true},
		{edge{"store/a", "example.org/db/v2", false}, true},
		{edge{"store/a", "example.org/db/v2/driver", false}, true},
		{edge{"store/a", "example.org/db/v20", false}, false},
		{edge{"store/a", "example.org/db", false}, false},
		{edge{".", "example.org/db/v2", false}, false},
		{edge{".", mod + "/store/a", false}, false},
		{edge{"store/a", mod + "/policy", false}, false},
		{edge{"policy", mod + "/store/a", false}, false},
		{edge{"policy", mod + "/nowhere", false}, false},
		{edge{"nowhere", "fmt", false}, false},
		{edge{"server", mod + "/policy", false}, true},
		{edge{"server", mod + "/storetest", false}, false},
		{edge{"policy", cmp, false}, false},
		{edge{"policy", cmp, true}, true},
		{edge{"policy", "github.com/stretchr/testify/assert", true}, false},
		{edge{"policy", mod + "/store/a", true}, true},
		{edge{"policy", mod + "/storetest", true}, true},
		{edge{"policy", mod + "/server", true}, false},
		{edge{".", mod + "/store/memory", true}, true},
		{edge{".", mod + "/policy", true}, false},
	} {
		if problems := misplaced(table, []edge{tt.e}); (len(problems) == 0) != tt.ok {
			t.Errorf("misplaced(%+v) = %q, want it allowed: %v", tt.e, problems, tt.ok)
		}
	}
	upward := map[string]room{"low": {floor: 1, ours: []string{"high"}}, "high": {floor: 2}}
	if problems := misplaced(upward, nil); len(problems) != 1 {
		t.Errorf("misplaced(a row that looks up) = %q, want one problem", problems)
	}
	if problems := misplaced(map[string]room{"a": {ours: []string{"gone"}}}, nil); len(problems) != 1 {
		t.Errorf("misplaced(a row that names no package) = %q, want one problem", problems)
	}
}

// An edge is one import.
type edge struct {
	from string // the importing package's folder
	to   string // an import path
	test bool   // by a file of tests
}

// misplaced holds edges against a table of floors.
func misplaced(table map[string]room, found []edge) []string {
	var problems []string
	for name, r := range table {
		for _, to := range r.ours {
			if below, ok := table[to]; !ok || below.floor > r.floor {
				problems = append(problems, fmt.Sprintf("%s: the table lets it import %q, which is above it or nowhere", name, to))
			}
		}
	}
	for _, e := range found {
		r, ok := table[e.from]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s: the package has no row in the table of floors", e.from))
		case !r.allows(table, e):
			problems = append(problems, fmt.Sprintf("%s: may not import %s (tests: %v)", e.from, e.to, e.test))
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// allows judges one edge of a room. Tests may also look at everything that is
// not above them, as their package's users do.
func (r room) allows(table map[string]room, e edge) bool {
	to, own := strings.CutPrefix(e.to, module)
	switch {
	case own && (to == "" || to[0] == '/'):
		to = path.Clean("./" + strings.TrimPrefix(to, "/"))
		target, exists := table[to]
		if e.test {
			return slices.Contains(r.tests, to) || exists && target.floor <= r.floor
		}
		return slices.Contains(r.ours, to) && !target.helper
	case !strings.Contains(strings.Split(e.to, "/")[0], "."):
		return true // the standard library
	case e.test && (within(e.to, testModules) || within(e.to, r.tests)):
		return true
	}
	return within(e.to, r.modules)
}

// within says whether an import path lies in one of the modules.
func within(importPath string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return importPath == m || strings.HasPrefix(importPath, m+"/")
	})
}

// edges reads the imports of all files.
func edges(t *testing.T, files []string) []edge {
	t.Helper()
	var found []edge
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		from, test := filepath.ToSlash(filepath.Dir(name)), strings.HasSuffix(name, "_test.go")
		// An edge to nothing makes sure that the package has a row.
		found = append(found, edge{from, "C", test})
		for _, spec := range file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, edge{from, to, test})
		}
	}
	return found
}

// goFiles returns the paths of the module's Go files, whatever their build
// tags. Modules of their own, such as bench, are left out.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			if strings.HasSuffix(name, ".go") {
				files = append(files, name)
			}
			return nil
		}
		if name == "." {
			return nil
		}
		_, err = os.Stat(filepath.Join(name, "go.mod"))
		if err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
