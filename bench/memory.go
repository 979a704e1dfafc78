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
	return append(all, benchmark{
		name: "memory/limiter/xtime",
		unit: "ns/op",
		measure: func(s settings) (result, error) {
			return race(s, serialLoad(), front(wide), xtime(wide))
		},
	})
}

// race compares the time of two limiters under one load.
func race(s settings, l load, a, b subject) (result, error) {
	return raceLoads(s, l, a, l, b)
}

// raceLoads compares the time of two limiters, each under its load.
func raceLoads(s settings, la load, a subject, lb load, b subject) (result, error) {
	first, err := a.start()
	if err != nil {
		return result{}, err
	}
	defer first.stop()
	second, err := b.start()
	if err != nil {
		return result{}, err
	}
	defer second.stop()
	ours, err := la.side(s.round, first.worker)
	if err != nil {
		return result{}, err
	}
	theirs, err := lb.side(s.round, second.worker)
	if err != nil {
		return result{}, err
	}
	res, err := compare(s.pairs, ours, theirs)
	res.counted = true
	return res, err
}
