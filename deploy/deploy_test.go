//go:build linux

package deploy

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// got is an answer as a client sees it.
type got struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// soon is the longest that a client waits for whatever answer, on a busy machine.
const soon = 10 * time.Second

// order is a body that no proxy holds in one piece. What the application answers is short: Caddy
// 2.6.2 cuts a long answer to a long request now and then, without an agent too
// (github.com/caddyserver/caddy/issues/5431).
var order = strings.Repeat("an order ", 30_000)

// ask asks with a tenant's key, if it has one; pairs are more headers.
func ask(t *testing.T, url, tenant string, pairs ...string) got {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	if tenant != "" {
		req.Header.Set("X-Api-Key", keyOf(tenant))
	}
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	g := got{resp.StatusCode, resp.Header, string(body), time.Since(began)}
	if g.took > soon {
		t.Errorf("%s: answered after %v", url, g.took)
	}
	return g
}

// problem reads an answer that is one.
func (g got) problem(t *testing.T) (p struct {
	Type     string   `json:"type"`
	Status   int      `json:"status"`
	Reason   string   `json:"reason"`
	Violated []string `json:"violated-policies"`
}) {
	t.Helper()
	if g.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d is no problem: %s %s", g.status, g.header.Get("Content-Type"), g.body)
		return p
	}
	if err := json.Unmarshal([]byte(g.body), &p); err != nil || p.Status != g.status {
		t.Errorf("%d: %s: %v", g.status, g.body, err)
	}
	return p
}

// overEach runs a test with each proxy before a rig of its own.
func overEach(t *testing.T, test func(t *testing.T, r *rig, f front)) {
	t.Helper()
	for name, start := range proxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			test(t, r, start(t, r))
		})
	}
}

func TestR4_3ClientsSeeTheAgentsAnswer(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, r *rig, f front) {
		for left := 2; left >= 0; left-- {
			g := ask(t, f.closed, "acme")
			limit := g.header.Values("RateLimit")
			if g.status != 200 || g.body != received(order) || len(limit) != 1 ||
				!strings.HasPrefix(limit[0], `"api_calls";r=`+strconv.Itoa(left)+";t=") || !strings.HasPrefix(g.header.Get("RateLimit-Policy"), `"api_calls";q=3;w=`) {
				t.Errorf("%d left: %d %v %.99s", left, g.status, g.header, g.body)
			}
		}
		g := ask(t, f.closed, "acme")
		retry, err := strconv.Atoi(g.header.Get("Retry-After"))
		if g.status != 429 || err != nil || retry < 1 || !strings.HasPrefix(g.header.Get("RateLimit"), `"api_calls";r=0;t=`) ||
			!strings.HasPrefix(g.header.Get("RateLimit-Policy"), `"api_calls";q=3;w=`) {
			t.Errorf("denied: %d %v", g.status, g.header)
		}
		if p := g.problem(t); !strings.HasSuffix(p.Type, "#quota-exceeded") || p.Reason != "exhausted" || len(p.Violated) != 1 || p.Violated[0] != "api_calls" {
			t.Errorf("denied: %s", g.body)
		}
		if r.seen.count() != 3 {
			t.Errorf("the application saw %d requests, want 3", r.seen.count())
		}
		// Another tenant's quota is another's.
		if g := ask(t, f.closed, "victim"); g.status != 200 {
			t.Errorf("another tenant: %d %s", g.status, g.body)
		}
	})
}

