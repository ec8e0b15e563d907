package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ web.Agent = (*agent.Agent)(nil)

// fakeAgent gives one answer, and remembers what it was asked.
type fakeAgent struct {
	door.Agent
	decision agent.Decision
	err      error
	notReady error

	mu    sync.Mutex
	asked []asked
	ids   []string
}

type asked struct {
	tenant, dimension string
	cost              int64
}

func (f *fakeAgent) Take(_ context.Context, tenant, dimension string, cost int64) (agent.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, asked{tenant, dimension, cost})
	d := f.decision
	d.Dimension = dimension
	return d, f.err
}

// TakeHeld has nothing in hand.
func (f *fakeAgent) TakeHeld(string, string, int64) (agent.Decision, bool) {
	return agent.Decision{}, false
}

func (f *fakeAgent) TakeOnce(ctx context.Context, id, tenant, dimension string, cost int64) (agent.Decision, error) {
	f.mu.Lock()
	f.ids = append(f.ids, id)
	f.mu.Unlock()
	return f.Take(ctx, tenant, dimension, cost)
}

func (f *fakeAgent) Ready() error { return f.notReady }

func (f *fakeAgent) calls() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func serve(t testing.TB, f *fakeAgent, cfg web.Config) http.Handler {
	t.Helper()
	h, err := web.New(f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const body = `{"tenant":"acme","dimension":"report_export","cost":1}`

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(body)))
	return w
}

