package rls_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// fakeAgent has a policy and an answer to every question, and keeps the questions.
type fakeAgent struct {
	rules *core.Descriptors
	say   agent.Decision
	fail  error
	wait  bool // until the caller's time is over

	mu    sync.Mutex
	asked []core.KeyCost
	bad   error // what is wrong with whom a local limit was asked about
}

func (a *fakeAgent) Descriptors() *core.Descriptors { return a.rules }

func (a *fakeAgent) answer(ctx context.Context, takes ...core.KeyCost) (quota.Key, agent.Decision, error) {
	a.mu.Lock()
	a.asked = append(a.asked, takes...)
	a.mu.Unlock()
	if a.wait {
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.Canceled) {
			return quota.Key{}, agent.Decision{}, ctx.Err()
		}
		return takes[0].Key, agent.Decision{Dimension: takes[0].Key.Dimension, Reason: quota.Cold, PolicyVersion: 1, Limit: quota.LimitOf(5), RetryIn: 40 * time.Millisecond}, nil
	}
	d := a.say
	d.Dimension = takes[0].Key.Dimension
	return takes[0].Key, d, a.fail
}

func (a *fakeAgent) Take(ctx context.Context, tenant, dimension string, cost int64) (agent.Decision, error) {
	_, d, err := a.answer(ctx, core.KeyCost{Key: quota.Key{Tenant: tenant, Dimension: dimension}, Cost: cost})
	return d, err
}

func (a *fakeAgent) TakeKeys(ctx context.Context, takes []agent.KeyTake) (int, agent.Decision, error) {
	var costs []core.KeyCost
	for _, t := range takes {
		costs = append(costs, t.KeyCost)
		if err := t.Caller.Validate(); err != nil || t.Local != (t.Caller.Address != "") {
			a.bad = fmt.Errorf("%v: %v", t.KeyCost, err)
		}
	}
	_, d, err := a.answer(ctx, costs...)
	return 0, d, err
}

func (a *fakeAgent) TakeShadow(ctx context.Context, take agent.KeyTake) (agent.Decision, error) {
	return a.Take(ctx, take.Key.Tenant, take.Key.Dimension, take.Cost)
}

func (a *fakeAgent) Known(take agent.KeyTake) (agent.Decision, bool) {
	return agent.Decision{Dimension: take.Key.Dimension, Limit: quota.LimitOf(5), Remaining: 3, PolicyVersion: 1}, true
}

func match(words ...string) (all []*pb.DescriptorEntry) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		all = append(all, &pb.DescriptorEntry{Key: key, Value: value})
	}
	return all
}

// rules are those of a small policy.
func rules(t testing.TB) *core.Descriptors {
	t.Helper()
	c := core.New(core.Config{Name: "a", Random: strings.NewReader(strings.Repeat("0123456789abcdef", 64))})
	ok := c.Restore(0, &pb.Catalogue{PolicyVersion: 1,
		Dimensions:  []*pb.Dimension{{Name: "exports", Kind: "period", Class: "hard", Limit: 5, Period: &pb.Period{Every: "week"}}},
		LocalLimits: []*pb.LocalLimit{{Name: "clients", Algorithm: "fixed_window", Rate: &pb.Rate{Units: 5, PerUs: 1_000_000}, Key: []string{"address"}, Ipv6Prefix: 64, IdleUs: 1_000_000, MaxKeys: 10}},
		Descriptors: []*pb.Descriptor{
			{Domain: "web", Match: match("address"), Dimension: "clients", Local: true, Caller: []*pb.DescriptorCaller{{Attribute: "address"}}},
			{Domain: "web", Match: match("org"), Tenant: []int32{0}, Dimension: "exports", Name: "orgs"},
			{Domain: "web", Match: match("org", "user=b*"), Tenant: []int32{0, 1}, Dimension: "exports", Overrides: true},
			{Domain: "web", Match: match("shadow"), Tenant: []int32{0}, Dimension: "exports", Shadow: true, Name: "watched"},
			{Domain: "web", Match: match("free"), Replaces: []string{"orgs"}},
		}})
	if !ok {
		t.Fatal("the catalogue was not read")
	}
	return c.Descriptors()
}

