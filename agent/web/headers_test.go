package web_test

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR4_1HeadersOnRequest(t *testing.T) {
	t.Parallel()
	denied := agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(10), RetryIn: 1500 * time.Millisecond, Reset: time.Hour, PolicyVersion: 1}
	allowed := agent.Decision{Allowed: true, Limit: quota.LimitOf(10), Remaining: 4, Reset: time.Hour, PolicyVersion: 1}
	unlimited := agent.Decision{Allowed: true, Limit: quota.NoLimit, PolicyVersion: 1}
	all := []string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Retry-After"}
	for _, tc := range []struct {
		headers  answer.Headers
		decision agent.Decision
		want     [6]string
	}{
		{"", denied, [6]string{"2", `"report_export";q=10`, `"report_export";r=0;t=2`}},
		{answer.IETF, allowed, [6]string{"", `"report_export";q=10`, `"report_export";r=4;t=3600`}},
		{answer.XRateLimit, denied, [6]string{"2", `"report_export";q=10`, `"report_export";r=0;t=2`, "10", "0", "2"}},
		{answer.XRateLimit, allowed, [6]string{"", `"report_export";q=10`, `"report_export";r=4;t=3600`, "10", "4", ""}},
		{answer.XRateLimit, unlimited, [6]string{}},
		{answer.Off, denied, [6]string{"2"}},
		{answer.Off, allowed, [6]string{}},
	} {
		w := post(serve(t, &fakeAgent{decision: tc.decision}, web.Config{Headers: tc.headers}), body)
		for i, name := range all {
			if got := w.Header().Get(name); got != tc.want[i] {
				t.Errorf("headers %q, reason %q: %s is %q, want %q", tc.headers, tc.decision.Reason, name, got, tc.want[i])
			}
		}
	}
}

// CASES H3: whatever other limits a tenant has, the headers name the dimension that was asked
// for and its numbers.
func TestH3HeadersDescribeTheDenier(t *testing.T) {
	t.Parallel()
	for dimension, d := range map[string]agent.Decision{
		"api_calls":  {Reason: quota.LeasedOut, Limit: quota.LimitOf(120), Remaining: 3, RetryIn: time.Second, PolicyVersion: 1},
		"llm_tokens": {Reason: quota.Exhausted, Limit: quota.LimitOf(9), RetryIn: time.Minute, Reset: time.Minute, PolicyVersion: 1},
	} {
		w := post(serve(t, &fakeAgent{decision: d}, web.Config{}), `{"tenant":"acme","dimension":"`+dimension+`"}`)
		policy := `"` + dimension + `";q=` + strconv.Itoa(int(d.Limit.Units))
		item := `"` + dimension + `";r=` + strconv.Itoa(int(d.Remaining)) + `;t=` + strconv.Itoa(int(d.RetryIn.Seconds()))
		if w.Header().Get("RateLimit-Policy") != policy || w.Header().Get("RateLimit") != item {
			t.Errorf("%s: %q %q, want %q %q", dimension, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"), policy, item)
		}
	}
}

// Structured fields: a string, then parameters that are integers of at most 15 digits.
var (
	policyField = regexp.MustCompile(`^"[a-z0-9][a-z0-9_.-]*";q=[0-9]{1,15}$`)
	limitField  = regexp.MustCompile(`^"[a-z0-9][a-z0-9_.-]*";r=[0-9]{1,15}(;t=[1-9][0-9]{0,14})?$`)
	plainField  = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	pauseField  = regexp.MustCompile(`^[1-9][0-9]*$`)
)

// CASES H4: any state, an impossible one included.
func TestH4NothingIsNegative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) quota.Units {
			return quota.Units(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.Just(int64(math.MaxInt64)), rapid.Just(int64(math.MinInt64))).Draw(t, name))
		}
		d := agent.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Reason: quota.TooLarge,
			Limit: quota.LimitOf(max(0, amount("limit"))), Remaining: amount("remaining"), Largest: amount("largest"),
			RetryIn: time.Duration(amount("retry in")), Reset: time.Duration(amount("reset")), PolicyVersion: 1,
		}
		a, h := answered(t, d)
		if a.Remaining < 0 || a.RetryAfterMs < 0 || a.ResetMs < 0 || a.Largest < 0 {
			t.Fatalf("negative: %+v", a)
		}
		for name, form := range map[string]*regexp.Regexp{
			"RateLimit-Policy": policyField, "RateLimit": limitField,
			"X-RateLimit-Limit": plainField, "X-RateLimit-Remaining": plainField,
		} {
			if !form.MatchString(h.Get(name)) {
				t.Fatalf("%s: %q is malformed", name, h.Get(name))
			}
		}
		if got := h.Get("Retry-After"); (got != "") != (!d.Allowed && d.RetryIn > 0) || (got != "" && !pauseField.MatchString(got)) {
			t.Fatalf("Retry-After %q for %+v", got, d)
		}
		if got := h.Get("X-RateLimit-Retry-After"); got != h.Get("Retry-After") {
			t.Fatalf("X-RateLimit-Retry-After %q, Retry-After %q", got, h.Get("Retry-After"))
		}
		if secs, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && (secs*1000 < a.RetryAfterMs || (secs-1)*1000 >= a.RetryAfterMs) {
			t.Fatalf("Retry-After %d s, retry_after_ms %d", secs, a.RetryAfterMs)
		}
	})
}

type read struct {
	Remaining    int64 `json:"remaining"`
	RetryAfterMs int64 `json:"retry_after_ms"`
	ResetMs      int64 `json:"reset_ms"`
	Largest      int64 `json:"largest"`
}

func answered(t *rapid.T, d agent.Decision) (read, http.Header) {
	h, err := web.New(&fakeAgent{decision: d}, web.Config{Headers: answer.XRateLimit})
	if err != nil {
		t.Fatal(err)
	}
	w := post(h, body)
	return decode[read](t, w.Body.Bytes()), w.Header()
}
