package main

// memoryBenchmarks time the memory store against limiters that live in one
// process.
func memoryBenchmarks() []benchmark {
	var all []benchmark
	for _, pattern := range []struct {
		name string
		load func() load
		best float64 // the target against x/time/rate
	}{
		{"serial", serialLoad, 0.6},
		{"zipf", zipfLoad, 0.5},
		{"uniform", uniformLoad, 0.35},
	} {
		for _, peer := range peers() {
			b := benchmark{
				name: "memory/" + pattern.name + "/" + peer.name,
				unit: "ns/op",
				measure: func(s settings) (result, error) {
					return race(s, pattern.load(), ours(wide), peer)
				},
			}
			if peer.name == "xtime" {
				b.target = []bound{atMost("ratio", pattern.best), atMost("allocs", 0)}
			}
			all = append(all, b)
		}
	}
	return all
}

// race compares the time of two limiters under one load.
func race(s settings, l load, a, b subject) (result, error) {
	var sides [2]side
	for i, subject := range []subject{a, b} {
		limiter, err := subject.start()
		if err != nil {
			return result{}, err
		}
		defer limiter.stop()
		if sides[i], err = l.side(s.round, limiter.worker); err != nil {
			return result{}, err
		}
	}
	res, err := compare(s.pairs, sides[0], sides[1])
	res.counted = true
	return res, err
}