func request(domain string, descriptors ...string) *rlspb.RateLimitRequest {
	req := &rlspb.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &commonpb.RateLimitDescriptor{}
		for _, e := range match(strings.Split(text, ",")...) {
			d.Entries = append(d.Entries, &commonpb.RateLimitDescriptor_Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

func TestMalformedRequestsNameTheirPart(t *testing.T) {
	t.Parallel()
	limited := func(n uint32, unit typepb.RateLimitUnit, times uint32) *rlspb.RateLimitRequest {
		req := request("web", "org=acme", "org=acme,user=bob")
		req.Descriptors[1].Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit, UnitMultiplier: wrapperspb.UInt32(times)}
		return req
	}
	for field, req := range map[string]*rlspb.RateLimitRequest{
		"domain":                               request("", "org=acme"),
		"descriptors":                          request("web"),
		"descriptors[1].entries":               {Domain: "web", Descriptors: []*commonpb.RateLimitDescriptor{request("web", "org=acme").Descriptors[0], {}}},
		"descriptors[0].entries[1].key":        request("web", "org=acme,=bob"),
		"descriptors[1].limit.unit":            limited(5, typepb.RateLimitUnit_UNKNOWN, 1),
		"descriptors[1].limit.unit_multiplier": limited(5, typepb.RateLimitUnit_MINUTE, 0),
	} {
		a := &fakeAgent{rules: rules(t)}
		_, err := rls.New(a).ShouldRateLimit(t.Context(), req)
		s := status.Convert(err)
		if s.Code() != codes.InvalidArgument || len(a.asked) > 0 {
			t.Errorf("%s: %v, asked %v", field, err, a.asked)
			continue
		}
		bad, ok := s.Details()[0].(*errdetails.BadRequest)
		if !ok || bad.GetFieldViolations()[0].GetField() != field || bad.GetFieldViolations()[0].GetDescription() == "" {
			t.Errorf("%s: %v", field, s.Details())
		}
	}
	many := request("web", strings.Split(strings.Repeat("org=acme;", 64)+"org=acme", ";")...)
	if _, err := rls.New(&fakeAgent{rules: rules(t)}).ShouldRateLimit(t.Context(), many); status.Code(err) != codes.InvalidArgument {
		t.Errorf("65 descriptors: %v", err)
	}
	// A limit that the rule does not accept is not looked at.
	req := limited(5, typepb.RateLimitUnit_UNKNOWN, 1)
	req.Descriptors[0], req.Descriptors[1] = req.Descriptors[1], req.Descriptors[0]
	req.Descriptors[0].Entries = req.Descriptors[0].Entries[:1]
	if _, err := rls.New(&fakeAgent{rules: rules(t), say: agent.Decision{Allowed: true}}).ShouldRateLimit(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestWithoutAPolicyNothingPasses(t *testing.T) {
	t.Parallel()
	r, err := rls.New(&fakeAgent{}).ShouldRateLimit(t.Context(), request("web", "org=acme", "free"))
	if err != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT || len(r.GetStatuses()) != 2 {
		t.Fatal(r, err)
	}
	if got := r.GetDynamicMetadata().GetFields()["reason"].GetStringValue(); got != "unavailable" {
		t.Errorf("the reason is %q", got)
	}
}

// Whatever keeps the agent from an answer, the proxy gets one: an error could let pass.
func TestWhatTheAgentCannotAnswerIsOverLimit(t *testing.T) {
	t.Parallel()
	for want, fail := range map[quota.Reason][]error{
		quota.Unavailable: {&agent.UnavailableError{}, agent.ErrStopped, &quota.FieldError{Field: "dimension"}, errors.New("broken")},
		quota.Cold:        {context.DeadlineExceeded},
	} {
		for _, err := range fail {
			a := &fakeAgent{rules: rules(t), fail: err}
			r, got := rls.New(a).ShouldRateLimit(t.Context(), request("web", "org=acme", "shadow=acme"))
			if got != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
				t.Fatalf("%v: %v %v", err, r, got)
			}
			if reason := r.GetDynamicMetadata().GetFields()["reason"].GetStringValue(); reason != string(want) {
				t.Errorf("%v: %q, want %q", err, reason, want)
			}
			// What is only watched passes even so.
			r, got = rls.New(a).ShouldRateLimit(t.Context(), request("web", "shadow=acme"))
			if got != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OK {
				t.Fatalf("%v in shadow: %v %v", err, r, got)
			}
		}
	}
}

func TestTheAnswerComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ caller, want time.Duration }{
		{0, 15 * time.Millisecond}, // no deadline
		{time.Second, 15 * time.Millisecond},
		{20 * time.Millisecond, 15 * time.Millisecond},
		{12 * time.Millisecond, 7 * time.Millisecond},
		{4 * time.Millisecond, time.Millisecond}, // long enough to ask for a lease
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if tc.caller > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.caller)
				defer cancel()
			}
			began := time.Now()
			r, err := rls.New(&fakeAgent{rules: rules(t), wait: true}).ShouldRateLimit(ctx, request("web", "org=acme", "shadow=acme", "org=globex"))
			if got := time.Since(began); got != tc.want || err != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
				t.Errorf("a caller with %v: after %v, %v %v", tc.caller, got, r, err)
			}
		})
	}
}

