package strictyaml

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// scaled reads a decimal number and multiplies it by scale; the product must be
// whole. Underscores may part digits.
func scaled(s string, scale int64) (int64, bool) {
	sign := int64(1)
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = -1, rest
	}
	whole, fraction, dotted := strings.Cut(s, ".")
	if !digits(whole) || dotted && !digits(fraction) {
		return 0, false
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > 18 {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(whole+fraction, "_", ""), 10, 64)
	if err != nil {
		return 0, false
	}
	divisor := uint64(1)
	for range strings.ReplaceAll(fraction, "_", "") {
		divisor *= 10
	}
	hi, lo := bits.Mul64(n, uint64(scale))
	if hi >= divisor {
		return 0, false
	}
	quotient, remainder := bits.Div64(hi, lo, divisor)
	if remainder != 0 || quotient > math.MaxInt64 {
		return 0, false
	}
	return sign * int64(quotient), true
}

// digits says whether a text is digits, with underscores only between them.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789_") == "" && s[0] != '_' && s[len(s)-1] != '_'
}

// A unit is a suffix and what it means.
type unit struct {
	name  string
	scale int64
}

// withUnit reads a number with one of the suffixes, the longest that fits.
func withUnit(s string, units []unit) (int64, bool) {
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			return scaled(strings.TrimRight(number, " "), u.scale)
		}
	}
	return 0, false
}

func parseInt(s string) (int64, bool) {
	return withUnit(s, []unit{{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"", 1}})
}

var sizes = []unit{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

func parseSize(s string) (int64, bool) { return withUnit(s, sizes) }

func formatSize(n int64) string {
	for _, u := range []unit{sizes[3], sizes[2], sizes[1], sizes[0]} {
		if n >= u.scale && n%u.scale == 0 {
			return strconv.FormatInt(n/u.scale, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func parseShare(s string) (int64, bool) {
	return withUnit(s, []unit{{"%", 1e4}, {"", 1e6}})
}

func formatShare(millionths int64) string {
	return strconv.FormatFloat(float64(millionths)/1e4, 'f', -1, 64) + "%"
}

var durations = []unit{
	{"ns", int64(time.Nanosecond)},
	{"us", int64(time.Microsecond)},
	{"µs", int64(time.Microsecond)},
	{"ms", int64(time.Millisecond)},
	{"s", int64(time.Second)},
	{"min", int64(time.Minute)},
	{"m", int64(time.Minute)},
	{"h", int64(time.Hour)},
	{"days", 24 * int64(time.Hour)},
	{"day", 24 * int64(time.Hour)},
	{"d", 24 * int64(time.Hour)},
	{"w", 7 * 24 * int64(time.Hour)},
}

// parseDuration reads one or more numbers, each with its unit. 0 needs none.
func parseDuration(s string) (int64, bool) {
	if s == "0" {
		return 0, true
	}
	var total int64
	for rest := s; rest != ""; {
		word := strings.TrimLeft(rest, "0123456789_.")
		number := rest[:len(rest)-len(word)]
		tail := strings.TrimLeftFunc(word, func(r rune) bool { return r < '0' || r > '9' })
		name := word[:len(word)-len(tail)]
		scale := int64(0)
		for _, u := range durations {
			if u.name == name {
				scale = u.scale
			}
		}
		n, ok := scaled(number, scale)
		if !ok || scale == 0 || n > math.MaxInt64-total {
			return 0, false
		}
		total += n
		rest = tail
	}
	return total, s != ""
}

func formatDuration(n int64) string {
	if day := 24 * int64(time.Hour); n >= day && n%day == 0 {
		return strconv.FormatInt(n/day, 10) + "d"
	}
	// "1h0m0s" is what the standard library writes and nobody else does.
	s := time.Duration(n).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
