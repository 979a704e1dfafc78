package memory

import (
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A bucket is the counter of one key's token bucket. It is never used again
// for another key, so whoever holds one compares and swaps safely.
type bucket struct {
	// word is the bucket's state, the time when it is full, shifted left by
	// one; the lowest bit is a lock, held by calls of several charges. A
	// removed bucket is dead for ever.
	word atomic.Int64
	hash uint64
	key  string
}

// newBucket returns a bucket with a copy of the key. The bytes of a short key
// stand right behind the bucket, since fetching them from elsewhere in memory
// would be a good part of a decision's time.
func newBucket(hash uint64, key string, state int64) *bucket {
	var b *bucket
	switch n := len(key); {
	case n == 0 || n > 64:
		b = &bucket{key: strings.Clone(key)}
	case n <= 16:
		with := new(struct {
			bucket
			bytes [16]byte
		})
		b = with.hold(with.bytes[:], key)
	case n <= 32:
		with := new(struct {
			bucket
			bytes [32]byte
		})
		b = with.hold(with.bytes[:], key)
	case n <= 48:
		with := new(struct {
			bucket
			bytes [48]byte
		})
		b = with.hold(with.bytes[:], key)
	default:
		with := new(struct {
			bucket
			bytes [64]byte
		})
		b = with.hold(with.bytes[:], key)
	}
	b.hash = hash
	b.word.Store(state << 1)
	return b
}

// hold makes the bucket's key a string of the bytes, to which nobody writes
// afterwards.
func (b *bucket) hold(bytes []byte, key string) *bucket {
	copy(bytes, key)
	b.key = unsafe.String(&bytes[0], len(key))
	return b
}

const (
	// dead is no state: times do not reach 2^58 ticks.
	dead    = math.MinInt64
	lockBit = 1
)

// unlocked returns the word as soon as no call holds its lock. Locks are held
// for well under a microsecond unless their holder loses its processor.
func (b *bucket) unlocked() int64 {
	word := b.word.Load()
	if word&lockBit != 0 {
		word = b.awaitUnlock()
	}
	return word
}

func (b *bucket) awaitUnlock() int64 {
	for {
		runtime.Gosched()
		if word := b.word.Load(); word&lockBit == 0 {
			return word
		}
	}
}

// lock takes the lock and returns the state, unless the bucket is dead.
func (b *bucket) lock() (state int64, ok bool) {
	for {
		word := b.unlocked()
		if word == dead {
			return 0, false
		}
		if b.word.CompareAndSwap(word, word|lockBit) {
			return word >> 1, true
		}
	}
}

// unlock writes the state back and releases the lock.
func (b *bucket) unlock(state int64) { b.word.Store(state << 1) }

// kill makes the bucket dead whatever it holds.
func (b *bucket) kill() {
	for !b.word.CompareAndSwap(b.unlocked(), dead) {
	}
}
