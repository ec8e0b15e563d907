package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/grpcquota"
	"github.com/quotalease/quotalease/agent/httpquota"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const (
	benchLimit  = 1_000_000_000
	benchPolicy = `
dimensions:
- {name: calls, kind: period, limit: 1000000000, period: {every: year}, class: hard, cold: {wait: 1s, then: deny}}
descriptors:
- {domain: bench, match: [{key: org}], dimension: calls}
`
)

// BenchmarkDoors is what a door costs: requests through each, and in turn with them requests to
// an empty handler of the same protocol, one at a time over connections that are open already.
// Clients, servers, agent and control plane share this process, so whatever else it does, and
// the machine, hits both alike. A ratio is the door's percentile by the empty handler's.
func BenchmarkDoors(b *testing.B) {
	a := benchAgent(b)
	for _, d := range []struct {
		name string
		pair func(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error)
	}{
		{"take", takePair}, {"check", checkPair}, {"httpquota", httpquotaPair},
		{"grpc", grpcPair}, {"rls", rlsPair}, {"grpcquota", grpcquotaPair},
	} {
		b.Run(d.name, func(b *testing.B) {
			ask, empty := d.pair(b, a, d.name)
			measure(b, a, d.name, ask, empty)
		})
	}
}

// benchAgent is an agent in this program, before a control plane on a port of its own.
func benchAgent(b *testing.B) *embed.Agent {
	b.Helper()
	control, err := agenttest.Start(benchPolicy)
	if err != nil {
		b.Fatal(err)
	}
	atEnd(b, control.Close)
	a, err := embed.Start(b.Context(), embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		b.Fatal(err)
	}
	atEnd(b, a.Close)
	for a.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return a
}

// measure asks in turn, which of the two first in turn too. What the door did not allow, or let
// pass without counting it, ends the benchmark.
func measure(b *testing.B, a *embed.Agent, tenant string, ask, empty func() error) {
	b.Helper()
	asked := quota.Units(0)
	timed := func(what func() error) time.Duration {
		began := time.Now()
		if err := what(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var doors, empties []time.Duration
	pair := func() {
		if asked++; asked%2 == 0 {
			doors, empties = append(doors, timed(ask)), append(empties, timed(empty))
			return
		}
		empties, doors = append(empties, timed(empty)), append(doors, timed(ask))
	}
	for range 4 { // connections are opened, and the first lease comes
		pair()
	}
	doors, empties = doors[:0], empties[:0]
	for b.Loop() {
		pair()
	}
	d, err := a.Take(b.Context(), tenant, "calls", 0)
	if err != nil || d.Remaining > benchLimit-asked {
		b.Fatalf("%d requests passed, and %d are left, %v", asked, d.Remaining, err)
	}
	slices.Sort(doors)
	slices.Sort(empties)
	for _, percent := range []int{50, 99} {
		at := len(doors) * percent / 100
		b.ReportMetric(float64(doors[at]), fmt.Sprintf("p%d-ns", percent))
		b.ReportMetric(float64(doors[at])/float64(empties[at]), fmt.Sprintf("p%d-ratio", percent))
	}
	b.ReportMetric(0, "ns/op") // of both together: nobody's
}

func takePair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	body := fmt.Sprintf(`{"tenant":%q,"dimension":"calls","cost":1}`, tenant)
	post := func(h http.Handler) func() error { return visits(b, h, http.MethodPost, "/v1/take", body, "") }
	return post(webDoor(b, a)), post(emptyHandler)
}

func checkPair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	get := func(h http.Handler) func() error {
		return visits(b, h, http.MethodGet, "/v1/check?dimension=calls", "", tenant)
	}
	return get(webDoor(b, a)), get(emptyHandler)
}

func httpquotaPair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	limited := httpquota.New(a, httpquota.Config{
		Tenant: func(r *http.Request) (string, error) { return r.Header.Get(web.TenantHeader), nil },
		Takes:  func(*http.Request) *door.Request { return &door.Request{Dimension: "calls"} },
	})
	get := func(h http.Handler) func() error { return visits(b, h, http.MethodGet, "/", "", tenant) }
	return get(limited(emptyHandler)), get(emptyHandler)
}

