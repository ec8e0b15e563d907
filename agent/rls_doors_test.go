package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const rlsPolicy = `
dimensions:
- {name: marketing_messages, kind: period, limit: 5, period: {every: day}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: logins, kind: period, limit: 5, period: {every: minute}, class: exact}
- {name: requests, kind: period, limit: 10, period: {every: hour}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: watched, kind: period, limit: 2, period: {every: day}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: calls, kind: rate, limit: 2/s, burst: 4, class: hard, overshoot: 4, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: views, kind: period, limit: unlimited, period: {every: day}, class: best_effort}
descriptors:
- {domain: messaging, match: [{key: message_type, value: marketing}], dimension: marketing_messages, name: marketing}
- {domain: messaging, match: [{key: message_type, value: marketing}, {key: to_number}], dimension: marketing_messages}
- {domain: auth, match: [{key: auth_type, value: login}], dimension: logins}
- {domain: web, match: [{key: path, value: /v1/*}, {key: org}], dimension: requests, name: v1}
- {domain: web, match: [{key: path, value: /v1/health}, {key: org}], unlimited: true}
- {domain: web, match: [{key: path}, {key: org}], dimension: requests, tenant: [org], overrides: accept}
- {domain: web, match: [{key: org}], dimension: requests}
- {domain: web, match: [{key: new, value: rule}, {key: org}], dimension: watched, shadow: true, name: watched, replaces: [v1]}
- {domain: web, match: [{key: watched}], dimension: watched, shadow: true, name: alone}
- {domain: web, match: [{key: rate}], dimension: calls}
- {domain: web, match: [{key: rate}, {key: own}], dimension: calls, tenant: [rate], overrides: accept}
- {domain: web, match: [{key: viewer}], dimension: views}
- {domain: web, match: [{key: login}], dimension: logins}
`

