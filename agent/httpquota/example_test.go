package httpquota_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/httpquota"
)

func Example() {
	control, err := agenttest.Start(`
dimensions:
- {name: searches, kind: period, limit: 2, period: {every: year}, class: hard, cold: {wait: 1s, then: deny}}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer control.Close()

	q, err := embed.Start(context.Background(), embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") })
	handler := httpquota.New(q, httpquota.Config{
		Tenant: func(r *http.Request) (string, error) { return userOf(r) },
		Takes:  func(*http.Request) *door.Request { return &door.Request{Dimension: "searches"} },
	})(search)

	server := httptest.NewServer(handler)
	defer server.Close()
	for range 3 {
		answer, err := http.Get(server.URL)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}

// userOf stands for how a program knows who has signed in.
func userOf(*http.Request) (string, error) { return "alice", nil }
