package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/identity"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const apiKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

func keyed(t *testing.T) *identity.Verifier {
	t.Helper()
	hash := sha256.Sum256([]byte(apiKey))
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(hash[:])+" acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := identity.New(identity.Config{KeysFile: path, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// verifying starts a server that verifies its callers, on a port of this machine.
func verifying(t *testing.T, taker *fakeTaker) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := NewServer(taker, Verified(keyed(t))).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		wg.Wait()
	})
	return conn
}

func TestVerifiedCallersTakeForThemselves(t *testing.T) {
	t.Parallel()
	f := &fakeTaker{decision: agent.Decision{Allowed: true}, reservedBy: map[string]string{"r-1": "acme", "r-2": "other"}}
	client := pb.NewDecisionServiceClient(verifying(t, f))
	known := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", apiKey)
	for _, tenant := range []string{"acme", ""} {
		if _, err := client.Take(known, &pb.TakeRequest{Tenant: tenant, Dimension: "calls"}); err != nil {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	if want := []asked{{"acme", "calls", 1}, {"acme", "calls", 1}}; !slices.Equal(f.calls(), want) {
		t.Errorf("asked %v, want %v", f.calls(), want)
	}
	_, err := client.Take(known, &pb.TakeRequest{Tenant: "other", Dimension: "calls"})
	if bad, n := detail[*errdetails.BadRequest](err); status.Code(err) != codes.PermissionDenied || n != 1 || bad.GetFieldViolations()[0].GetField() != "tenant" {
		t.Errorf("another's quota: %v, want PERMISSION_DENIED about tenant", err)
	}
	for tenant, want := range map[string]codes.Code{"acme": codes.OK, "": codes.OK, "other": codes.PermissionDenied} {
		if _, err := client.Leave(known, &pb.LeaveRequest{Tenant: tenant, Operation: "export", Ticket: "t-1"}); status.Code(err) != want {
			t.Errorf("leave a line of %q's: %v, want %v", tenant, err, want)
		}
	}
	if want := []string{"acme export t-1", "acme export t-1"}; !slices.Equal(f.left, want) {
		t.Errorf("left %q, want %q", f.left, want)
	}
	many, err := client.TakeMany(known, &pb.TakeManyRequest{Takes: []*pb.TakeRequest{
		{Dimension: "calls"}, {Tenant: "other", Dimension: "calls"}, {Tenant: "acme", Dimension: "calls"},
	}})
	if err != nil || len(f.calls()) != 4 || f.calls()[3] != (asked{"acme", "calls", 1}) {
		t.Errorf("many: %v, asked %v", err, f.calls())
	}
	for i, r := range many.GetResults() {
		if f := r.GetFault(); (i == 1) != (codes.Code(f.GetCode()) == codes.PermissionDenied && f.GetField() == "tenant") || (i == 1) == r.GetAnswer().GetAllowed() {
			t.Errorf("many, %d: %v", i, r)
		}
	}
	one := int64(1)
	if _, err := client.Settle(known, &pb.SettleRequest{Id: "r-1", Actual: &one}); err != nil {
		t.Errorf("settle one's own: %v", err)
	}
	if _, err := client.Settle(known, &pb.SettleRequest{Id: "r-2", Actual: &one}); status.Code(err) != codes.NotFound {
		t.Errorf("settle another's: %v, want NOT_FOUND", err)
	}
}

func TestCallersWithoutIdentityAreUnauthenticated(t *testing.T) {
	t.Parallel()
	f := &fakeTaker{decision: agent.Decision{Allowed: true}}
	conn := verifying(t, f)
	client := pb.NewDecisionServiceClient(conn)
	for name, md := range map[string]metadata.MD{
		"nothing":         nil,
		"an unknown key":  metadata.Pairs("x-api-key", strings.ToUpper(apiKey)),
		"a forged header": metadata.Pairs("x-quotalease-tenant", "acme", "x-forwarded-for", "127.0.0.2"),
		"two keys":        metadata.Pairs("x-api-key", apiKey, "x-api-key", apiKey),
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), md)
		_, err := client.Take(ctx, &pb.TakeRequest{Tenant: "acme", Dimension: "calls"})
		if status.Code(err) != codes.Unauthenticated || !strings.HasPrefix(status.Convert(err).Message(), "no verified tenant") {
			t.Errorf("%s: %v, want UNAUTHENTICATED", name, err)
		}
		if _, err := client.Settle(ctx, &pb.SettleRequest{Id: "r-1"}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: settle: %v, want UNAUTHENTICATED", name, err)
		}
	}
	if len(f.calls()) != 0 {
		t.Errorf("asked %v", f.calls())
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}

// What names tenants itself, as a proxy's rate limit service does, is for proxies.
func TestServicesOfProxiesAreForProxies(t *testing.T) {
	t.Parallel()
	v := keyed(t)
	for peer, want := range map[string]codes.Code{"127.0.0.2": codes.OK, "127.0.0.1": codes.Unauthenticated} {
		ctx := grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(peer)}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-api-key", apiKey))
		if _, err := admit(ctx, v, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", nil); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", peer, err, want)
		}
	}
}
