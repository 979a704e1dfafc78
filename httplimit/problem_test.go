package httplimit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestWriteProblem(t *testing.T) {
	w := httptest.NewRecorder()
	WriteProblem(w, httptest.NewRequest("GET", "/", nil), Problem{Status: 404})
	if got, want := w.Body.String(), `{"type":"about:blank","title":"Not Found","status":404}`+"\n"; got != want || w.Code != 404 {
		t.Errorf("status %d, body %s, want 404, %s", w.Code, got, want)
	}
	w = httptest.NewRecorder()
	WriteProblem(w, httptest.NewRequest("GET", "/", nil), Problem{Status: 503, RetryAfter: 1})
	if w.Header().Get("Retry-After") != "1" || problem(t, w).RetryAfterMs != 1 {
		t.Errorf("a wait of 1 ns: %v, %s, want 1 s and 1 ms", w.Header(), w.Body)
	}
}

// Every document is JSON that says what went in.
func FuzzProblem(f *testing.F) {
	f.Add("a\"b\\c\n\x00</script>", "\xff", "é", int64(1400))
	f.Fuzz(func(t *testing.T, detail, name, word string, wait int64) {
		p := Problem{Status: http.StatusTooManyRequests, Detail: detail, Error: word, Violated: []string{name, "x"}, RetryAfter: time.Duration(wait)}
		var got body
		if err := json.Unmarshal(p.append(nil), &got); err != nil {
			t.Fatalf("%s: %v", p.append(nil), err)
		}
		clean := func(s string) string {
			if utf8.ValidString(s) {
				return s
			}
			return string([]rune(s))
		}
		if got.Detail != clean(detail) || got.Violated[0] != clean(name) || got.Error != clean(word) {
			t.Fatalf("%+v, want %q, %q, %q", got, detail, name, word)
		}
		if strings.ContainsAny(string(p.append(nil)), "<>") {
			t.Fatalf("%s is not safe in a page", p.append(nil))
		}
	})
}
