package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-limiter/sluice/store/memory"
)

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestSmoke(t *testing.T) {
	h, err := PerIP(memory.New(memory.Options{}), "2/s", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := h.Wrap(http.HandlerFunc(ok))
	for range 4 {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		t.Log(w.Code, w.Header(), w.Body)
	}
}