// Limits in shadow wait side by side, and beside an enforced one that took all the time.
func TestShadowDoesNotAddItsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAgent{rules: rules(t), wait: true}
		began := time.Now()
		r, err := rls.New(a).ShouldRateLimit(t.Context(), request("web", "shadow=a", "shadow=b", "shadow=c"))
		if got := time.Since(began); got != 15*time.Millisecond || err != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OK || len(a.asked) != 3 {
			t.Errorf("after %v: %v %v, asked %v", got, r, err, a.asked)
		}
	})
}

func TestACallerWhoHungUpGetsNoAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := rls.New(&fakeAgent{rules: rules(t), wait: true}).ShouldRateLimit(ctx, request("web", "org=acme"))
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestNegativeHitsMoveNothing(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{rules: rules(t)}
	req := request("web", "org=acme")
	req.Descriptors[0].HitsAddend, req.Descriptors[0].IsNegativeHits = wrapperspb.UInt64(3), true
	r, err := rls.New(a).ShouldRateLimit(t.Context(), req)
	if err != nil || len(a.asked) > 0 || r.GetOverallCode() != rlspb.RateLimitResponse_OK || r.GetStatuses()[0].GetLimitRemaining() != 3 {
		t.Errorf("%v %v, asked %v", r, err, a.asked)
	}
}

// What a request is told names no tenant: it may end in logs, and with the client.
func TestAnswersNameNoTenant(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{rules: rules(t), say: agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(5), PolicyVersion: 1, RetryIn: time.Second}}
	r, err := rls.New(a).ShouldRateLimit(t.Context(), request("web", "org=secret-org,user=bob", "shadow=secret-org"))
	if err != nil || r.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Fatal(r, err)
	}
	if text := r.String(); strings.Contains(text, "secret-org") {
		t.Error(text)
	}
	if l := r.GetStatuses()[0].GetCurrentLimit(); l.GetUnit() != rlspb.RateLimitResponse_RateLimit_WEEK || l.GetName() != "exports" {
		t.Errorf("%v", l)
	}
}

func FuzzShouldRateLimit(f *testing.F) {
	for _, req := range []*rlspb.RateLimitRequest{
		request("web", "org=acme", "shadow=acme", "free"), request("web", "org=acme,user=bob"), request("", "="), {},
		request("web", "address=203.0.113.7", "address=2001:db8::/32", "address=fe80::1%eth0", "org=acme"),
	} {
		text, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, true)
	}
	descriptors := rules(f)
	f.Fuzz(func(t *testing.T, text []byte, allowed bool) {
		var req rlspb.RateLimitRequest
		if proto.Unmarshal(text, &req) != nil {
			return
		}
		a := &fakeAgent{rules: descriptors, say: agent.Decision{Allowed: allowed, Limit: quota.LimitOf(5), PolicyVersion: 1}}
		r, err := rls.New(a).ShouldRateLimit(t.Context(), &req)
		for _, k := range a.asked {
			if k.Key.Validate() != nil || k.Cost < 0 || k.Cost > agent.MaxCost || err != nil {
				t.Fatalf("asked for %v, with error %v", k, err)
			}
		}
		if a.bad != nil {
			t.Fatal(a.bad)
		}
		if err != nil {
			if status.Code(err) != codes.InvalidArgument || r != nil || len(status.Convert(err).Details()) != 1 {
				t.Fatal(r, err)
			}
			return
		}
		if len(r.GetStatuses()) != len(req.GetDescriptors()) {
			t.Fatalf("%d statuses for %d descriptors", len(r.GetStatuses()), len(req.GetDescriptors()))
		}
		over := false
		for _, s := range r.GetStatuses() {
			over = over || s.GetCode() == rlspb.RateLimitResponse_OVER_LIMIT
			if s.GetCode() == rlspb.RateLimitResponse_UNKNOWN || s.GetDurationUntilReset().AsDuration() < 0 {
				t.Fatal(r)
			}
		}
		if over != (r.GetOverallCode() == rlspb.RateLimitResponse_OVER_LIMIT) || r.GetOverallCode() == rlspb.RateLimitResponse_UNKNOWN {
			t.Fatal(r)
		}
		if _, err := proto.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