// asked is a request of a proxy: a domain, and descriptors as key=value,key=value.
func asked(domain string, descriptors ...string) *rlspb.RateLimitRequest {
	req := &rlspb.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &commonpb.RateLimitDescriptor{}
		for _, e := range strings.Split(text, ",") {
			key, value, _ := strings.Cut(e, "=")
			d.Entries = append(d.Entries, &commonpb.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// should asks the service, and returns the answer in a few words: the overall code and reason,
// then of each descriptor the code, the limit, what is left and when it comes back.
func (w *world) should(req *rlspb.RateLimitRequest) (string, *rlspb.RateLimitResponse) {
	w.t.Helper()
	r, err := w.rls.ShouldRateLimit(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	words := []string{r.GetOverallCode().String()}
	if reason := r.GetDynamicMetadata().GetFields()["reason"].GetStringValue(); reason != "" {
		words = append(words, reason)
	}
	for _, s := range r.GetStatuses() {
		word := "| " + s.GetCode().String()
		if l := s.GetCurrentLimit(); l != nil {
			word += fmt.Sprintf(" %s %d/", l.GetName(), l.GetRequestsPerUnit())
			if n := l.GetUnitMultiplier().GetValue(); n > 0 {
				word += fmt.Sprint(n)
			}
			word += fmt.Sprintf("%s left %d", l.GetUnit(), s.GetLimitRemaining())
		} else if n := s.GetLimitRemaining(); n > 0 {
			word += fmt.Sprintf(" left %d", n)
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), r
}

func (w *world) wantAnswer(req *rlspb.RateLimitRequest, want string) *rlspb.RateLimitResponse {
	w.t.Helper()
	got, r := w.should(req)
	if got != want {
		w.t.Errorf("%v:\ngot  %s\nwant %s", req, got, want)
	}
	return r
}

func headerOf(r *rlspb.RateLimitResponse, name string) string {
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() == name {
			return h.GetValue()
		}
	}
	return ""
}

func TestR4_2FiveMessagesADayAndFiveLoginsAMinute(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
		for i := range 5 {
			w.wantAnswer(asked("messaging", "message_type=marketing"), fmt.Sprintf("OK | OK marketing 5/DAY left %d", 4-i))
			w.wantAnswer(asked("auth", "auth_type=login"), fmt.Sprintf("OK | OK logins 5/MINUTE left %d", 4-i))
		}
		r := w.wantAnswer(asked("messaging", "message_type=marketing"), "OVER_LIMIT exhausted | OVER_LIMIT marketing 5/DAY left 0")
		if d := r.GetStatuses()[0].GetDurationUntilReset().AsDuration(); d <= time.Hour || d > 24*time.Hour {
			t.Errorf("the day ends in %v", d)
		}
		w.wantAnswer(asked("auth", "auth_type=login"), "OVER_LIMIT exhausted | OVER_LIMIT logins 5/MINUTE left 0")
		time.Sleep(time.Minute)
		w.wantAnswer(asked("auth", "auth_type=login"), "OK | OK logins 5/MINUTE left 4")
		w.wantAnswer(asked("messaging", "message_type=marketing"), "OVER_LIMIT exhausted | OVER_LIMIT marketing 5/DAY left 0")
	})
}

func TestProxiesGetTheDecisionsTheyExpect(t *testing.T) {
	t.Parallel()
	own := func(req *rlspb.RateLimitRequest, hits ...uint64) *rlspb.RateLimitRequest {
		for i, n := range hits {
			req.Descriptors[i].HitsAddend = wrapperspb.UInt64(n)
		}
		return req
	}
	brings := func(req *rlspb.RateLimitRequest, n uint32, unit typepb.RateLimitUnit, times uint32) *rlspb.RateLimitRequest {
		l := &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		if times > 0 {
			l.UnitMultiplier = wrapperspb.UInt32(times)
		}
		req.Descriptors[0].Limit = l
		return req
	}
	hits := func(n uint32, req *rlspb.RateLimitRequest) *rlspb.RateLimitRequest { req.HitsAddend = n; return req }
	type step struct {
		req  *rlspb.RateLimitRequest
		want string
	}
	for name, steps := range map[string][]step{
		"nested": {
			{asked("messaging", "message_type=marketing,to_number=+1"), "OK | OK marketing_messages 5/DAY left 4"},
			{asked("messaging", "message_type=marketing,to_number=+2"), "OK | OK marketing_messages 5/DAY left 4"},
			{asked("messaging", "message_type=marketing"), "OK | OK marketing 5/DAY left 4"},
			{asked("messaging", "message_type=status,to_number=+1"), "OK | OK"},
			{asked("messaging", "message_type=marketing,to_number=+1,x=y"), "OK | OK"},
			{asked("postage", "message_type=marketing"), "OK | OK"},
		},
		"wildcard": {
			{asked("web", "path=/v1/x,org=acme"), "OK | OK v1 10/HOUR left 9"},
			{asked("web", "path=/v2/x,org=acme"), "OK | OK requests 10/HOUR left 9"}, // another tenant: there the path is in the name
			{asked("web", "org=acme"), "OK | OK requests 10/HOUR left 8"},
		},
		"unlimited": {
			{asked("web", "path=/v1/health,org=acme"), "OK | OK left 4294967295"},
			{asked("web", "viewer=acme"), "OK | OK left 4294967295"},
		},
		"a limit of its own": {
			{brings(asked("web", "path=/,org=acme"), 2, typepb.RateLimitUnit_MINUTE, 0), "OK | OK requests 2/MINUTE left 1"},
			{brings(asked("web", "path=/,org=acme"), 2, typepb.RateLimitUnit_MINUTE, 0), "OK | OK requests 2/MINUTE left 0"},
			{brings(asked("web", "path=/,org=acme"), 2, typepb.RateLimitUnit_MINUTE, 0), "OVER_LIMIT exhausted | OVER_LIMIT requests 2/MINUTE left 0"},
			{brings(asked("web", "path=/,org=acme"), 7, typepb.RateLimitUnit_SECOND, 10), "OK | OK requests 7/10SECOND left 6"},
			{asked("web", "path=/,org=acme"), "OK | OK requests 10/HOUR left 9"},
			{brings(asked("web", "rate=acme,own=limit"), 3, typepb.RateLimitUnit_MINUTE, 0), "OK | OK calls 3/MINUTE left 2"},
			{asked("web", "rate=acme,own=limit"), "OK | OK calls 4/UNKNOWN left 3"},
			{brings(asked("web", "org=acme"), 1000, typepb.RateLimitUnit_DAY, 0), "OK | OK requests 10/HOUR left 8"}, // not accepted
		},
		"hits": {
			{hits(3, asked("web", "org=acme")), "OK | OK requests 10/HOUR left 7"},
			{hits(8, asked("web", "org=acme")), "OVER_LIMIT exhausted | OVER_LIMIT requests 10/HOUR left 0"},
			{hits(7, own(asked("web", "org=acme"), 2)), "OK | OK requests 10/HOUR left 5"},
			{own(asked("web", "org=acme", "org=globex"), 0, 4), "OK | OK requests 10/HOUR left 5 | OK requests 10/HOUR left 6"},
			{own(asked("web", "org=acme"), 11), "OVER_LIMIT too_large | OVER_LIMIT requests 10/HOUR left 0"},
			{own(asked("web", "org=acme"), 1<<63), "OVER_LIMIT too_large | OVER_LIMIT"},
			{asked("web", "org=acme", "org=acme"), "OK | OK requests 10/HOUR left 3 | OK requests 10/HOUR left 3"},
			{own(asked("web", "org=acme"), 3), "OK | OK requests 10/HOUR left 0"},
			{own(asked("web", "org=acme"), 0), "OVER_LIMIT exhausted | OVER_LIMIT requests 10/HOUR left 0"},
		},
		"a tenant that can be none": {
			{asked("web", "org="), "OVER_LIMIT unknown_tenant | OVER_LIMIT"},
			{asked("web", "org="+strings.Repeat("x", 257), "viewer=acme"), "OVER_LIMIT unknown_tenant | OVER_LIMIT | OK"},
		},
		"a rule that replaces another": {
			{asked("web", "new=rule,org=acme", "path=/v1/x,org=acme"), "OK | OK watched 2/DAY left 1 | OK"},
			{asked("web", "path=/v1/x,org=acme"), "OK | OK v1 10/HOUR left 9"},
		},
		"a burst": {
			{hits(3, asked("web", "rate=acme")), "OK | OK calls 4/UNKNOWN left 1"},
			{hits(2, asked("web", "rate=acme")), "OVER_LIMIT exhausted | OVER_LIMIT calls 4/UNKNOWN left 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
				for _, s := range steps {
					w.wantAnswer(s.req, s.want)
				}
			})
		})
	}
}

