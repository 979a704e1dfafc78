package gateway

import (
	"errors"
	"io"
	"net/http"

	"github.com/sluice-limiter/sluice/httplimit"
)

// boundBody bounds a request's body, and marks errors of reading it as the
// caller's. If it returns false, the request is answered.
func boundBody(w http.ResponseWriter, r *http.Request, most int64) bool {
	if most > 0 && r.ContentLength > most {
		tooLarge(w, r)
		return false
	}
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	if most > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, most)
	}
	r.Body = body{r.Body}
	return true
}

// A body tells failures of the caller, who sends it, from those of the
// upstream, which gets it: the transport returns either.
type body struct{ io.ReadCloser }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &callerError{err}
	}
	return n, err
}

// A callerError is a body that could not be read.
type callerError struct{ cause error }

func (e *callerError) Error() string { return "read the request's body: " + e.cause.Error() }
func (e *callerError) Unwrap() error { return e.cause }

func tooLarge(w http.ResponseWriter, r *http.Request) {
	httplimit.WriteProblem(w, r, httplimit.Problem{
		Status: http.StatusRequestEntityTooLarge,
		Title:  "Request body too large",
		Detail: "The request's body is larger than this gateway passes on.",
	})
}
