package grpcquota_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/grpcquota"
	"github.com/quotalease/quotalease/ledger/quota"
)

// fakeAgent gives one answer, and remembers what it was asked.
type fakeAgent struct {
	door.Agent
	decision agent.Decision
	err      error

	mu    sync.Mutex
	asked []string
}

func (f *fakeAgent) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
}

func (f *fakeAgent) Take(_ context.Context, tenant, dimension string, _ int64) (agent.Decision, error) {
	f.note("take " + tenant + "/" + dimension)
	return f.decision, f.err
}

func (f *fakeAgent) Wait(_ context.Context, tenant, dimension string, _ int64) error {
	f.note("wait " + tenant + "/" + dimension)
	return f.err
}

func (f *fakeAgent) WaitAll(_ context.Context, tenant string, takes []core.DimensionCost) error {
	f.note("wait " + tenant + "/" + takes[0].Dimension + " and more")
	return f.err
}

func (f *fakeAgent) WaitOperation(_ context.Context, tenant, operation string, _ int64) error {
	f.note("wait " + tenant + " to " + operation)
	return f.err
}

// serve is a client of a health service behind the interceptors: its Check is a call, its Watch
// a stream.
func serve(t *testing.T, a *fakeAgent, cfg grpcquota.Config, options ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcquota.Unary(a, cfg)), grpc.StreamInterceptor(grpcquota.Stream(a, cfg)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	l := bufconn.Listen(1 << 16)
	over := make(chan error, 1)
	go func() { over <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///app", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

func tenantIs(tenant string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return tenant, err }
}

func takes(r *door.Request) func(context.Context, string, any) *door.Request {
	return func(context.Context, string, any) *door.Request { return r }
}

var calls = &door.Request{Tenant: "their", Dimension: "calls"}

func TestCallsAreAnsweredByTheQuota(t *testing.T) {
	t.Parallel()
	none := int64(0)
	free := &door.Request{Dimension: "calls", Cost: &none}
	denied := agent.Decision{Reason: quota.Exhausted, Dimension: "calls", Limit: quota.LimitOf(5), RetryIn: 700 * time.Millisecond, PolicyVersion: 1}
	away := &agent.UnavailableError{Key: quota.Key{Tenant: "acme", Dimension: "calls"}, RetryIn: 2 * time.Second}
	for name, tc := range map[string]struct {
		agent *fakeAgent
		takes *door.Request
		pass  bool
		code  codes.Code
		asked bool
		retry time.Duration
	}{
		"room":                    {&fakeAgent{decision: agent.Decision{Allowed: true}}, calls, false, codes.OK, true, 0},
		"no room":                 {&fakeAgent{decision: denied}, calls, false, codes.ResourceExhausted, true, 700 * time.Millisecond},
		"never":                   {&fakeAgent{decision: agent.Decision{Reason: quota.TooLarge, Dimension: "calls"}}, calls, false, codes.ResourceExhausted, true, 0},
		"free, though spent":      {&fakeAgent{decision: denied}, free, false, codes.OK, true, 0},
		"an outage":               {&fakeAgent{err: away}, calls, false, codes.Unavailable, true, 2 * time.Second},
		"an outage that may pass": {&fakeAgent{err: away}, calls, true, codes.OK, true, 0},
		"free, in an outage":      {&fakeAgent{err: away}, free, false, codes.OK, true, 0},
		"the agent has stopped":   {&fakeAgent{err: agent.ErrStopped}, calls, false, codes.Unavailable, true, time.Second},
		"takes nothing":           {&fakeAgent{decision: denied}, nil, false, codes.OK, false, 0},
	} {
		client := serve(t, tc.agent, grpcquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(tc.takes), PassInOutage: tc.pass})
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		if status.Code(err) != tc.code || (len(tc.agent.asked) > 0) != tc.asked || tc.asked && tc.agent.asked[0] != "take acme/calls" {
			t.Errorf("%s: %v, asked %v", name, err, tc.agent.asked)
		}
		var retry time.Duration
		var kinds []string
		for _, d := range status.Convert(err).Details() {
			kinds = append(kinds, reflect.TypeOf(d).Elem().Name())
			if info, ok := d.(*errdetails.RetryInfo); ok {
				retry = info.GetRetryDelay().AsDuration()
			}
		}
		if retry != tc.retry {
			t.Errorf("%s: to be retried in %v, want %v", name, retry, tc.retry)
		}
		if tc.code == codes.ResourceExhausted && !(slices.Contains(kinds, "QuotaFailure") && slices.Contains(kinds, "ErrorInfo")) {
			t.Errorf("%s: details %v", name, kinds)
		}
	}
}

