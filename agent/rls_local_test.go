package agent_test

import (
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const rlsLocalPolicy = `
local:
- {name: per_client, algorithm: fixed_window, limit: 3/h, key: [address], start: full}
- {name: per_org_client, algorithm: token_bucket, limit: 1/m, burst: 2, key: [tenant, address], start: full}
- {name: per_call, algorithm: sliding_log, limit: 2/90s, key: [route, actor, api_key], start: full}
- {name: backend, algorithm: token_bucket, limit: 1/s, burst: 4, start: full}
- {name: shaped, algorithm: leaky_bucket, limit: 1/s, queue: 5, start: full}
- {name: off, algorithm: token_bucket, limit: 0/s}
dimensions:
- {name: requests, kind: period, limit: 10, period: {every: hour}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: guarded, kind: period, limit: 10, period: {every: hour}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}, local: [backend]}
descriptors:
- {domain: edge, match: [{key: remote_address}], local: per_client, caller: {address: remote_address}}
- {domain: edge, match: [{key: masked_remote_address}], local: per_client, caller: {address: masked_remote_address}, name: networks}
- {domain: edge, match: [{key: org}, {key: remote_address}], local: per_org_client, caller: {address: remote_address}}
- {domain: edge, match: [{key: path, value: /v1/*}, {key: user}, {key: token}], local: per_call, caller: {route: path, actor: user, api_key: token}}
- {domain: edge, match: [{key: all, value: requests}], local: backend}
- {domain: edge, match: [{key: shaped}], local: shaped}
- {domain: edge, match: [{key: off}], local: off}
- {domain: edge, match: [{key: watched}], local: per_client, caller: {address: watched}, shadow: true, name: watched}
- {domain: edge, match: [{key: org}], dimension: requests}
- {domain: edge, match: [{key: guarded}], dimension: guarded}
`

func TestR1_13ALocalLimitByAddressDecidesAtTheRateLimitService(t *testing.T) {
	t.Parallel()
	overLoopback(t, rlsLocalPolicy, func(w *world) {
		one := asked("edge", "remote_address=203.0.113.7")
		for _, want := range []string{"OK | OK per_client 3/HOUR left 2", "OK | OK per_client 3/HOUR left 1", "OK | OK per_client 3/HOUR left 0"} {
			w.wantAnswer(one, want)
		}
		r := w.wantAnswer(one, "OVER_LIMIT exhausted | OVER_LIMIT per_client 3/HOUR left 0")
		if d := r.GetStatuses()[0].GetDurationUntilReset().AsDuration(); d < time.Second || d > time.Hour {
			t.Errorf("comes back in %v, want within the hour", d)
		}
		for name, want := range map[string]string{"x-quota-reason": "exhausted", "ratelimit": `"per_client";r=0;t=`, "ratelimit-policy": `"per_client";q=3;w=3600`} {
			if got := headerOf(r, name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if body := string(r.GetRawBody()); !strings.Contains(body, `"violated-policies":["per_client"]`) || !strings.Contains(body, `"reason":"exhausted","dimension":"per_client","limit":3,"remaining":0`) {
			t.Errorf("body %s", body)
		}
		if text := r.String(); strings.Contains(text, "203.0.113") {
			t.Errorf("the answer shows the address: %s", text)
		}
		nobody := w.wantAnswer(asked("edge", "remote_address=unknown"), "OVER_LIMIT unknown_tenant | OVER_LIMIT")
		if body := string(nobody.GetRawBody()); !strings.Contains(body, `"detail":"per_client: a value of the descriptor names nobody"`) {
			t.Errorf("body %s", body)
		}
		w.wantAnswer(asked("edge", "remote_address=203.0.113.8"), "OK | OK per_client 3/HOUR left 2")
		w.wantAnswer(asked("edge", "remote_address=::ffff:203.0.113.8"), "OK | OK per_client 3/HOUR left 1")
		w.wantAnswer(asked("edge", "masked_remote_address=203.0.113.0/24"), "OK | OK networks 3/HOUR left 2")
	})
}

func TestALocalLimitCountsWhatItsRuleTakesFromTheDescriptor(t *testing.T) {
	t.Parallel()
	hits := func(n uint32, req *rlspb.RateLimitRequest) *rlspb.RateLimitRequest { req.HitsAddend = n; return req }
	own := func(n uint64, req *rlspb.RateLimitRequest) *rlspb.RateLimitRequest {
		req.Descriptors[0].HitsAddend = wrapperspb.UInt64(n)
		return req
	}
	type step struct {
		req  *rlspb.RateLimitRequest
		want string
	}
	for name, steps := range map[string][]step{
		"hits are the cost": {
			{hits(2, asked("edge", "remote_address=203.0.113.7")), "OK | OK per_client 3/HOUR left 1"},
			{hits(2, asked("edge", "remote_address=203.0.113.7")), "OVER_LIMIT exhausted | OVER_LIMIT per_client 3/HOUR left 0"},
			{hits(9, asked("edge", "remote_address=203.0.113.7")), "OVER_LIMIT too_large | OVER_LIMIT per_client 3/HOUR left 0"},
			{own(0, asked("edge", "remote_address=203.0.113.7")), "OK | OK per_client 3/HOUR left 1"},
			{asked("edge", "remote_address=203.0.113.7"), "OK | OK per_client 3/HOUR left 0"},
			{own(0, asked("edge", "remote_address=203.0.113.7")), "OVER_LIMIT exhausted | OVER_LIMIT per_client 3/HOUR left 0"},
			{own(0, asked("edge", "remote_address=203.0.113.8")), "OK | OK per_client 3/HOUR left 3"},
		},
		"tenant and address": {
			{hits(2, asked("edge", "org=acme,remote_address=203.0.113.7")), "OK | OK per_org_client 2/UNKNOWN left 0"},
			{asked("edge", "org=acme,remote_address=203.0.113.7"), "OVER_LIMIT exhausted | OVER_LIMIT per_org_client 2/UNKNOWN left 0"},
			{asked("edge", "org=acme,remote_address=203.0.113.8"), "OK | OK per_org_client 2/UNKNOWN left 1"},
			{asked("edge", "org=globex,remote_address=203.0.113.7"), "OK | OK per_org_client 2/UNKNOWN left 1"},
		},
		"route, actor and API key": {
			{hits(2, asked("edge", "path=/v1/x,user=ann,token=s3cret")), "OK | OK per_call 2/90SECOND left 0"},
			{asked("edge", "path=/v1/x,user=ann,token=s3cret"), "OVER_LIMIT exhausted | OVER_LIMIT per_call 2/90SECOND left 0"},
			{asked("edge", "path=/v1/y,user=ann,token=s3cret"), "OK | OK per_call 2/90SECOND left 1"},
			{asked("edge", "path=/v1/x,user=bob,token=s3cret"), "OK | OK per_call 2/90SECOND left 1"},
			{asked("edge", "path=/v1/x,user=ann,token=other"), "OK | OK per_call 2/90SECOND left 1"},
		},
		"one for all": {
			{hits(4, asked("edge", "all=requests")), "OK | OK backend 4/UNKNOWN left 0"},
			{asked("edge", "all=requests"), "OVER_LIMIT exhausted | OVER_LIMIT backend 4/UNKNOWN left 0"},
			{asked("edge", "off=x"), "OVER_LIMIT exhausted | OVER_LIMIT off 0/UNKNOWN left 0"},
		},
		"a turn that comes too late for a proxy": {
			{asked("edge", "shaped=x"), "OK | OK shaped 5/UNKNOWN left 4"},
			{asked("edge", "shaped=x"), "OVER_LIMIT exhausted | OVER_LIMIT shaped 5/UNKNOWN left 0"},
		},
		"values that can be nothing": {
			{asked("edge", "remote_address=unknown"), "OVER_LIMIT unknown_tenant | OVER_LIMIT"},
			{asked("edge", "remote_address="), "OVER_LIMIT unknown_tenant | OVER_LIMIT"},
			{asked("edge", "path=/v1/x,user=,token=s3cret"), "OVER_LIMIT unknown_tenant | OVER_LIMIT"},
			{asked("edge", "watched=nobody"), "OK | OK"},
		},
		"each is told of its own limit": {
			{asked("edge", "all=requests", "remote_address=203.0.113.7"), "OK | OK backend 4/UNKNOWN left 3 | OK per_client 3/HOUR left 2"},
			{asked("edge", "remote_address=203.0.113.8", "remote_address=203.0.113.7"), "OK | OK per_client 3/HOUR left 2 | OK per_client 3/HOUR left 1"},
			{asked("edge", "guarded=acme", "remote_address=203.0.113.7"), "OK | OK guarded 10/HOUR left 9 | OK per_client 3/HOUR left 0"},
		},
		"two of one request": {
			{asked("edge", "remote_address=203.0.113.7", "remote_address=203.0.113.7"), "OK | OK per_client 3/HOUR left 1 | OK per_client 3/HOUR left 1"},
			{asked("edge", "remote_address=203.0.113.7", "remote_address=203.0.113.8"), "OK | OK per_client 3/HOUR left 0 | OK per_client 3/HOUR left 2"},
			{asked("edge", "remote_address=203.0.113.8", "remote_address=203.0.113.7"), "OVER_LIMIT exhausted | OK per_client 3/HOUR left 2 | OVER_LIMIT per_client 3/HOUR left 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, rlsLocalPolicy, func(t *testing.T, w *world) {
				for _, s := range steps {
					w.wantAnswer(s.req, s.want)
				}
			})
		})
	}
}

func TestR1_10ALocalLimitAndAQuotaAreTakenTogether(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsLocalPolicy, func(t *testing.T, w *world) {
		both := asked("edge", "org=acme", "remote_address=203.0.113.7")
		w.wantAnswer(both, "OK | OK requests 10/HOUR left 9 | OK per_client 3/HOUR left 2")
		both.Descriptors[0].HitsAddend = wrapperspb.UInt64(10) // what the local limit gave goes back
		w.wantAnswer(both, "OVER_LIMIT exhausted | OVER_LIMIT requests 10/HOUR left 0 | OK per_client 3/HOUR left 2")
		both.Descriptors[0].HitsAddend, both.Descriptors[1].HitsAddend = nil, wrapperspb.UInt64(3)
		r := w.wantAnswer(both, "OVER_LIMIT exhausted | OK requests 10/HOUR left 9 | OVER_LIMIT per_client 3/HOUR left 0")
		if got := r.GetDynamicMetadata().GetFields()["dimension"].GetStringValue(); got != "per_client" {
			t.Errorf("the denier is %q", got)
		}
		both.Descriptors[1].HitsAddend = wrapperspb.UInt64(2)
		w.wantAnswer(both, "OK | OK requests 10/HOUR left 8 | OK per_client 3/HOUR left 0")
		// One that the dimension itself is under denies a request of several, too.
		two := asked("edge", "guarded=acme", "org=acme")
		w.wantAnswer(two, "OK | OK guarded 10/HOUR left 9 | OK requests 10/HOUR left 7")
		used := asked("edge", "all=requests")
		used.HitsAddend = 3
		w.wantAnswer(used, "OK | OK backend 4/UNKNOWN left 0")
		w.wantAnswer(two, "OVER_LIMIT exhausted | OVER_LIMIT backend 4/UNKNOWN left 0 | OK requests 10/HOUR left 7")
	})
}

func TestY1ALocalLimitInShadowCountsAndAllows(t *testing.T) {
	t.Parallel()
	inWorld(t, rlsLocalPolicy, func(t *testing.T, w *world) {
		for _, left := range []string{"left 2", "left 1", "left 0"} {
			w.wantAnswer(asked("edge", "watched=203.0.113.7"), "OK | OK watched 3/HOUR "+left)
		}
		r := w.wantAnswer(asked("edge", "watched=203.0.113.7"), "OK | OK watched 3/HOUR left 0")
		would := r.GetDynamicMetadata().GetFields()["would_deny"].GetListValue().GetValues()
		if len(would) != 1 || would[0].GetStructValue().GetFields()["dimension"].GetStringValue() != "per_client" {
			t.Errorf("would deny: %v", would)
		}
		// It counts with the rules that deny.
		w.wantAnswer(asked("edge", "remote_address=203.0.113.7"), "OVER_LIMIT exhausted | OVER_LIMIT per_client 3/HOUR left 0")
	})
}
