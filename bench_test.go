package sluice

import "testing"

// benchNow is a time of 2026, in ticks.
const benchNow = 1e14

func BenchmarkMeter(b *testing.B) {
	l := newKey(b, "100/s burst 200").limit
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Meter(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBucket(b *testing.B) {
	for name, step := range map[string]int64{"allowed": ticksPerSecond, "refused": 0} {
		b.Run(name, func(b *testing.B) {
			k := newKey(b, "100/s burst 200")
			state, _ := k.meter.Bucket(0, benchNow, 200, 200)
			now := int64(benchNow)
			b.ReportAllocs()
			for b.Loop() {
				now += step
				state, _ = k.meter.Bucket(state, now, 1, 1)
			}
		})
	}
}

func BenchmarkMeterAndBucket(b *testing.B) {
	l := newKey(b, "100/s burst 200").limit
	state, now := int64(0), int64(benchNow)
	b.ReportAllocs()
	for b.Loop() {
		m, err := l.Meter()
		if err != nil {
			b.Fatal(err)
		}
		now += ticksPerSecond
		state, _ = m.Bucket(state, now, 1, 1)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, limit := range []string{
		"100/s", "100/s fixed_window", "100/s sliding_window", "100/s sliding_log", "100/day calendar Europe/Berlin",
	} {
		b.Run(limit, func(b *testing.B) {
			k := newKey(b, limit)
			charges, meters, states := []Charge{{Limit: k.limit, N: 1}}, []Meter{k.meter}, []*State{&k.state}
			var buf [1]Decision
			now := int64(benchNow)
			b.ReportAllocs()
			for b.Loop() {
				now += ticksPerSecond / 200
				Decide(buf[:0], charges, meters, states, now)
			}
		})
	}
	b.Run("a group of three", func(b *testing.B) {
		var charges []Charge
		var meters []Meter
		var states []*State
		for _, limit := range []string{"100/s", "1000/m sliding_window", "1M/day fixed_window"} {
			k := newKey(b, limit)
			charges, meters, states = append(charges, Charge{Limit: k.limit, N: 1}), append(meters, k.meter), append(states, &k.state)
		}
		var buf [3]Decision
		now := int64(benchNow)
		b.ReportAllocs()
		for b.Loop() {
			now += ticksPerSecond / 200
			Decide(buf[:0], charges, meters, states, now)
		}
	})
}