func TestNobodyReachesNeitherHandlerNorAgent(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]grpcquota.Config{
		"an identity that is not good": {Tenant: tenantIs("acme", errors.New("expired")), Takes: takes(calls)},
		"no identity":                  {Tenant: tenantIs("", nil), Takes: takes(calls)},
		"no way to tell":               {Takes: takes(calls)},
		"no word of what is taken":     {Tenant: tenantIs("acme", nil)},
	} {
		a := &fakeAgent{decision: agent.Decision{Allowed: true}}
		_, err := serve(t, a, cfg).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if status.Code(err) != codes.Unauthenticated || len(a.asked) > 0 {
			t.Errorf("%s: %v, asked %v", name, err, a.asked)
		}
	}
}

func TestAStreamTakesOnce(t *testing.T) {
	t.Parallel()
	a := &fakeAgent{decision: agent.Decision{Allowed: true}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := serve(t, a, grpcquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(calls)}).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil || len(a.asked) != 1 {
		t.Errorf("%v, asked %v", err, a.asked)
	}
	full := &fakeAgent{decision: agent.Decision{Reason: quota.Exhausted, Dimension: "calls"}}
	stream, err = serve(t, full, grpcquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(calls)}).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a full quota: %v", err)
	}
}

func TestAPacedCallIsSentWhenItMayBe(t *testing.T) {
	t.Parallel()
	late := &agent.DeniedError{Tenant: "their", Decision: agent.Decision{Reason: quota.Exhausted, Dimension: "calls", RetryIn: time.Minute}}
	for name, tc := range map[string]struct {
		takes *door.Request
		err   error
		code  codes.Code
		asked string
	}{
		"at once":       {calls, nil, codes.OK, "wait their/calls"},
		"several":       {&door.Request{Tenant: "their", Takes: []core.DimensionCost{{Dimension: "calls", Cost: 1}}}, nil, codes.OK, "wait their/calls and more"},
		"an operation":  {&door.Request{Tenant: "their", Operation: "send"}, nil, codes.OK, "wait their to send"},
		"nothing":       {nil, nil, codes.OK, ""},
		"too late":      {calls, late, codes.ResourceExhausted, "wait their/calls"},
		"an outage":     {calls, &agent.UnavailableError{}, codes.Unavailable, "wait their/calls"},
		"nobody's":      {&door.Request{Dimension: "calls"}, nil, codes.InvalidArgument, ""},
		"its deadline":  {calls, context.DeadlineExceeded, codes.DeadlineExceeded, "wait their/calls"},
		"a fault of it": {calls, &quota.FieldError{Field: "dimension", Allowed: "one that policy defines"}, codes.InvalidArgument, "wait their/calls"},
	} {
		pacer, free := &fakeAgent{err: tc.err}, grpcquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(nil)}
		client := serve(t, &fakeAgent{}, free, grpc.WithUnaryInterceptor(grpcquota.Pace(pacer, takes(tc.takes))),
			grpc.WithStreamInterceptor(grpcquota.PaceStreams(pacer, takes(tc.takes))))
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		_, streamErr := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if status.Code(err) != tc.code || status.Code(streamErr) != tc.code {
			t.Errorf("%s: %v; a stream: %v", name, err, streamErr)
		}
		if want := tc.asked; want != "" && !slices.Equal(pacer.asked, []string{want, want}) || want == "" && len(pacer.asked) > 0 {
			t.Errorf("%s: asked %v", name, pacer.asked)
		}
	}
}

func TestAFaultOfTheProgramIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := grpcquota.Config{Tenant: tenantIs("acme", nil), Takes: takes(&door.Request{Dimension: "Calls"}), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	_, err := serve(t, &fakeAgent{}, cfg).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "Calls") || !strings.Contains(log.String(), "dimension: ") {
		t.Errorf("%v, log %s", err, log.String())
	}
}
