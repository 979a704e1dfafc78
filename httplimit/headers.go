package httplimit

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// The names of the fields, as net/http keys them.
const (
	fieldLimit     = "X-Ratelimit-Limit"
	fieldRemaining = "X-Ratelimit-Remaining"
	fieldReset     = "X-Ratelimit-Reset"
	fieldPolicy    = "Ratelimit-Policy"
	fieldState     = "Ratelimit"
)

// fields writes what a verdict says into response headers. All values are cut
// from one string, and share one array, so that the five cost two allocations.
type fields struct {
	text  []byte
	names [5]string
	ends  [5]int
	n     int
}

// end closes the value written last.
func (f *fields) end(name string) {
	f.names[f.n], f.ends[f.n] = name, len(f.text)
	f.n++
}

// set puts the values in the header.
func (f *fields) set(h http.Header) {
	if f.n == 0 {
		return
	}
	text := string(f.text)
	values := new([5]string)
	start := 0
	for i, end := range f.ends[:f.n] {
		values[i] = text[start:end]
		h[f.names[i]] = values[i : i+1 : i+1]
		start = end
	}
}

// write sets the fields that the options ask for. jitter lengthens the waits of
// refused limits. A verdict without an enforcing limit sets none.
func (f *fields) write(h http.Header, v *policy.Verdict, o *Options, jitter time.Duration) {
	f.text, f.n = f.text[:0], 0
	if !o.HideXRateLimit {
		if d := v.Describing(); d != nil {
			f.appendX(&d.Decision)
		}
	}
	if !o.HideRateLimit {
		f.appendList(v, fieldPolicy, func(r *policy.Result) { f.appendPolicy(r, o.PartitionKeys) })
		f.appendList(v, fieldState, func(r *policy.Result) { f.appendState(r, o.PartitionKeys, jitter) })
	}
	f.set(h)
}

// appendX writes the three fields that many services use: the capacity, what is
// left, and the seconds until all of it is back.
func (f *fields) appendX(d *sluice.Decision) {
	f.int(d.Limit)
	f.end(fieldLimit)
	f.int(d.Remaining)
	f.end(fieldRemaining)
	f.int(ceilDiv(d.ResetAfter, time.Second))
	f.end(fieldReset)
}

// appendList writes one item for each limit that can refuse.
func (f *fields) appendList(v *policy.Verdict, name string, item func(*policy.Result)) {
	start := len(f.text)
	for i := range v.Results {
		if r := &v.Results[i]; !r.Limit.Shadow {
			if len(f.text) > start {
				f.string(", ")
			}
			item(r)
		}
	}
	if len(f.text) > start {
		f.end(name)
	}
}

// appendPolicy writes an item of RateLimit-Policy: the quota q per window w.
func (f *fields) appendPolicy(r *policy.Result, pk bool) {
	f.text = appendSFString(f.text, r.Limit.Name)
	quota, window := quota(r.Effective)
	f.string(";q=")
	f.int(quota)
	if window > 0 {
		f.string(";w=")
		f.int(window)
	}
	if pk {
		f.partition(r.Key)
	}
}

// appendState writes an item of RateLimit: what remains, and in how many
// seconds more is there: for a refused limit the wait of Retry-After, else the
// time until it is full.
func (f *fields) appendState(r *policy.Result, pk bool, jitter time.Duration) {
	f.text = appendSFString(f.text, r.Limit.Name)
	f.string(";r=")
	f.int(r.Decision.Remaining)
	if d := &r.Decision; d.Allowed {
		f.string(";t=")
		f.int(ceilDiv(d.ResetAfter, time.Second))
	} else if d.RetryAfter > 0 {
		f.string(";t=")
		f.int(waitSeconds(d.RetryAfter + jitter))
	}
	if pk {
		f.partition(r.Key)
	}
}

// partition writes which counter was charged. A hash stands for it, as the key
// holds more than a caller needs to know.
func (f *fields) partition(key string) {
	sum := sha256.Sum256([]byte(key))
	f.string(";pk=:")
	f.text = base64.StdEncoding.AppendEncode(f.text, sum[:9])
	f.text = append(f.text, ':')
}

func (f *fields) int(n int64)     { f.text = strconv.AppendInt(f.text, n, 10) }
func (f *fields) string(s string) { f.text = append(f.text, s...) }

// quota returns a limit as a quota per window of whole seconds, 0 where it has
// no such window. The quota is what can pass at once or in one period, so that
// what remains never exceeds it, and the window the time in which that much
// passes at the limit's rate: "10/s burst 20" is 20 per 2 s. Rounding only
// lowers the rate.
func quota(l sluice.Limit) (n, seconds int64) {
	n = max(l.Capacity(), l.Tokens)
	switch l.Calendar.Unit {
	case sluice.CalendarDay:
		return n, 24 * 60 * 60
	case sluice.CalendarMonth:
		return n, 0 // not always as long
	}
	span, ok := mulDiv(n, int64(l.Per), l.Tokens)
	if !ok || span == 0 {
		return n, 0
	}
	if seconds = ceilDiv(time.Duration(span), time.Second); seconds > 1 {
		return n, seconds
	}
	// At most a second: what passes in a whole one. No limit passes more than
	// 2^32 in a millisecond, so this stays below 2^53.
	hi, lo := bits.Mul64(uint64(l.Tokens), uint64(time.Second))
	inOne, _ := bits.Div64(hi, lo, uint64(l.Per))
	return int64(inOne), 1
}

// mulDiv returns a x b / c rounded up, if that fits; none is negative.
func mulDiv(a, b, c int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if c <= 0 || hi >= uint64(c) {
		return 0, false
	}
	q, rem := bits.Div64(hi, lo, uint64(c))
	if rem > 0 {
		q++
	}
	return int64(q), q <= math.MaxInt64
}

// appendSFString writes a String of RFC 9651, which is ASCII: other bytes, and
// the percent sign, become %XX.
func appendSFString(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c >= 0x7f || c == '%':
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
