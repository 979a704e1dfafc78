package memory

import "github.com/sluice-limiter/sluice"

// A window is the counter of a key for a limit that is no token bucket. The
// lock of its shard guards it.
type window struct {
	name  name
	state sluice.State
	full  int64 // when the key is as if never used, in ticks
	at    int   // its place in the ring
}

// A name tells windows apart: limits of another kind never meet.
type name struct {
	key  string
	kind sluice.Kind
}

// windows is a set that can be looked through a little at a time. The zero
// value is empty.
type windows struct {
	byName map[name]*window
	ring   []*window
	hand   int // the next place of the ring to look at
}

func (ws *windows) add(w *window) {
	if ws.byName == nil {
		ws.byName = make(map[name]*window)
	}
	ws.byName[w.name] = w
	w.at = len(ws.ring)
	ws.ring = append(ws.ring, w)
}

// remove takes out a window that is there; the last of the ring takes its
// place, and the hand comes to it next.
func (ws *windows) remove(w *window) {
	delete(ws.byName, w.name)
	last := len(ws.ring) - 1
	ws.ring[w.at] = ws.ring[last]
	ws.ring[w.at].at = w.at
	ws.ring[last] = nil
	ws.ring = ws.ring[:last]
	if ws.hand == w.at {
		ws.hand--
	}
}

// next returns the window under the hand and moves the hand; nil if there is
// none.
func (ws *windows) next() *window {
	if len(ws.ring) == 0 {
		return nil
	}
	ws.hand++
	if ws.hand >= len(ws.ring) {
		ws.hand = 0
	}
	return ws.ring[ws.hand]
}

// nearest looks at evictLook windows from the hand on, fewer where one is
// full, and returns the one nearest to full; nil if there is none.
func (ws *windows) nearest(now int64) *window {
	var nearest *window
	for range min(evictLook, len(ws.ring)) {
		if w := ws.next(); nearest == nil || w.full < nearest.full {
			nearest = w
		}
		if nearest.full <= now {
			break
		}
	}
	return nearest
}