func TestAnAgentThatIsAway(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, r *rig, f front) {
		if g := ask(t, f.closed, "acme"); g.status != 200 || g.header.Get("X-Quota-Degraded") != "" {
			t.Fatalf("at first: %d %s", g.status, g.body)
		}
		away := func(how string) {
			before := r.seen.count()
			g := ask(t, f.closed, "acme")
			if p := g.problem(t); g.status != 503 || p.Reason != "unavailable" || g.header.Get("Retry-After") != "1" || r.seen.count() != before {
				t.Errorf("%s, closed: %d %v %s", how, g.status, g.header, g.body)
			}
			g = ask(t, f.open, "acme")
			if g.status != 200 || g.header.Get("X-Quota-Degraded") != "open" || g.body != received(order) || r.seen.count() != before+1 {
				t.Errorf("%s, open: %d %v %.99s; the application saw %d more", how, g.status, g.header, g.body, r.seen.count()-before)
			}
			if said := g.header.Values("RateLimit"); said != nil {
				t.Errorf("%s, open: the application says for the agent: %v", how, said)
			}
		}
		r.door.hangs.Store(true)
		away("the agent hangs")
		r.door.shut()
		away("the agent is down")
	})
}

func TestR4_4ForgedHeadersThroughProxies(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, r *rig, f front) {
		forged := []string{
			"X-Quotalease-Tenant", "victim", "X-Quotalease-Dimension", "cheap", "X-Quotalease-Cost", "0",
			"X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1", "X-Real-Ip", "127.0.0.1", "X-Original-Uri", "/v1/check?dimension=cheap",
			"RateLimit", `"forged";r=9`, "X-Quota-Status", "200",
		}
		for _, url := range []string{f.closed, f.open, f.closed + "?dimension=cheap&style=nginx", f.open + "?dimension=cheap"} {
			if g := ask(t, url, "", forged...); g.status != 401 || g.header.Get("WWW-Authenticate") == "" || g.problem(t).Status != 401 {
				t.Errorf("%s, forged and nobody's: %d %v %s", url, g.status, g.header, g.body)
			}
		}
		if r.seen.count() != 0 {
			t.Errorf("the application saw %d requests of nobody", r.seen.count())
		}
		g := ask(t, f.closed+"?dimension=cheap&cost=0", "mallory", forged...)
		if g.status != 200 || !strings.HasPrefix(g.header.Get("RateLimit"), `"api_calls";r=2;`) {
			t.Errorf("forged by mallory: %d %v", g.status, g.header)
		}
		for _, of := range []struct {
			tenant, dimension string
			left              int64
		}{{"mallory", "api_calls", 2}, {"mallory", "cheap", 1000}, {"victim", "api_calls", 3}, {"victim", "cheap", 1000}} {
			if left := r.left(t, of.tenant, of.dimension); left != of.left {
				t.Errorf("%s has %d of %s left, want %d", of.tenant, left, of.dimension, of.left)
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
		// An agent that is made to refuse the question is not one that is away.
		g = ask(t, f.open, "mallory", "X-Padding", strings.Repeat("x", 7<<10), "X-Padding-2", strings.Repeat("x", 7<<10),
			"X-Padding-3", strings.Repeat("x", 7<<10), "X-Padding-4", strings.Repeat("x", 7<<10))
		if g.header.Get("X-Quota-Degraded") != "" || g.status == 200 && !strings.HasPrefix(g.header.Get("RateLimit"), `"page_views"`) {
			t.Errorf("long headers pass uncounted: %d %v", g.status, g.header)
		}
	})
}

// CASES O4: control plane away, lease spent, mode closed, and a proxy that lets errors pass.
func TestO4NothingPassesInAnOutage(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, r *rig, f front) {
		if g := ask(t, f.open, "acme"); g.status != 200 {
			t.Fatalf("at first: %d %s", g.status, g.body)
		}
		r.up.down.Store(true)
		// What is in hand is spent without the control plane; then nothing is left.
		const limit = 4000
		for left := int64(limit); left > 0; {
			d, err := r.agent.Take(t.Context(), "acme", "page_views", 1)
			if err != nil || !d.Allowed {
				break
			}
			left--
		}
		before := r.seen.count()
		for range 3 {
			g := ask(t, f.open, "acme")
			if p := g.problem(t); g.status != 503 || p.Reason != "unavailable" || g.header.Get("Retry-After") == "" {
				t.Errorf("in an outage: %d %v %s", g.status, g.header, g.body)
			}
		}
		if passed := r.seen.count() - before; passed != 0 {
			t.Errorf("%d requests passed", passed)
		}
	})
}