// Several are taken all or none; what a denied request would have used is not charged.
func TestR1_10DescriptorsOfOneRequestAreTakenTogether(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
		both := asked("web", "org=acme", "org=globex", "rate=acme")
		w.wantAnswer(both, "OK | OK requests 10/HOUR left 9 | OK requests 10/HOUR left 9 | OK calls 4/UNKNOWN left 3")
		both.Descriptors[1].HitsAddend = wrapperspb.UInt64(10)
		r := w.wantAnswer(both, "OVER_LIMIT exhausted | OK requests 10/HOUR left 9 | OVER_LIMIT requests 10/HOUR left 0 | OK calls 4/UNKNOWN left 3")
		if got := r.GetDynamicMetadata().GetFields()["dimension"].GetStringValue(); got != "requests" {
			t.Errorf("the denier is %q", got)
		}
		w.wantAnswer(asked("web", "org=acme"), "OK | OK requests 10/HOUR left 8")
		// In the exact lane, too.
		w.wantAnswer(asked("web", "login=acme"), "OK | OK logins 5/MINUTE left 4")
		exact := asked("web", "login=acme", "login=globex")
		exact.HitsAddend = 4
		w.wantAnswer(exact, "OK | OK logins 5/MINUTE left 0 | OK logins 5/MINUTE left 1")
		exact.HitsAddend = 1
		w.wantAnswer(exact, "OVER_LIMIT exhausted | OVER_LIMIT logins 5/MINUTE left 0 | OK logins 5/MINUTE left 1")
		w.wantAnswer(asked("web", "login=globex"), "OK | OK logins 5/MINUTE left 0")
	})
}

