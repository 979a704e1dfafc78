package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluice-limiter/sluice/rules"
)

// maxBody bounds a body, in bytes.
const maxBody = 64 << 10

// readBody reads a body of JSON, and answers if it makes no sense.
func readBody(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something stands behind the object")
		}
	}
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return true
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: want at most %d bytes", maxBody))
	case errors.As(err, &kind):
		// The error's own text repeats the value, which may be a key.
		writeError(w, http.StatusBadRequest, fmt.Sprintf("%s: want %s, not a JSON %s", cmp.Or(kind.Field, "the body"), kindName(kind), strings.Fields(kind.Value)[0]))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		writeError(w, http.StatusBadRequest, "the body: want one JSON object, and it ends too early")
	default:
		writeError(w, http.StatusBadRequest, "the body: "+strings.TrimPrefix(err.Error(), "json: "))
	}
	return false
}

// kindName says in JSON's words what a field takes.
func kindName(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "int64":
		return "a whole number"
	case "string":
		return "a string"
	}
	return "an object"
}

// expectation reads If-Match and If-None-Match.
func expectation(r *http.Request) (rules.Expectation, error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return rules.Expectation{}, errors.New("If-Match and If-None-Match: want one of them")
	case none != "" && none != "*":
		return rules.Expectation{}, errors.New("If-None-Match: want *, which asks that there is no such rule")
	case none != "":
		return rules.Expectation{Absent: true}, nil
	case match == "" || match == "*":
		return rules.Expectation{Version: match}, nil
	}
	version, err := strconv.Unquote(match)
	if err != nil || version == "" || version == "*" {
		return rules.Expectation{}, errors.New(`If-Match: want the version of a rule in double quotes, as in "1f3a", or * for any`)
	}
	return rules.Expectation{Version: version}, nil
}

// actor names who asks, for the history and the log.
func actor(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if name := r.Header.Get("X-Sluice-Actor"); name != "" {
		if len(name) > 64 {
			name = name[:64]
		}
		return name + " by the API from " + host
	}
	return "the API from " + host
}
