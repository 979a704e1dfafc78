package replay

import (
	"bytes"
	"errors"
)

// What can be wrong with a line in the common or combined format.
var (
	errNoRequest   = errors.New(`no quoted request: want the combined format, IP - USER [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT", or a JSON object`)
	errNoTime      = errors.New("no [time] before the request")
	errNoAddress   = errors.New("no address before the time")
	errOpenRequest = errors.New("the quote of the request does not close")
	errOpenReferer = errors.New("the quote of the referer does not close")
	errOpenAgent   = errors.New("the quote of the user agent does not close")
	errStatus      = errors.New("no status of three digits behind the request")
)

// combined reads a line of Apache's common or combined format, also with a
// virtual host in front, and nginx's. What follows the user agent is ignored:
// many sites log more there.
//
// The first quote begins the request, since both servers escape the quotes in a
// user name; what stands before it is read backwards, so that no user name can
// pass for a time.
func combined(e *entry, times *stamper) error {
	line := e.line
	quote := bytes.IndexByte(line, '"')
	if quote < 0 {
		return errNoRequest
	}
	closing := bytes.LastIndexByte(line[:quote], ']')
	if closing < 0 {
		return errNoTime
	}
	opening := bytes.LastIndexByte(line[:closing], '[')
	if opening < 0 {
		return errNoTime
	}
	var err error
	if e.at, err = times.read(line[opening+1 : closing]); err != nil {
		return err
	}
	if !setHead(e, opening) {
		return errNoAddress
	}
	request, rest, ok := quoted(line, quote)
	if !ok {
		return errOpenRequest
	}
	if rest, ok = setStatus(e, rest); !ok {
		return errStatus
	}
	if err := setQuoted(e, rest); err != nil {
		return err
	}
	// Only now is the line changed: a bad line is shown as it was.
	e.setRequest(e.unescape(request))
	e.known[fieldReferer] = e.unescape(e.known[fieldReferer])
	e.known[fieldAgent] = e.unescape(e.known[fieldAgent])
	e.known[fieldUser] = e.unescape(e.known[fieldUser])
	return nil
}

// setHead reads "IP IDENT USER" or "HOST:PORT IP IDENT USER".
func setHead(e *entry, end int) bool {
	head := bytes.TrimRight(e.line[:end], " ")
	first := bytes.IndexByte(head, ' ')
	if first < 0 {
		first = len(head)
	}
	if first == 0 {
		return false
	}
	from := 0
	if next := nextWord(head, first); !isAddress(head[:first]) && isAddress(head[next.from:next.to]) {
		e.known[fieldHost] = span{0, uint32(first)}
		from, first = int(next.from), int(next.to)
	}
	e.known[fieldIP] = span{uint32(from), uint32(first)}
	ident := nextWord(head, first)
	// The user is all the rest: it may have spaces.
	if user := nextWord(head, int(ident.to)); user.from < user.to {
		e.known[fieldUser] = span{user.from, uint32(len(head))}
	}
	return true
}

// nextWord returns the word behind the space at i; empty at the end.
func nextWord(text []byte, i int) span {
	for i < len(text) && text[i] == ' ' {
		i++
	}
	end := i
	for end < len(text) && text[end] != ' ' {
		end++
	}
	return span{uint32(i), uint32(end)}
}

// isAddress says whether a word looks like an address and not like a name. It
// is only asked to tell a virtual host from a client.
func isAddress(word []byte) bool {
	dots, colons := 0, 0
	for _, c := range word {
		switch {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case c == '[' || c == ']' || c == '%':
		default:
			if _, ok := hexDigit(c); !ok {
				return false
			}
		}
	}
	return dots == 3 || colons >= 2
}

// quoted returns what stands between the quote at i and the next that no
// backslash escapes, and the index behind it.
func quoted(line []byte, i int) (text span, next int, ok bool) {
	from := i + 1
	for i = from; i < len(line); i++ {
		end := bytes.IndexByte(line[i:], '"')
		if end < 0 {
			break
		}
		i += end
		if !escapedAt(line[from:i]) {
			return span{uint32(from), uint32(i)}, i + 1, true
		}
	}
	return span{}, 0, false
}

// escapedAt says whether an odd number of backslashes ends the text.
func escapedAt(text []byte) bool {
	n := len(text)
	for n > 0 && text[n-1] == '\\' {
		n--
	}
	return (len(text)-n)%2 == 1
}

// setStatus reads the status behind the request; "-" is none.
func setStatus(e *entry, i int) (next int, ok bool) {
	word := nextWord(e.line, i)
	if text := e.text(word); len(text) == 3 {
		if _, ok := digits(text); ok {
			e.known[fieldStatus] = word
			return int(word.to), true
		}
	} else if string(text) == "-" {
		return int(word.to), true
	}
	return 0, false
}

// setQuoted reads the bytes, the referer and the user agent, if they are there.
func setQuoted(e *entry, i int) error {
	start := bytes.IndexByte(e.line[i:], '"')
	if start < 0 {
		return nil
	}
	referer, next, ok := quoted(e.line, i+start)
	if !ok {
		return errOpenReferer
	}
	e.known[fieldReferer] = referer
	if start = bytes.IndexByte(e.line[next:], '"'); start < 0 {
		return nil
	}
	if e.known[fieldAgent], _, ok = quoted(e.line, next+start); !ok {
		return errOpenAgent
	}
	return nil
}

// unescape undoes in place how Apache and nginx write quotes, backslashes and
// bytes that do not print: \" \\ \n \r \t \b \f \v \xhh.
func (e *entry) unescape(s span) span {
	text := e.text(s)
	n := bytes.IndexByte(text, '\\')
	if n < 0 {
		return s
	}
	for i := n; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) {
			i++
			c = text[i]
			if plain := bytes.IndexByte([]byte("nrtbfv"), c); plain >= 0 {
				c = "\n\r\t\b\f\v"[plain]
			} else if b, ok := hexByte(text[i+1:]); c == 'x' && ok {
				c = b
				i += 2
			}
		}
		text[n] = c
		n++
	}
	return span{s.from, s.from + uint32(n)}
}
