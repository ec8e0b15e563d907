package httpquota_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/httpquota"
	"github.com/quotalease/quotalease/agent/identity"
)

// The tenant is whose API key a request brings. Client certificates, tokens and trusted proxies
// are said in the same identity.Config.
func ExampleVerified() {
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

	keys := keyFile() // of hashes: sha256sum(key) acme
	defer os.Remove(keys)
	verifier, err := identity.New(identity.Config{KeysFile: keys})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { verifier.Run(ctx) }) // keys that are added or taken away
	defer following.Wait()
	defer stop()

	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") })
	server := httptest.NewServer(httpquota.New(q, httpquota.Config{
		Tenant: httpquota.Verified(verifier),
		Takes:  func(*http.Request) *door.Request { return &door.Request{Dimension: "searches"} },
	})(search))
	defer server.Close()
	for _, key := range []string{acmeKey, acmeKey, acmeKey, "another-key-0123456789ab", ""} {
		ask, _ := http.NewRequest(http.MethodGet, server.URL, nil)
		if key != "" {
			ask.Header.Set("X-Api-Key", key)
		}
		answer, err := http.DefaultClient.Do(ask)
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
	// 401 Unauthorized
	// 401 Unauthorized
}

const acmeKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

// keyFile has the SHA-256 of acme's key.
func keyFile() string {
	f, err := os.CreateTemp("", "keys")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(f, "220d2d5a8fafd45b5248eb97c8badd2c46aa74ac0506fd618595140a43b183e6 acme")
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	return f.Name()
}