// denied is the problem that a denial's members are in, and outage that of an outage's.
func denied(members string) string {
	why := map[string]string{
		"exhausted": "not enough is left", "leased_out": "what is left is with other agents", "too_large": "the cost is more than can ever pass",
		"cold": "no lease has come yet", "unknown_tenant": "policy does not list the tenant",
	}
	var m struct{ Reason, Dimension string }
	if err := json.Unmarshal([]byte(members), &m); err != nil {
		panic(err)
	}
	return `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
		`"detail":"` + m.Dimension + ": " + why[m.Reason] + `","violated-policies":["` + m.Dimension + `"],` + members[1:]
}

func outage(members string) string {
	return `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,` +
		`"detail":"the quota cannot be asked, and may have room",` + members[1:]
}

// expect holds a whole answer against what callers are promised: the headers named here and
// no other, and the body.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string, headers map[string]string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d", w.Code, status)
	}
	if got := strings.TrimSuffix(w.Body.String(), "\n"); got != body {
		t.Errorf("body\n%s, want\n%s", got, body)
	}
	for name, want := range headers {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range w.Header() {
		if _, ok := headers[name]; !ok && name != "Content-Type" && name != "Cache-Control" {
			t.Errorf("unexpected header %s: %q", name, w.Header().Get(name))
		}
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %q, want no-store", got)
	}
}

func TestAnswersByReason(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for _, tc := range []struct {
		name     string
		decision agent.Decision
		status   int
		body     string
		headers  map[string]string
	}{
		{"allowed",
			agent.Decision{Allowed: true, Limit: quota.LimitOf(50000), Remaining: 49999, Reset: hour, PolicyVersion: 3}, 200,
			`{"allowed":true,"reason":"","dimension":"report_export","limit":50000,"remaining":49999,"retry_after_ms":0,"policy_version":3,"shadow":false,"reset_ms":3600000}`,
			map[string]string{"Ratelimit-Policy": `"report_export";q=50000`, "Ratelimit": `"report_export";r=49999;t=3600`}},
		{"unlimited",
			agent.Decision{Allowed: true, Limit: quota.NoLimit, PolicyVersion: 3}, 200,
			`{"allowed":true,"reason":"","dimension":"report_export","limit":"unlimited","remaining":"unlimited","retry_after_ms":0,"policy_version":3,"shadow":false,"reset_ms":0}`,
			nil},
		{"shadow",
			agent.Decision{Allowed: true, Shadow: true, Reason: quota.Exhausted, Limit: quota.LimitOf(2), Reset: hour, PolicyVersion: 3}, 200,
			`{"allowed":true,"reason":"exhausted","dimension":"report_export","limit":2,"remaining":0,"retry_after_ms":0,"policy_version":3,"shadow":true,"reset_ms":3600000}`,
			map[string]string{"Ratelimit-Policy": `"report_export";q=2`, "Ratelimit": `"report_export";r=0;t=3600`}},
		{"open_mode",
			agent.Decision{Allowed: true, Reason: quota.OpenMode, Limit: quota.LimitOf(50), Remaining: 7, Reset: hour, PolicyVersion: 3}, 200,
			`{"allowed":true,"reason":"open_mode","dimension":"report_export","limit":50,"remaining":7,"retry_after_ms":0,"policy_version":3,"shadow":false,"reset_ms":3600000}`,
			map[string]string{"Ratelimit-Policy": `"report_export";q=50`, "Ratelimit": `"report_export";r=7;t=3600`}},
		{"exhausted",
			agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(50000), RetryIn: hour, Reset: hour, PolicyVersion: 3}, 429,
			denied(`{"allowed":false,"reason":"exhausted","dimension":"report_export","limit":50000,"remaining":0,"retry_after_ms":3600000,"policy_version":3,"shadow":false,"reset_ms":3600000}`),
			map[string]string{"Retry-After": "3600", "Ratelimit-Policy": `"report_export";q=50000`, "Ratelimit": `"report_export";r=0;t=3600`}},
		{"leased_out", // Retry-After is never earlier than t
			agent.Decision{Reason: quota.LeasedOut, Limit: quota.LimitOf(50000), Remaining: 12, RetryIn: 250 * time.Millisecond, Reset: hour, PolicyVersion: 3}, 429,
			denied(`{"allowed":false,"reason":"leased_out","dimension":"report_export","limit":50000,"remaining":12,"retry_after_ms":250,"policy_version":3,"shadow":false,"reset_ms":3600000}`),
			map[string]string{"Retry-After": "1", "Ratelimit-Policy": `"report_export";q=50000`, "Ratelimit": `"report_export";r=12;t=1`}},
		{"cold, the limit not heard of yet",
			agent.Decision{Reason: quota.Cold, RetryIn: 40 * time.Millisecond}, 429,
			denied(`{"allowed":false,"reason":"cold","dimension":"report_export","limit":0,"remaining":0,"retry_after_ms":40,"policy_version":0,"shadow":false,"reset_ms":0}`),
			map[string]string{"Retry-After": "1"}},
		{"unknown_tenant",
			agent.Decision{Reason: quota.UnknownTenant, PolicyVersion: 3}, 429,
			denied(`{"allowed":false,"reason":"unknown_tenant","dimension":"report_export","limit":0,"remaining":0,"retry_after_ms":0,"policy_version":3,"shadow":false,"reset_ms":0}`),
			map[string]string{"Ratelimit-Policy": `"report_export";q=0`, "Ratelimit": `"report_export";r=0`}},
		{"limit 0 is zero",
			agent.Decision{Reason: quota.TooLarge, PolicyVersion: 3}, 429,
			denied(`{"allowed":false,"reason":"too_large","dimension":"report_export","limit":0,"remaining":0,"retry_after_ms":0,"policy_version":3,"shadow":false,"reset_ms":0,"largest":0}`),
			map[string]string{"Ratelimit-Policy": `"report_export";q=0`, "Ratelimit": `"report_export";r=0`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := post(serve(t, &fakeAgent{decision: tc.decision}, web.Config{}), body)
			expect(t, w, tc.status, tc.body, tc.headers)
			want := "application/json"
			if tc.status >= 400 {
				want = "application/problem+json"
			}
			if got := w.Header().Get("Content-Type"); got != want {
				t.Errorf("Content-Type: %q, want %q", got, want)
			}
		})
	}
}

// REQUIREMENTS R1.3: B=10, cost 20.
func TestR1_3TooLargeSaysTheLargest(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{
		Reason: quota.TooLarge, Limit: quota.LimitOf(10), Remaining: 10, Largest: 10, PolicyVersion: 1,
	}}
	expect(t, post(serve(t, f, web.Config{}), `{"tenant":"acme","dimension":"calls","cost":20}`), 429,
		denied(`{"allowed":false,"reason":"too_large","dimension":"calls","limit":10,"remaining":10,"retry_after_ms":0,"policy_version":1,"shadow":false,"reset_ms":0,"largest":10}`),
		map[string]string{"Ratelimit-Policy": `"calls";q=10`, "Ratelimit": `"calls";r=10`})
}

// CASES O4.
func TestO4OutageIsNot429(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		body   string
		header string
	}{
		"next attempt known":  {&agent.UnavailableError{RetryIn: 1900 * time.Millisecond}, outage(`{"allowed":false,"reason":"unavailable","retry_after_ms":1900}`), "2"},
		"next attempt soon":   {&agent.UnavailableError{RetryIn: time.Millisecond}, outage(`{"allowed":false,"reason":"unavailable","retry_after_ms":1}`), "1"},
		"nothing known":       {&agent.UnavailableError{}, outage(`{"allowed":false,"reason":"unavailable","retry_after_ms":1000}`), "1"},
		"the agent stopped":   {agent.ErrStopped, outage(`{"allowed":false,"reason":"unavailable","retry_after_ms":1000}`), "1"},
		"the caller has left": {context.Canceled, outage(`{"allowed":false,"reason":"unavailable","retry_after_ms":1000}`), "1"},
	} {
		f := &fakeAgent{err: tc.err}
		h := serve(t, f, web.Config{Identity: proxied(t)})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, post(h, body), 503, tc.body, map[string]string{"Retry-After": tc.header})
			plain := map[string]string{"Retry-After": tc.header}
			if name != "the caller has left" {
				plain["X-Quota-Reason"] = "unavailable"
			}
			expect(t, check(h, "/v1/check?dimension=calls", acme), 503, tc.body, plain)
			plain["X-Quota-Status"] = "503"
			expect(t, check(h, "/v1/check?dimension=calls&style=nginx", acme), 403, tc.body, plain)
		})
	}
}

func TestAFaultOfOursIs500(t *testing.T) {
	t.Parallel()
	w := post(serve(t, &fakeAgent{err: errors.New("secret detail")}, web.Config{}), body)
	expect(t, w, 500, `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"no decision was made"}`, nil)
}

// CASES H1.
func TestH1RetryAfterRoundsUp(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration][2]string{
		1900 * time.Millisecond: {"2", `"retry_after_ms":1900`},
		2 * time.Second:         {"2", `"retry_after_ms":2000`},
		2*time.Second + 1:       {"3", `"retry_after_ms":2001`},
		1:                       {"1", `"retry_after_ms":1,`},
	} {
		f := &fakeAgent{decision: agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(3), RetryIn: left, Reset: left, PolicyVersion: 1}}
		w := post(serve(t, f, web.Config{}), body)
		if got := w.Header().Get("Retry-After"); got != want[0] {
			t.Errorf("%v left: Retry-After %q, want %q", left, got, want[0])
		}
		if got := w.Header().Get("RateLimit"); got != `"report_export";r=0;t=`+want[0] {
			t.Errorf("%v left: RateLimit %q", left, got)
		}
		if !strings.Contains(w.Body.String(), want[1]) {
			t.Errorf("%v left: %s, want %s", left, w.Body, want[1])
		}
	}
}

// CASES H2: denied 20 s into a window of 60.
func TestH2WhatIsLeft(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{
		Reason: quota.Exhausted, Limit: quota.LimitOf(100), RetryIn: 40 * time.Second, Reset: 40 * time.Second, PolicyVersion: 1,
	}}
	expect(t, post(serve(t, f, web.Config{}), body), 429,
		denied(`{"allowed":false,"reason":"exhausted","dimension":"report_export","limit":100,"remaining":0,"retry_after_ms":40000,"policy_version":1,"shadow":false,"reset_ms":40000}`),
		map[string]string{"Retry-After": "40", "Ratelimit-Policy": `"report_export";q=100`, "Ratelimit": `"report_export";r=0;t=40`})
}

// REQUIREMENTS R1.5: the trace's answers, as callers see them.
func TestR1_5RetryAfterOfTheTrace(t *testing.T) {
	t.Parallel()
	const allow = time.Duration(0)
	for _, step := range []struct {
		at   string
		deny time.Duration
		left quota.Units
		want string
	}{
		{"0", allow, 2, ""}, {"100", allow, 1, ""}, {"200", allow, 0, ""},
		{"300", 700 * time.Millisecond, 0, "1"}, {"500", 500 * time.Millisecond, 0, "1"},
		{"1300", allow, 0, ""}, {"1400", 600 * time.Millisecond, 0, "1"}, {"3500", allow, 1, ""},
	} {
		f := &fakeAgent{decision: agent.Decision{
			Allowed: step.deny == allow, RetryIn: step.deny, Remaining: step.left, Limit: quota.LimitOf(3), PolicyVersion: 1,
		}}
		w := post(serve(t, f, web.Config{}), body)
		if got := w.Header().Get("Retry-After"); got != step.want || (w.Code == 429) != (step.want != "") {
			t.Errorf("at %s ms: %d, Retry-After %q, want %q", step.at, w.Code, got, step.want)
		}
	}
}

// CASES A5.
func TestA5PeekIsAnsweredNotDenied(t *testing.T) {
	t.Parallel()
	full := &fakeAgent{decision: agent.Decision{Allowed: true, Limit: quota.LimitOf(5), Remaining: 5, PolicyVersion: 1}}
	empty := &fakeAgent{decision: agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(5), RetryIn: time.Minute, Reset: time.Minute, PolicyVersion: 1}}
	const peek = `{"tenant":"acme","dimension":"report_export","cost":0}`

	expect(t, post(serve(t, full, web.Config{}), peek), 200,
		`{"allowed":true,"reason":"","dimension":"report_export","limit":5,"remaining":5,"retry_after_ms":0,"policy_version":1,"shadow":false,"reset_ms":0}`,
		map[string]string{"Ratelimit-Policy": `"report_export";q=5`, "Ratelimit": `"report_export";r=5`})
	h := serve(t, empty, web.Config{Identity: proxied(t)})
	expect(t, post(h, peek), 200,
		`{"allowed":false,"reason":"exhausted","dimension":"report_export","limit":5,"remaining":0,"retry_after_ms":60000,"policy_version":1,"shadow":false,"reset_ms":60000}`,
		map[string]string{"Ratelimit-Policy": `"report_export";q=5`, "Ratelimit": `"report_export";r=0;t=60`})
	for _, f := range []*fakeAgent{full, empty} {
		if got := f.calls(); len(got) != 1 || got[0] != (asked{"acme", "report_export", 0}) {
			t.Errorf("asked %v, want one peek", got)
		}
	}
	// A proxy acts on the status alone, so there a denied peek is a denial.
	if w := check(h, "/v1/check?dimension=report_export", acme, web.CostHeader, "0"); w.Code != 429 {
		t.Errorf("denied peek at /v1/check: %d, want 429", w.Code)
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	h := serve(t, &fakeAgent{}, web.Config{Metrics: http.NotFoundHandler()})
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/take", 405, "POST"}, {"DELETE", "/v1/take", 405, "POST"}, {"OPTIONS", "/v1/take", 405, "POST"},
		{"POST", "/v1/check", 405, "GET"}, {"HEAD", "/v1/check", 405, "GET"},
		{"POST", "/healthz", 405, "GET, HEAD"}, {"POST", "/readyz", 405, "GET, HEAD"}, {"POST", "/metrics", 405, "GET, HEAD"},
		{"GET", "/", 404, ""}, {"POST", "/v1/take/", 404, ""}, {"POST", "/v2/take", 404, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(body)))
		if w.Code != tc.status || w.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", tc.method, tc.path, w.Code, w.Header().Get("Allow"), tc.status, tc.allow)
		}
		var p struct{ Status int }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != tc.status || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: not a problem: %s", tc.method, tc.path, w.Body)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("quotalease_agent_keys 0\n")) })
	h := serve(t, f, web.Config{Metrics: metrics})
	get := func(path string, status int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status || w.Body.String() != body {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, status, body)
		}
	}
	get("/healthz", 200, "alive\n")
	get("/readyz", 200, "ready\n")
	get("/metrics", 200, "quotalease_agent_keys 0\n")
	f.notReady = errors.New("no contact with the control plane yet")
	get("/readyz", 503, "not ready\nno contact with the control plane yet\n")
	get("/healthz", 200, "alive\n")
	h = serve(t, f, web.Config{})
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)); w.Code != 404 {
		t.Errorf("/metrics without metrics: %d, want 404", w.Code)
	}
	if got := f.calls(); len(got) != 0 {
		t.Errorf("health asked for units: %v", got)
	}
}

func TestOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{Allowed: true}}
	h := serve(t, f, web.Config{})
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7611/v1/take", strings.NewReader(body))
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 403 || len(f.calls()) != 0 {
			t.Errorf("%s %s: %d, asked %v; want 403, not asked", name, value, w.Code, f.calls())
		}
	}
}

func TestHeadersOptionIsChecked(t *testing.T) {
	t.Parallel()
	_, err := web.New(&fakeAgent{}, web.Config{Headers: "both"})
	var field *quota.FieldError
	if !errors.As(err, &field) || field.Field != "headers" || field.Allowed != "ietf, x-ratelimit or off" {
		t.Errorf("headers both: %v", err)
	}
}
