// Command middleware serves the files of a folder, twenty requests at once and
// ten a second to each address.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/sluice-limiter/sluice/httplimit"
	"github.com/sluice-limiter/sluice/store/memory"
)

func main() {
	limit, err := httplimit.PerIP(memory.New(memory.Options{}), "10/s burst 20", httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           limit.Wrap(http.FileServer(http.Dir("."))),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
