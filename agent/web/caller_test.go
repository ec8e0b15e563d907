package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/web"
)

const apiKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

// keyed believes acme's API key, and a proxy on this machine.
func keyed(t testing.TB) *identity.Verifier {
	t.Helper()
	hash := sha256.Sum256([]byte(apiKey))
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(hash[:])+" acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := identity.New(identity.Config{KeysFile: path, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// verifiedPost asks a handler that verifies its callers.
func verifiedPost(t *testing.T, a web.Agent, what, body string, pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := web.New(a, web.Config{Identity: keyed(t), VerifiedCallers: true})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/"+what, strings.NewReader(body))
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// bodies ask each path for a tenant's units; %s is the tenant's member, or nothing.
var bodies = map[string]string{
	"take":    `{%s"dimension":"calls"}`,
	"reserve": `{%s"dimension":"calls","estimate":5}`,
	"acquire": `{%s"dimension":"calls","id":"p-1"}`,
	"renew":   `{%s"id":"p-1"}`,
	"release": `{%s"id":"p-1"}`,
	"leave":   `{%s"operation":"export","ticket":"t-1"}`,
}

func TestVerifiedCallersTakeForThemselves(t *testing.T) {
	t.Parallel()
	for what, body := range bodies {
		for name, tenant := range map[string]string{"named": `"tenant":"acme",`, "left out": "", "empty": `"tenant":"",`} {
			a := &willing{}
			w := verifiedPost(t, a, what, strings.Replace(body, "%s", tenant, 1), "X-Api-Key", apiKey)
			if w.Code != 200 || a.last.Tenant != "acme" {
				t.Errorf("%s, tenant %s: %d %s, asked for %q", what, name, w.Code, w.Body, a.last.Tenant)
			}
		}
		a := &willing{}
		expect(t, verifiedPost(t, a, what, strings.Replace(body, "%s", `"tenant":"other",`, 1), "X-Api-Key", apiKey), 403,
			`{"type":"about:blank","title":"Forbidden","status":403,"detail":"tenant: the caller's own, or left out","field":"tenant"}`, nil)
		if len(a.asked) != 0 {
			t.Errorf("%s: the agent was asked", what)
		}
	}
}

// One of many is held to its caller by itself.
func TestVerifiedCallersTakeManyForThemselves(t *testing.T) {
	t.Parallel()
	a := &willing{}
	const allowed = `{"allowed":true,"reason":"","dimension":"calls","limit":5,"remaining":4,"retry_after_ms":0,"policy_version":1,"shadow":false,"reset_ms":0}`
	expect(t, verifiedPost(t, a, "takes", `{"takes":[{"dimension":"calls"},{"tenant":"other","dimension":"calls"},{"tenant":"acme","dimension":"calls"}]}`, "X-Api-Key", apiKey), 200,
		`{"results":[`+allowed+`,{"type":"about:blank","title":"Forbidden","status":403,"detail":"tenant: the caller's own, or left out","field":"tenant"},`+allowed+`]}`, nil)
	if len(a.asked) != 2 || a.last.Tenant != "acme" {
		t.Errorf("asked %v, last for %q", a.asked, a.last.Tenant)
	}
}

func TestCallersWithoutIdentityAre401(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{"settle": `{"id":"r-1","actual":1}`, "take": `{"tenant":"acme","dimension":"calls"}`, "release": "not even JSON", "takes": `{"takes":[{"tenant":"acme","dimension":"calls"}]}`}
	for what, body := range bodies {
		for _, pairs := range [][]string{nil, {"X-Api-Key", apiKey + "x"}, {web.TenantHeader, "acme", "X-Forwarded-For", "127.0.0.1"}} {
			a := &willing{}
			w := verifiedPost(t, a, what, body, pairs...)
			p := decode[struct {
				Title  string
				Status int
				Detail string
			}](t, w.Body.Bytes())
			if w.Code != 401 || p.Status != 401 || !strings.HasPrefix(p.Detail, "no verified tenant") || len(a.asked) != 0 ||
				w.Header().Get("WWW-Authenticate") != `Quotalease realm="tenant"` || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s %v: %d %v %s, asked %v", what, pairs, w.Code, w.Header(), w.Body, a.asked)
			}
		}
	}
}

func TestOthersReservationsDoNotExist(t *testing.T) {
	t.Parallel()
	a := &willing{reservedBy: map[string]string{"r-1": "acme", "r-2": "other"}}
	expect(t, verifiedPost(t, a, "settle", `{"id":"r-1","actual":1}`, "X-Api-Key", apiKey), 200, `{"id":"r-1","actual":1}`, nil)
	for _, id := range []string{"r-2", "r-3"} {
		expect(t, verifiedPost(t, a, "settle", `{"id":"`+id+`","actual":1}`, "X-Api-Key", apiKey), 404,
			`{"type":"about:blank","title":"Not Found","status":404,"detail":"id: that of a reservation of the caller's","field":"id"}`, nil)
	}
	if len(a.asked) != 1 {
		t.Errorf("asked %v, want one settle", a.asked)
	}
}

// What a client sends in a proxy's headers is not looked at, whoever it is.
func TestR4_4OnlyProxiesNameDimensionAndCost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		peer, url string
		status    int
		want      asked
	}{
		{"127.0.0.1:1", "/v1/check", 200, asked{"acme", "cheap", 0}},
		{"192.0.2.7:1", "/v1/check?dimension=calls", 200, asked{"acme", "calls", 1}},
		{"192.0.2.7:1", "/v1/check", 400, asked{}},
		{"not an address", "/v1/check?dimension=calls", 200, asked{"acme", "calls", 1}},
	} {
		f := &fakeAgent{}
		f.decision.Allowed = true
		r := httptest.NewRequest(http.MethodGet, tc.url, nil)
		r.RemoteAddr = tc.peer
		r.Header = http.Header{"X-Api-Key": {apiKey}, web.DimensionHeader: {"cheap"}, web.CostHeader: {"0"}}
		w := httptest.NewRecorder()
		serve(t, f, web.Config{Identity: keyed(t)}).ServeHTTP(w, r)
		got := append(f.calls(), asked{})[0]
		if w.Code != tc.status || got != tc.want {
			t.Errorf("%s from %s: %d, asked %v; want %d, %v", tc.url, tc.peer, w.Code, got, tc.status, tc.want)
		}
	}
}
