package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/grpcquota"
	"github.com/quotalease/quotalease/agent/httpquota"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type rlsAgent = rls.Agent

// oneAnswer is an agent that says the same to everybody.
type oneAnswer struct {
	door.Agent
	rlsAgent
	d   agent.Decision
	err error
}

func (a oneAnswer) Take(context.Context, string, string, int64) (agent.Decision, error) {
	return a.d, a.err
}
func (a oneAnswer) Wait(context.Context, string, string, int64) error {
	if a.err != nil {
		return a.err
	}
	return &agent.DeniedError{Tenant: "acme", Decision: a.d}
}
func (oneAnswer) WaitAll(context.Context, string, []core.DimensionCost) error { return nil }
func (oneAnswer) WaitOperation(context.Context, string, string, int64) error  { return nil }
func (oneAnswer) Descriptors() *core.Descriptors {
	c := core.New(core.Config{Name: "a", Random: strings.NewReader(strings.Repeat("0123456789abcdef", 64))})
	c.Restore(0, &pb.Catalogue{PolicyVersion: 1,
		Dimensions:  []*pb.Dimension{{Name: "calls", Kind: "period", Class: "hard", Limit: 3, Period: &pb.Period{Every: "week"}}},
		Descriptors: []*pb.Descriptor{{Domain: "app", Match: []*pb.DescriptorEntry{{Key: "org"}}, Tenant: []int32{0}, Dimension: "calls"}}})
	return c.Descriptors()
}
func (oneAnswer) Known(agent.KeyTake) (agent.Decision, bool) { return agent.Decision{}, false }
func (oneAnswer) Ready() error                               { return nil }

// overHTTP is the reason in an answer's body.
func overHTTP(t *testing.T, h http.Handler, r *http.Request) string {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	_, rest, _ := strings.Cut(rec.Body.String(), `"reason":"`)
	reason, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Errorf("%s: status %d, %s", r.URL, rec.Code, rec.Body)
	}
	return fmt.Sprintf("%d %s", rec.Code, reason)
}

// overGRPC is the reason in a status, written as over HTTP.
func overGRPC(t *testing.T, err error) string {
	codes := map[string]int{"ResourceExhausted": 429, "Unavailable": 503}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return fmt.Sprintf("%d %s", codes[status.Code(err).String()], strings.ToLower(info.GetReason()))
		}
	}
	t.Errorf("no reason in %v", err)
	return ""
}

// The reason is the same through every door, and so is its being a denial or an outage.
func TestADenialHasOneReasonAtEveryDoor(t *testing.T) {
	t.Parallel()
	acme := func(context.Context) (string, error) { return "acme", nil }
	calls := func(context.Context, string, any) *door.Request {
		return &door.Request{Tenant: "acme", Dimension: "calls"}
	}
	for _, reason := range []quota.Reason{quota.Exhausted, quota.LeasedOut, quota.TooLarge, quota.Cold, quota.UnknownTenant, quota.Unavailable} {
		a, want := oneAnswer{d: agent.Decision{Reason: reason, Dimension: "calls", Limit: quota.LimitOf(3), PolicyVersion: 1}}, "429 "+string(reason)
		if reason == quota.Unavailable {
			a.err, want = &agent.UnavailableError{RetryIn: time.Second}, "503 unavailable"
		}
		proxies, err := identity.New(identity.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		if err != nil {
			t.Fatal(err)
		}
		doors, err := web.New(a, web.Config{Identity: proxies})
		if err != nil {
			t.Fatal(err)
		}
		check := httptest.NewRequest(http.MethodGet, "/v1/check?dimension=calls", nil)
		check.RemoteAddr = "127.0.0.1:1"
		check.Header.Set(web.TenantHeader, "acme")
		guarded := httpquota.New(a, httpquota.Config{
			Tenant: func(*http.Request) (string, error) { return "acme", nil },
			Takes:  func(*http.Request) *door.Request { return &door.Request{Dimension: "calls"} },
		})(http.NotFoundHandler())
		_, unary := grpcquota.Unary(a, grpcquota.Config{Tenant: acme, Takes: calls})(t.Context(), nil,
			&grpc.UnaryServerInfo{FullMethod: "/app.Mail/Send"}, func(context.Context, any) (any, error) { return nil, errors.New("it passed") })
		stream := grpcquota.Stream(a, grpcquota.Config{Tenant: acme, Takes: calls})(nil, quietStream{ctx: t.Context()},
			&grpc.StreamServerInfo{FullMethod: "/app.Mail/Follow"}, func(any, grpc.ServerStream) error { return errors.New("it passed") })
		paced := grpcquota.Pace(a, calls)(t.Context(), "/app.Mail/Send", nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				return errors.New("it was sent")
			})
		conn, closeDoor := dial(t, a)
		_, direct := pb.NewDecisionServiceClient(conn).Take(t.Context(), &pb.TakeRequest{Tenant: "acme", Dimension: "calls"})
		closeDoor()
		limited, err := rls.New(a).ShouldRateLimit(t.Context(), asked("app", "org=acme"))
		if err != nil || limited.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT || headerOf(limited, "x-quota-reason") != string(reason) {
			t.Errorf("Envoy's rate limit service: %v %v, want over the limit: %s", limited, err, reason) // an outage too: an error may let pass
		}
		for door, got := range map[string]string{
			"/v1/take":  overHTTP(t, doors, httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(`{"tenant":"acme","dimension":"calls"}`))),
			"/v1/check": overHTTP(t, doors, check), "httpquota": overHTTP(t, guarded, httptest.NewRequest(http.MethodGet, "/", nil)),
			"Take": overGRPC(t, direct), "grpcquota": overGRPC(t, unary), "grpcquota streams": overGRPC(t, stream), "grpcquota pacing": overGRPC(t, paced),
		} {
			if got != want {
				t.Errorf("%s: %s, want %s", door, got, want)
			}
		}
	}
}

type quietStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s quietStream) Context() context.Context { return s.ctx }
