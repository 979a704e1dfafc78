package strictyaml

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, data string) *Document {
	t.Helper()
	doc, err := Parse("f.yaml", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestUnknownFields(t *testing.T) {
	doc := parse(t, "limit: 1\nbrust: 2\nnmae: 3\ncompletely: 4\n\"a.b\": 5\n1: 6\n")
	doc.Root().Mapping("name", "limit", "burst")
	want := `f.yaml:2: brust: unknown field: did you mean burst?
f.yaml:3: nmae: unknown field: did you mean name?
f.yaml:4: completely: unknown field: want name, limit or burst
f.yaml:5: ["a.b"]: unknown field: want name, limit or burst
f.yaml:6: 1: unknown field: want name, limit or burst`
	if diff := cmp.Diff(want, fmt.Sprint(doc.Err())); diff != "" {
		t.Error(diff)
	}
}

func TestPathsAndPlaces(t *testing.T) {
	doc := parse(t, "limits:\n  - name: a\n  - name: b\n    overrides:\n      - limit: x\n")
	n := doc.Root().Mapping("limits").Get("limits").Item(1).Mapping("name", "overrides").Get("overrides").Item(0)
	m := n.Mapping("limit")
	m.Get("limit").Problem("no")
	m.Problem("burst", "missing")
	if n.Source() != "f.yaml:5" || n.Line() != 5 || n.Field() != "limits[1].overrides[0]" {
		t.Errorf("place = %q, line %d, field %q", n.Source(), n.Line(), n.Field())
	}
	want := "f.yaml:5: limits[1].overrides[0].limit: no\nf.yaml:5: limits[1].overrides[0].burst: missing"
	if got := fmt.Sprint(doc.Err()); got != want {
		t.Errorf("problems = %s, want %s", got, want)
	}
}

func TestWrongKinds(t *testing.T) {
	doc := parse(t, "list: a\nmapping: [a]\ntext: {a: b}\nnone:\nneeded: {a: 1}\n")
	m := doc.Root().Mapping("list", "mapping", "text", "none", "needed")
	m.Get("list").Items()
	m.Get("mapping").Mapping("a")
	m.Get("text").Text()
	m.Get("none").Int(0, 1, 9)
	m.Get("needed").Mapping("a", "b").Need("b", "a name")
	want := `f.yaml:1: list: want a list, not a single value
f.yaml:2: mapping: want fields, each as "name: value", not a list
f.yaml:3: text: want text, not a mapping
f.yaml:4: none: has no value: want a whole number from 1 to 9, or leave the field out
f.yaml:5: needed.b: missing: want a name`
	if diff := cmp.Diff(want, fmt.Sprint(doc.Err())); diff != "" {
		t.Error(diff)
	}
}

// A field that is misspelt is one problem and not also missing.
func TestMisspelt(t *testing.T) {
	doc := parse(t, "a: {limt: 1, nothing: 2}\nb: {limt: 1, limit: 2}\n")
	a := doc.Root().Mapping("a", "b").Get("a").Mapping("limit", "name")
	b := doc.Root().Mapping("a", "b").Get("b").Mapping("limit", "name")
	a.Need("limit", "a rate")
	a.Need("name", "a name")
	if !a.Misspelt("limit") || a.Misspelt("name") || b.Misspelt("limit") || (Mapping{}).Misspelt("limit") {
		t.Error("limit of a is misspelt, and nothing else")
	}
	want := `f.yaml:1: a.limt: unknown field: did you mean limit?
f.yaml:1: a.nothing: unknown field: want limit or name
f.yaml:1: a.name: missing: want a name
f.yaml:2: b.limt: unknown field: did you mean limit?`
	if diff := cmp.Diff(want, fmt.Sprint(doc.Err())); diff != "" {
		t.Error(diff)
	}
}

// Text is what the file says, whatever YAML would make of it.
func TestTextIsAsWritten(t *testing.T) {
	doc := parse(t, "- no\n- 010\n- 1e3\n- 2026-01-01\n- 0x10\n- \"null\"\n- '*'\n- 1_000\n- .inf\n")
	want := []string{"no", "010", "1e3", "2026-01-01", "0x10", "null", "*", "1_000", ".inf"}
	if diff := cmp.Diff(want, doc.Root().Texts()); diff != "" || doc.Err() != nil {
		t.Error(diff, doc.Err())
	}
}

func TestMissingValuesReadAsDefaults(t *testing.T) {
	var n Node
	if n.Exists() || n.Text() != "" || n.Texts() != nil || n.Items() != nil || n.Entries() != nil ||
		n.Int(7, 0, 1) != 7 || !n.Bool(true) || n.Duration(time.Second, 0, 1) != time.Second ||
		n.Millionths(3, 0, 1) != 3 || n.Size(5, 0, 1) != 5 || n.OneOf("x", "y") != "x" ||
		n.Mapping("a").Get("a").Exists() || n.Mapping("a").Need("a", "b").Exists() || n.Source() != "" {
		t.Error("the zero Node does not read as its defaults")
	}
	n.Problem("nowhere")
	n.Mapping().Problem("a", "nowhere")
}

func TestMerge(t *testing.T) {
	doc := parse(t, `
base: &base {limit: 1, burst: 2, key: a}
other: &other {burst: 9, zone: z}
one: {<<: *base, burst: 3}
two: {limit: 7, <<: [*base, *other]}
`)
	read := func(name string) map[string]string {
		fields := map[string]string{}
		for _, e := range doc.Root().Mapping("base", "other", "one", "two").Get(name).Entries() {
			fields[e.Name] = e.Value.Text()
		}
		return fields
	}
	if diff := cmp.Diff(map[string]string{"limit": "1", "burst": "3", "key": "a"}, read("one")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"limit": "7", "burst": "2", "key": "a", "zone": "z"}, read("two")); diff != "" {
		t.Error(diff)
	}
	if doc.Err() != nil {
		t.Error(doc.Err())
	}
}

func TestManyFields(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "f%d: %d\n", i, i)
	}
	entries := parse(t, b.String()).Root().Entries()
	if len(entries) != 200 || entries[199].Name != "f199" || entries[199].Value.Text() != "199" || entries[199].Line != 200 {
		t.Errorf("%d entries, the last %+v", len(entries), entries[len(entries)-1])
	}
}