func grpcPair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	return takes(b, serveGRPC(b, a), tenant), takes(b, serveEmpty(b), tenant)
}

func rlsPair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	should := func(l net.Listener) func() error {
		client, req := rlspb.NewRateLimitServiceClient(overTCP(b, l)), asked("bench", "org="+tenant)
		return func() error {
			r, err := client.ShouldRateLimit(b.Context(), req)
			if err == nil && r.GetOverallCode() != rlspb.RateLimitResponse_OK {
				return fmt.Errorf("not allowed: %v", r)
			}
			return err
		}
	}
	return should(serveGRPC(b, a)), should(serveEmpty(b))
}

func grpcquotaPair(b *testing.B, a *embed.Agent, tenant string) (ask, empty func() error) {
	b.Helper()
	limited := grpcquota.Unary(a, grpcquota.Config{
		Tenant: func(context.Context) (string, error) { return tenant, nil },
		Takes:  func(context.Context, string, any) *door.Request { return &door.Request{Dimension: "calls"} },
	})
	return takes(b, serveEmpty(b, grpc.UnaryInterceptor(limited)), tenant), takes(b, serveEmpty(b), tenant)
}

// webDoor is the agent's HTTP door, which believes a proxy on this machine.
func webDoor(b *testing.B, a *embed.Agent) http.Handler {
	b.Helper()
	local, err := identity.New(identity.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		b.Fatal(err)
	}
	h, err := web.New(a, web.Config{Identity: local})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// serveGRPC opens the agent's gRPC doors. Patience is more than a busy machine tries: a denial
// would be the machine's.
func serveGRPC(b *testing.B, a *embed.Agent) net.Listener {
	b.Helper()
	return serve(b, rpc.NewServer(a, []grpc.ServerOption{rls.Codec()}, rls.NewPatient(a, time.Minute).Register).Serve)
}

var emptyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"allowed":true}`) // a client who has left fails by itself
})

// visits serves a handler, and makes one request after the other on one connection.
func visits(b *testing.B, h http.Handler, method, path, body, tenant string) func() error {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return func() error {
		r, err := http.NewRequestWithContext(b.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set(web.TenantHeader, tenant)
		answer, err := s.Client().Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err == nil && answer.StatusCode != http.StatusOK {
			return fmt.Errorf("not allowed: %s", answer.Status)
		}
		return err
	}
}

// emptyServer answers two services without a thought.
type emptyServer struct {
	pb.UnimplementedDecisionServiceServer
	rlspb.UnimplementedRateLimitServiceServer
}

func (emptyServer) Take(context.Context, *pb.TakeRequest) (*pb.TakeReply, error) {
	return &pb.TakeReply{Allowed: true}, nil
}

func (emptyServer) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	ok := &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_OK}
	return &rlspb.RateLimitResponse{OverallCode: ok.GetCode(), Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{ok}}, nil
}

func serveEmpty(b *testing.B, options ...grpc.ServerOption) net.Listener {
	b.Helper()
	s := grpc.NewServer(options...)
	pb.RegisterDecisionServiceServer(s, emptyServer{})
	rlspb.RegisterRateLimitServiceServer(s, emptyServer{})
	return serve(b, func(ctx context.Context, l net.Listener) error {
		defer context.AfterFunc(ctx, s.Stop)()
		return s.Serve(l)
	})
}

func takes(b *testing.B, l net.Listener, tenant string) func() error {
	b.Helper()
	client, req := pb.NewDecisionServiceClient(overTCP(b, l)), &pb.TakeRequest{Tenant: tenant, Dimension: "calls"}
	return func() error {
		r, err := client.Take(b.Context(), req)
		if err == nil && !r.GetAllowed() {
			return fmt.Errorf("not allowed: %v", r)
		}
		return err
	}
}

func overTCP(b *testing.B, l net.Listener) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	atEnd(b, conn.Close)
	return conn
}

// serve runs a server on a port of its own, and waits for it at the end.
func serve(b *testing.B, with func(context.Context, net.Listener) error) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- with(ctx, l) }()
	atEnd(b, func() error { stop(); return <-over })
	return l
}

func atEnd(b *testing.B, end func() error) {
	b.Cleanup(func() {
		if err := end(); err != nil {
			b.Error(err)
		}
	})
}
