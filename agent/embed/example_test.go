package embed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/embed"
)

func Example() {
	control, err := agenttest.Start(`
dimensions:
- {name: exports, kind: period, limit: 2, period: {every: year}, class: hard, cold: {wait: 1s, then: deny}}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer control.Close()

	ctx := context.Background()
	q, err := embed.Start(ctx, embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	for range 3 {
		answer, err := q.Take(ctx, "acme", "exports", 1)
		fmt.Printf("%v %v %q\n", err, answer.Allowed, answer.Reason)
	}
	// Output:
	// <nil> true ""
	// <nil> true ""
	// <nil> false "exhausted"
}

// A program that calls somebody else's limited service waits for its turn.
func ExampleAgent_Wait() {
	control, err := agenttest.Start(`
dimensions:
- {name: their_api, kind: rate, limit: 100/s, burst: 10, class: hard, overshoot: 10, cold: {wait: 1s, then: deny}}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer control.Close()

	ctx := context.Background()
	q, err := embed.Start(ctx, embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	sent := 0
	for range 25 {
		if err := q.Wait(ctx, "us", "their_api", 1); err != nil {
			log.Fatal(err)
		}
		sent++ // here is the call
	}
	fmt.Println(sent, "calls, none of them too early")
	// Output:
	// 25 calls, none of them too early
}