func TestY1ShadowRuleCountsAndAllows(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
		would := 0
		for range 6 {
			r, err := w.rls.ShouldRateLimit(t.Context(), asked("web", "watched=acme"))
			if err != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OK || r.GetStatuses()[0].GetCode() != rlspb.RateLimitResponse_OK {
				t.Fatal(r, err)
			}
			would += len(r.GetDynamicMetadata().GetFields()["would_deny"].GetListValue().GetValues())
		}
		if would != 4 {
			t.Errorf("would have denied %d times, want 4", would)
		}
	})
}

func TestY2AnExhaustedShadowRuleBesideAnEnforcedOne(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
		both := asked("web", "watched=acme", "login=acme")
		for i := range 5 {
			w.wantAnswer(both, fmt.Sprintf("OK | OK alone 2/DAY left %d | OK logins 5/MINUTE left %d", max(1-i, 0), 4-i))
		}
		w.wantAnswer(both, "OVER_LIMIT exhausted | OK alone 2/DAY left 0 | OVER_LIMIT logins 5/MINUTE left 0")
		// What an enforced rule denies uses nothing of one in shadow.
		w.wantAnswer(asked("web", "watched=globex", "login=acme"), "OVER_LIMIT exhausted | OK | OVER_LIMIT logins 5/MINUTE left 0")
		w.wantAnswer(asked("web", "watched=globex"), "OK | OK alone 2/DAY left 1")
	})
}

// The headers and the body are those of the other doors.
func TestH1H2H3H4AtTheRateLimitService(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsPolicy, func(t *testing.T, w *world) {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 20*time.Second)))
		for i := range 5 {
			w.wantAnswer(asked("auth", "auth_type=login"), fmt.Sprintf("OK | OK logins 5/MINUTE left %d", 4-i))
		}
		// H2: 20 s into the minute 40 are left; H3: of several limits the headers describe the denier.
		r := w.wantAnswer(asked("auth", "auth_type=login"), "OVER_LIMIT exhausted | OVER_LIMIT logins 5/MINUTE left 0")
		for name, want := range map[string]string{
			"retry-after": "40", "ratelimit": `"logins";r=0;t=40`, "ratelimit-policy": `"logins";q=5;w=60`,
			"x-quota-reason": "exhausted", "content-type": "application/problem+json",
		} {
			if got := headerOf(r, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := r.GetStatuses()[0].GetDurationUntilReset().AsDuration(); got != 40*time.Second {
			t.Errorf("until the reset %v", got)
		}
		var body map[string]any
		if err := json.Unmarshal(r.GetRawBody(), &body); err != nil || body["reason"] != "exhausted" || body["detail"] != "logins: not enough is left" || body["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" {
			t.Errorf("%s: %v", r.GetRawBody(), err)
		}
		// H1: a lone caller who waits as long as told passes.
		time.Sleep(40 * time.Second)
		w.wantAnswer(asked("auth", "auth_type=login"), "OK | OK logins 5/MINUTE left 4")
		w.wantAnswer(asked("web", "rate=acme", "org=acme"), "OK | OK calls 4/UNKNOWN left 3 | OK requests 10/HOUR left 9")
		req := asked("web", "rate=acme", "org=acme")
		req.HitsAddend = 4
		r = w.wantAnswer(req, "OVER_LIMIT exhausted | OVER_LIMIT calls 4/UNKNOWN left 0 | OK requests 10/HOUR left 9")
		if got := headerOf(r, "ratelimit-policy"); got != `"calls";q=4` {
			t.Errorf("H3: %q describes another limit than the denier", got)
		}
		if got := headerOf(r, "retry-after"); got != "1" { // half a second, rounded up
			t.Errorf("retry after %q", got)
		}
		time.Sleep(time.Second)
		w.wantAnswer(req, "OK | OK calls 4/UNKNOWN left 0 | OK requests 10/HOUR left 5")
	})
}

