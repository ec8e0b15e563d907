package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

// acme stands for the tenant header with that name in check's list.
const acme = "acme"

// proxied believes a proxy on this machine.
func proxied(t testing.TB) *identity.Verifier {
	t.Helper()
	v, err := identity.New(identity.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// check asks as a proxy does; pairs are more headers.
func check(h http.Handler, url, tenant string, pairs ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	if tenant != "" {
		r.Header.Set(web.TenantHeader, tenant)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// CASES M4.
func TestM4NoIdentityIs401(t *testing.T) {
	t.Parallel()
	const unknown = `{"type":"about:blank","title":"Unauthorized","status":401,"detail":"no verified tenant"}`
	challenge := map[string]string{"Www-Authenticate": `Quotalease realm="tenant"`}
	f := &fakeAgent{decision: agent.Decision{Allowed: true}}
	trusting, distrusting := serve(t, f, web.Config{Identity: proxied(t)}), serve(t, f, web.Config{})

	expect(t, check(trusting, "/v1/check?dimension=calls", ""), 401, unknown, challenge)
	expect(t, check(distrusting, "/v1/check?dimension=calls", acme), 401, unknown, challenge)
	expect(t, check(trusting, "/v1/check?dimension=calls", acme, web.TenantHeader, "other"), 401,
		strings.Replace(unknown, `tenant"}`, `tenant: the tenant header is given more than once"}`, 1), challenge)
	expect(t, check(trusting, "/v1/check?dimension=calls", "a\xff"), 401,
		strings.Replace(unknown, `tenant"}`, `tenant: what names the tenant is no tenant's name"}`, 1), challenge)
	expect(t, check(trusting, "/v1/check?dimension=calls&style=nginx", ""), 401, unknown, challenge)
	expect(t, check(trusting, "/v1/check?dimension=calls&tenant=acme", "", "X-Forwarded-For", "10.0.0.1"), 401, unknown, challenge)
	if got := f.calls(); len(got) != 0 {
		t.Errorf("the agent was asked: %v", got)
	}
}

func TestProxyNamesTheTenant(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, url string
		pairs     []string
		want      asked
	}{
		{"dimension in the URL", "/v1/check?dimension=calls", nil, asked{acme, "calls", 1}},
		{"dimension in a header", "/v1/check", []string{web.DimensionHeader, "calls"}, asked{acme, "calls", 1}},
		{"the URL counts, not the header", "/v1/check?dimension=calls", []string{web.DimensionHeader, "cheap"}, asked{acme, "calls", 1}},
		{"cost", "/v1/check?dimension=calls", []string{web.CostHeader, "7"}, asked{acme, "calls", 7}},
	} {
		f := &fakeAgent{decision: agent.Decision{Allowed: true, Limit: quota.LimitOf(9), Remaining: 8, Reset: time.Minute, PolicyVersion: 1}}
		w := check(serve(t, f, web.Config{Identity: proxied(t)}), tc.url, acme, tc.pairs...)
		expect(t, w, 200, "", map[string]string{"Ratelimit-Policy": `"calls";q=9`, "Ratelimit": `"calls";r=8;t=60`})
		if got := f.calls(); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: asked %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestBadChecksNameTheField(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{Allowed: true}}
	h := serve(t, f, web.Config{Identity: proxied(t)})
	for _, tc := range []struct {
		name, url, tenant string
		pairs             []string
		field, allowed    string
	}{
		{"no dimension", "/v1/check", acme, nil, "dimension", dimIs},
		{"bad dimension", "/v1/check?dimension=Calls", acme, nil, "dimension", dimIs},
		{"two dimensions", "/v1/check?dimension=a&dimension=b", acme, nil, "dimension", "given once"},
		{"two dimension headers", "/v1/check", acme, []string{web.DimensionHeader, "a", web.DimensionHeader, "b"}, "dimension", "given once"},
		{"two costs", "/v1/check?dimension=a", acme, []string{web.CostHeader, "5", web.CostHeader, "0"}, "cost", "given once"},
		{"negative cost", "/v1/check?dimension=a", acme, []string{web.CostHeader, "-5"}, "cost", costIs},
		{"signed cost", "/v1/check?dimension=a", acme, []string{web.CostHeader, "+5"}, "cost", costIs},
		{"empty cost", "/v1/check?dimension=a", acme, []string{web.CostHeader, ""}, "cost", costIs},
		{"huge cost", "/v1/check?dimension=a", acme, []string{web.CostHeader, "9007199254740992"}, "cost", costIs},
		{"style", "/v1/check?dimension=a&style=apache", acme, nil, "style", "nginx, or left out"},
	} {
		w := check(h, tc.url, tc.tenant, tc.pairs...)
		if w.Code != 400 {
			t.Errorf("%s: %d, want 400", tc.name, w.Code)
			continue
		}
		want := refusal{"about:blank", "Bad Request", tc.field + ": " + tc.allowed, tc.field}
		if got := decode[refusal](t, w.Body.Bytes()); got != want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, want)
		}
	}
	if got := f.calls(); len(got) != 0 {
		t.Errorf("the agent was asked: %v", got)
	}
}

func TestNginxStyle(t *testing.T) {
	t.Parallel()
	answer := denied(`{"allowed":false,"reason":"exhausted","dimension":"calls","limit":9,"remaining":0,"retry_after_ms":30000,"policy_version":1,"shadow":false,"reset_ms":30000}`)
	f := &fakeAgent{decision: agent.Decision{
		Reason: quota.Exhausted, Limit: quota.LimitOf(9), RetryIn: 30 * time.Second, Reset: 30 * time.Second, PolicyVersion: 1,
	}}
	h := serve(t, f, web.Config{Identity: proxied(t)})
	plain := map[string]string{
		"Retry-After": "30", "Ratelimit-Policy": `"calls";q=9`, "Ratelimit": `"calls";r=0;t=30`, "X-Quota-Reason": "exhausted",
	}
	expect(t, check(h, "/v1/check?dimension=calls", acme), 429, answer, plain)
	plain["X-Quota-Status"] = "429"
	expect(t, check(h, "/v1/check?dimension=calls&style=nginx", acme), 403, answer, plain)
	expect(t, check(h, "/v1/check?dimension=Calls&style=nginx", acme), 403,
		`{"type":"about:blank","title":"Bad Request","status":400,"detail":"dimension: `+dimIs+`","field":"dimension"}`,
		map[string]string{"X-Quota-Status": "400"})
}

// CASES O3: an allowance without a lease is marked even where no body can be.
func TestO3OpenModeIsMarked(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{Allowed: true, Reason: quota.OpenMode}}
	w := check(serve(t, f, web.Config{Identity: proxied(t)}), "/v1/check?dimension=calls", acme)
	expect(t, w, 200, "", map[string]string{"X-Quota-Reason": "open_mode"})
}
