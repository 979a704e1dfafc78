package replay

import (
	"context"
	"os"
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

func TestQuick(t *testing.T) {
	l, _ := sluice.ParseLimit("30/m burst 10")
	l2, _ := sluice.ParseLimit("5/s")
	set, err := policy.NewSet([]policy.Limit{{Name: "per-ip", Key: []string{"ip"}, Default: l}, {Name: "all", Shadow: true, Default: l2}, {Name: "agent", Key: []string{"user_agent", "tenant"}, Default: l}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open("../../shared/data/access.log", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), set, []Input{in}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	WriteTable(os.Stdout, r)
	f, _ := os.Create("/tmp/replay.svg")
	WritePlot(f, r)
	f.Close()
}

func TestQuickSuggest(t *testing.T) {
	in, err := Open("../../shared/data/access.log", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Suggest(context.Background(), []string{"ip"}, []Input{in}, SuggestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.WriteTable(os.Stdout)
}
