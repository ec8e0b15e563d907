package httpquota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/httpquota"
	"github.com/quotalease/quotalease/ledger/quota"
)

// fakeAgent gives one answer, and remembers what it was asked.
type fakeAgent struct {
	door.Agent
	decision agent.Decision
	err      error
	asked    []string
}

func (f *fakeAgent) Take(_ context.Context, tenant, dimension string, cost int64) (agent.Decision, error) {
	f.asked = append(f.asked, fmt.Sprint(tenant, " ", dimension, " ", cost))
	return f.decision, f.err
}

func tenantIs(tenant string, err error) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return tenant, err }
}

func takes(r door.Request) func(*http.Request) *door.Request {
	return func(*http.Request) *door.Request { return &r }
}

// visit sends one request, and reports whether the handler was reached.
func visit(a door.Agent, cfg httpquota.Config) (rec *httptest.ResponseRecorder, reached bool) {
	rec = httptest.NewRecorder()
	httpquota.New(a, cfg)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })).
		ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	return rec, reached
}

func TestNobodyReachesNeitherHandlerNorAgent(t *testing.T) {
	t.Parallel()
	calls := takes(door.Request{Tenant: "acme", Dimension: "calls"})
	for name, cfg := range map[string]httpquota.Config{
		"an identity that is not good": {Tenant: tenantIs("acme", errors.New("expired")), Takes: calls},
		"no identity":                  {Tenant: tenantIs("", nil), Takes: calls},
		"a name that is no tenant's":   {Tenant: tenantIs("a\nb", nil), Takes: calls},
		"no way to tell":               {Takes: calls},
		"no word of what is taken":     {Tenant: tenantIs("acme", nil)},
	} {
		a := &fakeAgent{decision: agent.Decision{Allowed: true}}
		rec, reached := visit(a, cfg)
		if rec.Code != http.StatusUnauthorized || reached || len(a.asked) > 0 || rec.Header().Get("WWW-Authenticate") == "" || strings.Contains(rec.Body.String(), "expired") {
			t.Errorf("%s: %d %s, reached %v, asked %v", name, rec.Code, rec.Body, reached, a.asked)
		}
	}
}

func TestWhatPassesIsToldWhatIsLeft(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{decision: agent.Decision{Allowed: true, Dimension: "calls", Limit: quota.LimitOf(5), Remaining: 2, Window: time.Minute, Reset: time.Second, PolicyVersion: 1}}
	three := int64(3)
	rec, reached := visit(a, httpquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(door.Request{Tenant: "other", Dimension: "calls", Cost: &three})})
	if !reached || rec.Code != http.StatusOK || rec.Header().Get("RateLimit") != `"calls";r=2;t=1` || rec.Header().Get("RateLimit-Policy") != `"calls";q=5;w=60` {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	if len(a.asked) != 1 || a.asked[0] != "acme calls 3" {
		t.Errorf("asked %q, want the verified tenant's", a.asked)
	}
	if h := rec.Header(); h.Get("Cache-Control") != "" || h.Get("Retry-After") != "" {
		t.Errorf("the program's own answer has %v", h)
	}
}

func TestAFaultOfTheProgramIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := &fakeAgent{}
	rec, reached := visit(a, httpquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(door.Request{Dimension: "Calls"}),
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if rec.Code != http.StatusInternalServerError || reached || strings.Contains(rec.Body.String(), "Calls") || !strings.Contains(log.String(), "dimension: ") {
		t.Errorf("%d %s, reached %v, log %s", rec.Code, rec.Body, reached, log.String())
	}
}

// CASES H4: any state, an impossible one included.
func TestH4NothingIsNegative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) int64 {
			return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.Just(int64(math.MaxInt64)), rapid.Just(int64(math.MinInt64))).Draw(t, name)
		}
		a := &fakeAgent{decision: agent.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Dimension: "calls", Reason: quota.Exhausted,
			Limit: quota.LimitOf(quota.Units(max(0, amount("limit")))), Remaining: quota.Units(amount("remaining")),
			RetryIn: time.Duration(amount("retry in")), Reset: time.Duration(amount("reset")), PolicyVersion: 1,
		}}
		rec, reached := visit(a, httpquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(door.Request{Dimension: "calls"}), Headers: answer.XRateLimit})
		if reached != a.decision.Allowed || rec.Header().Get("X-RateLimit-Remaining") == "" {
			t.Fatalf("%d, reached %v, headers %v", rec.Code, reached, rec.Header())
		}
		for name, values := range rec.Header() {
			if strings.Contains(values[0], "-") && name != "Content-Type" && name != "Cache-Control" {
				t.Fatalf("%s: %s", name, values[0])
			}
		}
	})
}
