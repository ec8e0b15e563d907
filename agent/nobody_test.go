package agent_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/grpcquota"
	"github.com/quotalease/quotalease/agent/httpquota"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/agent/web"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const acmeKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

// askedAgent allows everything, and remembers for whom.
type askedAgent struct {
	door.Agent
	of chan string
}

func (a askedAgent) Take(_ context.Context, tenant, _ string, _ int64) (agent.Decision, error) {
	a.of <- tenant
	return agent.Decision{Allowed: true, Dimension: "calls"}, nil
}

func (askedAgent) Ready() error { return nil }

// keysAndProxies believes acme's API key, certificates by their common name and a proxy of this
// machine, at an address of its own.
func keysAndProxies(t *testing.T) *identity.Verifier {
	t.Helper()
	hash := sha256.Sum256([]byte(acmeKey))
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(hash[:])+" acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := identity.New(identity.Config{KeysFile: path, Certificate: "cn:{tenant}", Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var httpCalls = func(*http.Request) *door.Request { return &door.Request{Dimension: "calls"} }

// Before a program's own handlers a caller is believed, and refused, as at the agent's own door.
func TestWhoIsNobodyIsToldTheSameInAProgram(t *testing.T) {
	t.Parallel()
	v, a := keysAndProxies(t), askedAgent{of: make(chan string, 1)}
	own, err := web.New(a, web.Config{Identity: v})
	if err != nil {
		t.Fatal(err)
	}
	guarded := httpquota.New(a, httpquota.Config{Tenant: httpquota.Verified(v), Takes: httpCalls})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	shown := func(cn string) *tls.ConnectionState {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	unverified := shown("acme")
	unverified.PeerCertificates, unverified.VerifiedChains = unverified.VerifiedChains[0], nil
	for name, tt := range map[string]struct {
		peer    string
		headers map[string]string
		tls     *tls.ConnectionState
		want    string // empty: nobody
	}{
		"nothing":                         {"192.0.2.7:1", nil, nil, ""},
		"a key":                           {"192.0.2.7:1", map[string]string{"X-Api-Key": acmeKey}, nil, "acme"},
		"a key that is unknown":           {"192.0.2.7:1", map[string]string{"X-Api-Key": acmeKey + "x"}, nil, ""},
		"a proxy":                         {"127.0.0.2:1", map[string]string{identity.TenantHeader: "acme"}, nil, "acme"},
		"a forged header":                 {"127.0.0.1:1", map[string]string{identity.TenantHeader: "acme", "X-Forwarded-For": "127.0.0.2"}, nil, ""},
		"a certificate":                   {"192.0.2.7:1", nil, shown("acme"), "acme"},
		"a certificate nobody verified":   {"192.0.2.7:1", nil, unverified, ""},
		"a certificate and another's key": {"192.0.2.7:1", map[string]string{"X-Api-Key": acmeKey}, shown("other"), ""},
	} {
		answers := map[string]*httptest.ResponseRecorder{}
		for path, door := range map[string]http.Handler{"/v1/check?dimension=calls": own, "/search": guarded} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.TLS = tt.peer, tt.tls
			for k, text := range tt.headers {
				r.Header.Set(k, text)
			}
			rec := httptest.NewRecorder()
			door.ServeHTTP(rec, r)
			answers[path] = rec
			got := ""
			select {
			case got = <-a.of:
			default:
			}
			if got != tt.want || (rec.Code == http.StatusUnauthorized) != (tt.want == "") {
				t.Errorf("%s: %s: %d, charged %q, want %q", name, path, rec.Code, got, tt.want)
			}
		}
		theirs, ours := answers["/v1/check?dimension=calls"], answers["/search"]
		same := theirs.Body.String() == ours.Body.String() && theirs.Header().Get("WWW-Authenticate") == ours.Header().Get("WWW-Authenticate")
		if !same || tt.want == "" && (ours.Header().Get("WWW-Authenticate") == "" || ours.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v %s, at the agent's own door %v %s", name, ours.Header(), ours.Body, theirs.Header(), theirs.Body)
		}
	}
}

// dialUp serves on this machine until the test ends.
func dialUp(t *testing.T, serve func(net.Listener) error, stop func()) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestWhoIsNobodyIsToldTheSameInAGRPCProgram(t *testing.T) {
	t.Parallel()
	v, a := keysAndProxies(t), askedAgent{of: make(chan string, 2)}
	cfg := grpcquota.Config{Tenant: grpcquota.Verified(v), Takes: func(context.Context, string, any) *door.Request { return &door.Request{Dimension: "calls"} }}
	program := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcquota.Unary(a, cfg)))
	healthpb.RegisterHealthServer(program, health.NewServer())
	guarded := healthpb.NewHealthClient(dialUp(t, program.Serve, program.Stop))
	ctx, cancel := context.WithCancel(t.Context())
	own := rpc.NewServer(a, rpc.Verified(v))
	direct := pb.NewDecisionServiceClient(dialUp(t, func(l net.Listener) error { return own.Serve(ctx, l) }, cancel))
	for name, md := range map[string]metadata.MD{
		"nothing":               {},
		"a key":                 metadata.Pairs("x-api-key", acmeKey),
		"a key that is unknown": metadata.Pairs("x-api-key", strings.ToUpper(acmeKey)),
		"two keys":              metadata.Pairs("x-api-key", acmeKey, "x-api-key", acmeKey),
		"a forged header":       metadata.Pairs("x-quotalease-tenant", "acme", "x-forwarded-for", "127.0.0.2"),
	} {
		call := metadata.NewOutgoingContext(t.Context(), md)
		_, theirs := direct.Take(call, &pb.TakeRequest{Dimension: "calls"})
		_, ours := guarded.Check(call, &healthpb.HealthCheckRequest{})
		want := codes.Unauthenticated
		if name == "a key" {
			want = codes.OK
		}
		if status.Code(ours) != want || status.Convert(ours).Message() != status.Convert(theirs).Message() {
			t.Errorf("%s: %v, at the agent's own door %v", name, ours, theirs)
		}
		charged := map[string]int{}
		for range len(a.of) {
			charged[<-a.of]++
		}
		if wanted := map[string]int{"acme": 2}; want == codes.OK && !maps.Equal(charged, wanted) || want != codes.OK && len(charged) > 0 {
			t.Errorf("%s: charged %v", name, charged)
		}
	}
}
