package replay_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
	"github.com/sluice-limiter/sluice/replay"
)

// What would a limit of five requests a minute for each address have done?
func ExampleRun() {
	limit, err := sluice.ParseLimit("5/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := policy.NewSet([]policy.Limit{{Name: "per-ip", Key: []string{"ip"}, Default: limit}})
	if err != nil {
		fmt.Println(err)
		return
	}
	log := strings.Repeat(`192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`+"\n", 8)
	inputs := []replay.Input{{Name: "access.log", Reader: strings.NewReader(log)}}
	result, err := replay.Run(context.Background(), set, inputs, replay.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Allowed, "allowed,", result.Refused, "refused")
	top := result.Limits[0].Top[0]
	fmt.Println(top.Key, "first refused at", top.FirstRefused)
	// Output:
	// 5 allowed, 3 refused
	// 192.0.2.7 first refused at 2015-05-17 10:05:03 +0000 UTC
}

// Which limit would have refused at most one key in a hundred?
func ExampleSuggest() {
	in, err := replay.Open("testdata/access.log", os.Stdin)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	s, err := replay.Suggest(context.Background(), []string{"ip"}, []replay.Input{in},
		replay.SuggestOptions{Shares: []float64{0, 0.2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range s.Proposals {
		fmt.Println(p.Limit, "refuses", p.KeysRefused, "of", s.Keys, "keys")
	}
	// Output:
	// 38/m refuses 0 of 10 keys
	// 5/m refuses 2 of 10 keys
}
