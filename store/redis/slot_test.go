package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-limiter/sluice"
)

// plainSlot computes a key's slot as the cluster specification words it.
func plainSlot(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	crc := 0
	for _, c := range []byte(key) {
		crc ^= int(c) << 8
		for range 8 {
			if crc <<= 1; crc > 0xffff {
				crc = crc&0xffff ^ 0x1021
			}
		}
	}
	return crc % slotCount
}

func TestPlainSlot(t *testing.T) {
	// From the cluster specification.
	if got := plainSlot("123456789"); got != 0x31c3 {
		t.Errorf("plainSlot = %#x, want 0x31c3", got)
	}
}

func FuzzSlot(f *testing.F) {
	f.Add("rl", "", "key", false)
	f.Add("rl", "tenant", "key", true)
	f.Add("r{l", "te}n%{", "k}e{y}", false)
	f.Add("{}", "", "{a}{b}", true)
	f.Add("rl", "{", "}", true)
	f.Fuzz(func(t *testing.T, prefix, tag, key string, window bool) {
		c := sluice.Charge{Key: key, Tag: tag, Limit: sluice.Limit{Tokens: 1, Per: time.Minute}}
		if window {
			c.Limit.Algorithm = sluice.FixedWindow
		}
		name := string(appendKey(nil, prefix, &c))
		if got, want := slotOf(prefix, &c), plainSlot(name); got != want {
			t.Errorf("slotOf(%q) = %d, want %d", name, got, want)
		}
	})
}

func TestLocateAllocatesNothing(t *testing.T) {
	s := &Store{prefix: "rl", cluster: true, node: "cluster"}
	charges := []sluice.Charge{
		{Key: strings.Repeat("key", 100), Limit: perHour},
		{Key: "key", Tag: "te}nant", Limit: perHour},
		{Key: "key", Limit: sluice.Limit{Tokens: 1, Per: time.Minute, Algorithm: sluice.FixedWindow}},
		{Key: "key", Limit: sluice.Limit{Tokens: 1, Algorithm: sluice.FixedWindow, Calendar: sluice.Calendar{Unit: sluice.CalendarDay, Zone: "America/Argentina/ComodRivadavia"}}},
	}
	for i := range charges {
		if n := testing.AllocsPerRun(100, func() { s.Locate(&charges[i]) }); n != 0 {
			t.Errorf("Locate(%+v) allocates %v times", charges[i], n)
		}
	}
}

func BenchmarkLocate(b *testing.B) {
	s := &Store{prefix: "rl", cluster: true, node: "cluster"}
	for name, c := range map[string]sluice.Charge{
		"tag":   {Key: "tenant-route:shop-a:create-order", Tag: "shop-a", Limit: perHour},
		"plain": {Key: "tenant-route:shop-a:create-order", Limit: perHour},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Locate(&c)
			}
		})
	}
}
