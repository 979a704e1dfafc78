package httplimit

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// Types of the problems that draft-ietf-httpapi-ratelimit-headers-11 registers.
const (
	// TypeQuotaExceeded is the type of a refusal by a limit.
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// TypeReducedCapacity is the type of a refusal that is not the caller's
	// doing.
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// A Problem is the body of an answer that is not what was asked for (RFC 9457).
// Only Status is required.
type Problem struct {
	// Type is a URI for programs; "" means "about:blank": the status says all.
	Type string
	// Title is the kind of problem in a few words; "": the status's text.
	Title string
	// Status is the HTTP status.
	Status int
	// Detail is one sentence about this occurrence.
	Detail string
	// Error is one word for programs, such as "rate_limited".
	Error string
	// RetryAfter is the wait until it makes sense to ask again; 0: unknown.
	// The body tells it in milliseconds, the header Retry-After in whole
	// seconds, both rounded up.
	RetryAfter time.Duration
	// Violated names the limits that refused.
	Violated []string
}

// WriteProblem answers a request with a problem document, without a body if the
// method is HEAD.
func WriteProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body := p.append(make([]byte, 0, 512))
	h := w.Header()
	values := &[4]string{"application/problem+json", "no-store", strconv.Itoa(len(body))}
	h["Content-Type"] = values[0:1:1]
	h["Cache-Control"] = values[1:2:2]
	h["Content-Length"] = values[2:3:3]
	if p.RetryAfter > 0 {
		values[3] = strconv.FormatInt(waitSeconds(p.RetryAfter), 10)
		h["Retry-After"] = values[3:4:4]
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		// An error here means that the caller is gone.
		_, _ = w.Write(body)
	}
}

// append writes the document. encoding/json would take longer than the
// decision did, and refusals are what there is most of under attack.
func (p *Problem) append(b []byte) []byte {
	b = append(b, `{"type":`...)
	if p.Type == "" {
		b = append(b, `"about:blank"`...)
	} else {
		b = appendJSON(b, p.Type)
	}
	b = append(b, `,"title":`...)
	b = appendJSON(b, p.Title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	if p.Detail != "" {
		b = append(b, `,"detail":`...)
		b = appendJSON(b, p.Detail)
	}
	if p.Error != "" {
		b = append(b, `,"error":`...)
		b = appendJSON(b, p.Error)
	}
	if p.RetryAfter > 0 {
		b = append(b, `,"retryAfterMs":`...)
		b = strconv.AppendInt(b, ceilDiv(p.RetryAfter, time.Millisecond), 10)
	}
	for i, name := range p.Violated {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendJSON(b, name)
	}
	if len(p.Violated) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...)
}

// appendJSON writes a string as JSON; bytes that are not UTF-8 become U+FFFD.
func appendJSON(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < 0x20 || c == 0x7f || c == '<' || c == '>' || c == '&':
			// Also harmless where it ends up in a page.
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

// waitSeconds returns a wait in whole seconds, rounded up and at least 1.
func waitSeconds(d time.Duration) int64 { return max(1, ceilDiv(d, time.Second)) }

// ceilDiv returns how many whole units hold d, which is not negative.
func ceilDiv(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
