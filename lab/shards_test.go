package lab

import "testing"

func TestShardsRow(t *testing.T) {
	r := ShardsRow{Shards: 10}
	r.fill([]int64{100, 0, 50}, []int64{4100, 8000, 4050}, &hotTally{decisions: 80_000})
	want := ShardsRow{Shards: 10, Node1: 1000, Node2: 2000, Node3: 1000, Busiest: 0.5, CallsPerDecision: 0.2, Decisions: 20_000}
	if r != want || !r.ok() {
		t.Errorf("row %+v, ok %v, want %+v", r, r.ok(), want)
	}
	for name, bad := range map[string]ShardsRow{
		"one node has most": {Shards: 10, Busiest: 0.7},
		"local":             {Shards: 10, Busiest: 0.4, Local: 1},
		"refused":           {Shards: 1, Busiest: 1, Refused: 1},
	} {
		if bad.ok() {
			t.Errorf("%s: %+v is ok", name, bad)
		}
	}
	if one := (ShardsRow{Shards: 1, Busiest: 1}); !one.ok() {
		t.Error("one counter lies on one node, and that is not ok")
	}
}