func TestNumbers(t *testing.T) {
	const big = 1 << 62
	integer := func(n Node) int64 { return n.Int(-1, 0, big) }
	size := func(n Node) int64 { return n.Size(-1, 0, big) }
	share := func(n Node) int64 { return n.Millionths(-1, 0, 1_000_000) }
	duration := func(n Node) int64 { return int64(n.Duration(-1, 0, big)) }
	for _, test := range []struct {
		read func(Node) int64
		text string
		want int64 // -1: a problem
	}{
		{integer, "0", 0},
		{integer, "100", 100},
		{integer, "10k", 10_000},
		{integer, "1M", 1_000_000},
		{integer, "1.5k", 1500},
		{integer, "1_000", 1000},
		{integer, "2G", 2_000_000_000},
		{integer, `"7"`, 7},
		{integer, "010", 10},
		{integer, "1.5", -1},
		{integer, "-1", -1},
		{integer, "0x10", -1},
		{integer, "1e3", -1},
		{integer, "1m", -1},
		{integer, "k", -1},
		{integer, "_1", -1},
		{integer, "1_", -1},
		{integer, "99999999999999999999", -1},
		{integer, "9999999999999G", -1},
		{integer, "1.0", 1},
		{integer, "1.", -1},
		{integer, ".5k", -1},
		{integer, "٣", -1},
		{integer, "''", -1},
		{size, "512", 512},
		{size, "64KiB", 65536},
		{size, "1MiB", 1 << 20},
		{size, "1 MiB", 1 << 20},
		{size, "1.5KiB", 1536},
		{size, "1MB", 1_000_000},
		{size, "10B", 10},
		{size, "1mib", -1},
		{size, "MiB", -1},
		{size, "0.1KiB", -1},
		{share, "1%", 10_000},
		{share, "0.5%", 5000},
		{share, "0.01", 10_000},
		{share, "0.0001%", 1},
		{share, "100%", 1_000_000},
		{share, "1", 1_000_000},
		{share, "101%", -1},
		{share, "0.00001%", -1},
		{share, `"%"`, -1},
		{share, "one", -1},
		{duration, "5ms", int64(5 * time.Millisecond)},
		{duration, "30s", int64(30 * time.Second)},
		{duration, "1d", int64(24 * time.Hour)},
		{duration, "1h30m", int64(90 * time.Minute)},
		{duration, "1.5s", int64(1500 * time.Millisecond)},
		{duration, "0", 0},
		{duration, "2days", int64(48 * time.Hour)},
		{duration, "10min", int64(10 * time.Minute)},
		{duration, "1w", int64(7 * 24 * time.Hour)},
		{duration, "5", -1},
		{duration, "ms", -1},
		{duration, "5 ms", -1},
		{duration, "-5ms", -1},
		{duration, "5mss", -1},
		{duration, "300000000h", -1},
	} {
		doc := parse(t, "x: "+test.text+"\n")
		got := test.read(doc.Root().Mapping("x").Get("x"))
		if got != test.want || (doc.Err() != nil) != (test.want == -1) {
			t.Errorf("%s = %d, want %d; problems: %v", test.text, got, test.want, doc.Err())
		}
	}
}

func TestMessagesNameFormAndBounds(t *testing.T) {
	doc := parse(t, "int: x\nsize: 1PB\nshare: 60%\ntime: 1d\nbool: yes\nword: aloow\nlong: "+strings.Repeat("x", 100)+"\n")
	m := doc.Root().Mapping("int", "size", "share", "time", "bool", "word", "long")
	m.Get("int").Int(0, 1, 100)
	m.Get("size").Size(0, 1024, 1<<20)
	m.Get("share").Millionths(0, 1, 500_000)
	m.Get("time").Duration(0, time.Millisecond, 90*time.Minute)
	m.Get("bool").Bool(false)
	m.Get("word").OneOf("", "allow", "deny")
	m.Get("long").Bool(false)
	want := `f.yaml:1: int: "x": want a whole number from 1 to 100
f.yaml:2: size: "1PB": want a size such as 64KiB or 1MiB from 1KiB to 1MiB
f.yaml:3: share: "60%": want a share such as 1% or 0.01 from 0.0001% to 50%
f.yaml:4: time: "1d": want a time such as 5ms, 30s or 1h30m from 1ms to 1h30m
f.yaml:5: bool: "yes": want true or false
f.yaml:6: word: unknown "aloow": did you mean allow?
f.yaml:7: long: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...": want true or false`
	if diff := cmp.Diff(want, fmt.Sprint(doc.Err())); diff != "" {
		t.Error(diff)
	}
}