func TestO4OutageAtTheRateLimitServiceIsOverLimit(t *testing.T) {
	t.Parallel()
	policy := strings.Replace(rlsPolicy, "period: {every: hour}, class: hard,", "period: {every: hour}, class: hard, outage: {mode: open, after: 1s, for: 5m},", 1)
	inWorld(t, policy, func(t *testing.T, w *world) {
		w.up.cut(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		r := w.wantAnswer(asked("auth", "auth_type=login"), "OVER_LIMIT unavailable | OVER_LIMIT logins 5/MINUTE left 0")
		if body := string(r.GetRawBody()); !strings.Contains(body, `"detail":"the quota cannot be asked, and may have room"`) {
			t.Errorf("body %s", body)
		}
		if got := headerOf(r, "x-quota-reason"); got != "unavailable" {
			t.Errorf("the reason is %q", got)
		}
		if headerOf(r, "retry-after") == "" {
			t.Error("nobody says when to come back")
		}
		w.wantAnswer(asked("messaging", "message_type=marketing", "message_type=status"), "OVER_LIMIT unavailable | OVER_LIMIT marketing 5/DAY left 0 | OK")
		// A dimension whose mode says so goes on, and so does what is only watched.
		w.wantAnswer(asked("web", "org=acme"), "OK open_mode | OK requests 10/HOUR left 0")
		w.wantAnswer(asked("web", "watched=acme"), "OK | OK alone 2/DAY left 0")
		w.up.cut(false)
	})
}

// used is what the ledger confirmed of a tenant's use.
func (w *world) used(tenant, dimension string) int {
	w.t.Helper()
	reply, err := w.up.control.ListUsage(w.t.Context(), &pb.ListUsageRequest{Tenant: tenant})
	if err != nil {
		w.t.Fatal(err)
	}
	used := 0
	for _, u := range reply.GetUsage() {
		if u.GetKey().GetDimension() == dimension {
			used += int(u.GetSettled())
		}
	}
	return used
}

// A proxy gives the service 20 ms, and lets pass what is not answered by then. The control
// plane is 150 ms away.
func TestAThousandNewTenantsFarFromTheControlPlane(t *testing.T) {
	t.Parallel()
	leased := strings.Replace(rlsPolicy, "period: {every: hour}, class: hard,", "period: {every: hour}, class: hard, overshoot: 10,", 1)
	inWorld(t, leased, func(t *testing.T, w *world) {
		w.up.lie(150 * time.Millisecond)
		const tenants = 1000
		var mu sync.Mutex
		passed := map[string]int{}
		ask := func(org string) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			r, err := w.rls.ShouldRateLimit(ctx, asked("web", "org="+org))
			if err != nil {
				t.Errorf("%s: %v", org, err)
				return
			}
			reason := r.GetDynamicMetadata().GetFields()["reason"].GetStringValue()
			switch over := r.GetOverallCode() == rlspb.RateLimitResponse_OVER_LIMIT; {
			case over && reason != "cold":
				t.Errorf("%s: denied as %q", org, reason)
			case !over:
				mu.Lock()
				passed[org]++
				mu.Unlock()
			}
		}
		for range 3 {
			var wg sync.WaitGroup
			for i := range tenants {
				wg.Go(func() { ask(fmt.Sprintf("t%d", i)) })
			}
			wg.Wait()
			time.Sleep(time.Second)
		}
		if len(passed) != tenants {
			t.Errorf("%d of %d tenants were served in the end", len(passed), tenants)
		}
		time.Sleep(time.Minute)
		for org, n := range passed {
			if used := w.used(org, "requests"); used != n {
				t.Fatalf("%s: %d passed, the ledger counted %d", org, n, used)
			}
		}
	})
}
