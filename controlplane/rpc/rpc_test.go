package rpc

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/memory"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const somePolicy = `
dimensions:
  - {name: small, kind: period, limit: 100, period: {every: day}, class: hard, overshoot: 100%}
`

// inForce puts every new policy version in force in the ledger.
type inForce struct {
	*policy.MemoryLog
	store *memory.Store
}

func (l inForce) Append(ctx context.Context, after int64, r policy.Record) (int64, error) {
	v, err := l.MemoryLog.Append(ctx, after, r)
	if err == nil {
		l.store.SetPolicyVersion(v)
	}
	return v, err
}

type door struct {
	store   *memory.Store
	control *controlplane.ControlPlane
	server  *Server
	conn    *grpc.ClientConn
	http    *httptest.Server
	stop    func() // of the control plane
}

// open runs a control plane behind both doors, in memory.
func open(t *testing.T) *door {
	t.Helper()
	registry := prometheus.NewRegistry()
	d := &door{store: memory.New(time.Now)}
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing = d.store, d.store, d.store, d.store
	cfg.Policies = inForce{policy.NewMemoryLog(time.Now), d.store}
	cfg.Metrics = registry
	var err error
	if d.control, err = controlplane.New(cfg); err != nil {
		t.Fatal(err)
	}
	d.server = NewServer(d.control, cfg.Log, registry)
	listener := bufconn.Listen(1 << 20)
	d.conn, err = grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := d.control.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	wait.Go(func() {
		if err := d.server.Serve(listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	d.http = httptest.NewServer(Handler(d.control, registry))
	d.stop = cancel
	t.Cleanup(func() {
		d.http.Close()
		d.conn.Close()
		d.server.Stop()
		cancel()
		wait.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return d
}

func (d *door) apply(t *testing.T, text string) error {
	t.Helper()
	_, err := pb.NewAdminServiceClient(d.conn).ApplyPolicy(t.Context(), &pb.ApplyPolicyRequest{
		Files: []*pb.PolicyFile{{Name: "q.yaml", Text: text}}, Who: "kim", Why: "first"})
	return err
}

func (d *door) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(d.http.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func newUUID(t *testing.T) []byte {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.Bytes()
}

func fields(err error) (names []string) {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.FieldViolations {
				names = append(names, v.Field)
			}
		}
	}
	return names
}

func TestALeaseGoesOverTheWireAndBack(t *testing.T) {
	t.Parallel()
	d := open(t)
	if err := d.apply(t, somePolicy); err != nil {
		t.Fatal(err)
	}
	leases := pb.NewLeaseServiceClient(d.conn)
	hello := &pb.Hello{Incarnation: newUUID(t), Name: "a", Region: "r"}
	key := &pb.Key{Tenant: "acme", Dimension: "small"}
	reply, err := leases.Sync(t.Context(), &pb.SyncRequest{Hello: hello, Asks: []*pb.Ask{{GrantId: newUUID(t), Key: key, Want: 60, Need: 1}}})
	if err != nil || reply.Decisions[0].Amount != 60 || reply.Catalogue.GetPolicyVersion() != 1 || len(reply.Catalogue.Dimensions) != 1 {
		t.Fatalf("sync: %v, %v", reply, err)
	}
	dim := reply.Catalogue.Dimensions[0]
	if dim.Name != "small" || dim.Class != "hard" || dim.TtlUs != 30_000_000 || dim.LowWatermarkPpm != 200_000 || dim.Outage.Mode != "closed" || dim.Cold.Then != "deny" || dim.Limit != 100 {
		t.Errorf("catalogue: %v", dim)
	}
	spent, err := leases.Spend(t.Context(), &pb.SpendRequest{Hello: hello, Items: []*pb.SpendItem{{SpendId: newUUID(t), Key: key, Cost: 40}}})
	if err != nil || spent.Decisions[0].Amount != 40 {
		t.Errorf("spend: %v, %v", spent, err)
	}
	admin := pb.NewAdminServiceClient(d.conn)
	usage, err := admin.ListUsage(t.Context(), &pb.ListUsageRequest{})
	if err != nil || usage.Usage[0].Outstanding != 60 || usage.Usage[0].Spent != 40 {
		t.Errorf("usage: %v, %v", usage, err)
	}
	if code, body := d.get(t, "/metrics"); code != http.StatusOK || !strings.Contains(body, `quotalease_controlplane_approved_total{dimension="small"} 2`) {
		t.Errorf("metrics: %d %s", code, body)
	}
}

func TestANoticeReachesAWatcher(t *testing.T) {
	t.Parallel()
	d := open(t)
	if err := d.apply(t, somePolicy); err != nil {
		t.Fatal(err)
	}
	stream, err := pb.NewLeaseServiceClient(d.conn).Watch(t.Context(), &pb.WatchRequest{Incarnation: newUUID(t)})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.Notices[0].PolicyVersion != 1 {
		t.Fatalf("first notice: %v, %v", first, err)
	}
	if err := d.apply(t, strings.Replace(somePolicy, "100", "200", 1)); err != nil {
		t.Fatal(err)
	}
	if next, err := stream.Recv(); err != nil || next.Notices[0].PolicyVersion != 2 {
		t.Errorf("next notice: %v, %v", next, err)
	}
	d.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the replica stops: %v, want UNAVAILABLE", err)
	}
}

func TestBadInputNamesItsFields(t *testing.T) {
	t.Parallel()
	d := open(t)
	_, err := pb.NewLeaseServiceClient(d.conn).Sync(t.Context(), &pb.SyncRequest{})
	if status.Code(err) != codes.InvalidArgument || strings.Join(fields(err), " ") != "hello.incarnation" {
		t.Errorf("an empty sync: %v, fields %v", err, fields(err))
	}
	err = d.apply(t, "dimensions:\n  - {name: UPPER, kind: period}\n")
	got := strings.Join(fields(err), "\n")
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(got, "q.yaml:2") || !strings.Contains(got, "name") {
		t.Errorf("a bad policy: %v, fields %q", err, got)
	}
	stream, err := pb.NewLeaseServiceClient(d.conn).Watch(t.Context(), &pb.WatchRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument || strings.Join(fields(err), " ") != "incarnation" {
		t.Errorf("an empty watch: %v", err)
	}
}

func TestO4OutageIsUnavailable(t *testing.T) {
	t.Parallel()
	d := open(t)
	if err := d.apply(t, somePolicy); err != nil {
		t.Fatal(err)
	}
	d.store.OnCommit(func() memory.Outcome { return memory.Broken })
	_, err := pb.NewLeaseServiceClient(d.conn).Sync(t.Context(), &pb.SyncRequest{Hello: &pb.Hello{Incarnation: newUUID(t)}})
	if status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), "unavailable") {
		t.Errorf("store down: %v, want UNAVAILABLE", err)
	}
}

func TestCodesFollowFromErrors(t *testing.T) {
	t.Parallel()
	d := open(t)
	admin := pb.NewAdminServiceClient(d.conn)
	if _, err := admin.GetPolicy(t.Context(), &pb.GetPolicyRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("no policy yet: %v", err)
	}
	if _, err := admin.GetBound(t.Context(), &pb.GetBoundRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("a bound without a policy: %v, want an answer and no outage", err)
	}
	for err, want := range map[error]codes.Code{
		policy.ErrConflict:       codes.Aborted,
		policy.ErrNoVersion:      codes.NotFound,
		context.DeadlineExceeded: codes.DeadlineExceeded,
		context.Canceled:         codes.Canceled,
		io.ErrUnexpectedEOF:      codes.Internal,
	} {
		if got := status.Code(statusOf(err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if statusOf(nil) != nil {
		t.Error("no error has a status")
	}
}

func TestReadyzSaysWhy(t *testing.T) {
	t.Parallel()
	d := open(t)
	if code, body := d.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "policy: no policy has been applied") && !strings.Contains(body, "not loaded yet") {
		t.Errorf("without a policy: %d %q", code, body)
	}
	if code, body := d.get(t, "/healthz"); code != http.StatusOK || body != "alive\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if err := d.apply(t, somePolicy); err != nil {
		t.Fatal(err)
	}
	// A Sync that is answered has seen the ledger.
	if _, err := pb.NewLeaseServiceClient(d.conn).Sync(t.Context(), &pb.SyncRequest{Hello: &pb.Hello{Incarnation: newUUID(t)}}); err != nil {
		t.Fatal(err)
	}
	if code, body := d.get(t, "/readyz"); code != http.StatusOK || body != "ready\n" {
		t.Errorf("with all there: %d %q", code, body)
	}
}

func TestOtherPathsAreToldWhichThereAre(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, path := range []string{"/", "/v1/take", "/metrics/x"} {
		code, body := d.get(t, path)
		var p struct{ Status int }
		if err := json.Unmarshal([]byte(body), &p); err != nil || code != http.StatusNotFound || p.Status != code || !strings.Contains(body, "/healthz, /readyz and /metrics") {
			t.Errorf("%s: %d %q, %v", path, code, body, err)
		}
	}
	resp, err := http.Post(d.http.URL+"/readyz", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("POST: %d, %v", resp.StatusCode, resp.Header)
	}
	if code, body := d.get(t, "/metrics"); code != http.StatusOK || !strings.Contains(body, "quotalease_controlplane_") {
		t.Errorf("metrics: %d", code)
	}
}

func TestAPanicIsLoggedCountedAndAnswered(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	registry := prometheus.NewRegistry()
	s := NewServer(nil, slog.New(slog.NewTextHandler(&log, nil)), registry)
	defer s.Stop()
	_, err := s.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, func(context.Context, any) (any, error) { panic("boom") })
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
		t.Errorf("answer: %v, want INTERNAL without the inside", err)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "rpc_test.go") {
		t.Errorf("log: %s", log.String())
	}
	families, err := registry.Gather()
	if err != nil || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("metrics: %v, %v, want one panic", families, err)
	}
}
