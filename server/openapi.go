package server

import (
	_ "embed"
	"net/http"
)

// openAPIDocument describes the admin API; a test holds it against the handlers.
//
//go:embed openapi.json
var openAPIDocument []byte

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// A caller that is gone is no error of the server.
	_, _ = w.Write(openAPIDocument)
}
