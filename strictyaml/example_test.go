package strictyaml_test

import (
	"fmt"
	"time"

	"github.com/sluice-limiter/sluice/strictyaml"
)

func ExampleParse() {
	doc, err := strictyaml.Parse("app.yaml", []byte(`
listen: :8080
timeout: 5
routes:
  - pth: /orders
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := doc.Root().Mapping("listen", "timeout", "routes")
	fmt.Println(m.Get("listen").Text(), m.Get("timeout").Duration(30*time.Second, time.Millisecond, time.Minute))
	for _, route := range m.Get("routes").Items() {
		route.Mapping("path").Need("path", "a path such as /orders")
	}
	fmt.Println(doc.Err())
	// Output:
	// :8080 30s
	// app.yaml:3: timeout: "5": want a time such as 5ms, 30s or 1h30m from 1ms to 1m
	// app.yaml:5: routes[0].pth: unknown field: did you mean path?
}
