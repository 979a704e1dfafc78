package replay

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

func TestQuick(t *testing.T) {
	l, _ := sluice.ParseLimit("30/m burst 10")
	set, err := policy.NewSet([]policy.Limit{{Name: "per-ip", Key: []string{"ip"}, Default: l}})
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
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	e.Encode(r)
}
