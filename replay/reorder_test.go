package replay

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// released is what a reorderer gave back: the time and the number of the line.
type released struct {
	at   int64
	line int
}

func reorder(o Options, times []int64) (out []released, r *reorderer) {
	r = newReorderer(&o, func(e *entry) error {
		n, err := strconv.Atoi(string(e.line))
		out = append(out, released{e.at, n})
		return err
	})
	for i, at := range times {
		if r.add(&entry{at: at, line: []byte(strconv.Itoa(i))}) != nil {
			return nil, r
		}
	}
	if r.flush() != nil {
		return nil, r
	}
	return out, r
}

func TestReorderSortsWithinTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Int64Range(0, 50).Draw(t, "window")
		back := rapid.SliceOf(rapid.Int64Range(0, 60)).Draw(t, "back")
		var times []int64
		now := int64(0)
		for _, b := range back {
			now += rapid.Int64Range(0, 20).Draw(t, "step")
			times = append(times, now-b)
		}
		got, r := reorder(Options{Window: time.Duration(window), WindowLines: 1 << 20}, times)
		checkReleased(t, times, got)
		inOrder := true
		newest := int64(-1 << 60)
		for _, at := range times {
			inOrder = inOrder && at >= newest-window
			newest = max(newest, at)
		}
		if inOrder && r.late != 0 {
			t.Errorf("%d lines late, though none was further out of order than %d", r.late, window)
		}
		if r.late == 0 {
			var want []released
			for i, at := range times {
				want = append(want, released{at, i})
			}
			slices.SortStableFunc(want, func(a, b released) int { return int(a.at - b.at) })
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(released{})); diff != "" {
				t.Errorf("not the stable order (-want +got):\n%s", diff)
			}
		}
	})
}

// checkReleased checks what holds however late lines are: each line comes out
// once, time never goes back, and no line is decided before its own time.
func checkReleased(t rapid.TB, times []int64, got []released) {
	if len(got) != len(times) {
		t.Fatalf("%d lines out of %d", len(got), len(times))
	}
	seen := make([]bool, len(times))
	for i, g := range got {
		if i > 0 && g.at < got[i-1].at {
			t.Errorf("time goes back from %d to %d", got[i-1].at, g.at)
		}
		if seen[g.line] || g.at < times[g.line] {
			t.Errorf("line %d of time %d: at %d, seen before: %v", g.line, times[g.line], g.at, seen[g.line])
		}
		seen[g.line] = true
	}
}

func TestReorderCountsLateLines(t *testing.T) {
	got, r := reorder(Options{Window: 10, WindowLines: 100}, []int64{0, 5, 3, 20, 4, 10, 40, 19})
	want := []released{{0, 0}, {3, 2}, {5, 1}, {5, 4}, {10, 5}, {20, 3}, {20, 7}, {40, 6}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(released{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.late != 2 || r.lateBy != 1 {
		t.Errorf("late = %d by %d, want 2 by 1", r.late, r.lateBy)
	}
}

func TestReorderIsBounded(t *testing.T) {
	r := newReorderer(&Options{Window: time.Hour, WindowLines: 100}, func(*entry) error { return nil })
	for i := range 10_000 {
		if err := r.add(&entry{at: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.slots) > 101 || r.early != 9900 || r.late != 0 {
		t.Errorf("slots, early, late = %d, %d, %d, want at most 101, 9900, 0", len(r.slots), r.early, r.late)
	}
	r = newReorderer(&Options{Window: time.Hour, WindowLines: 1 << 20}, func(*entry) error { return nil })
	for i := range 5000 {
		if err := r.add(&entry{at: int64(i), line: make([]byte, maxLine)}); err != nil {
			t.Fatal(err)
		}
		if held := r.bytes; held > windowBytes {
			t.Fatalf("%d bytes held, want at most %d", held, windowBytes)
		}
	}
	if r.early == 0 {
		t.Error("long lines were not bounded")
	}
}
