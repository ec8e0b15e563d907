//go:build linux

package deploy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/memory"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Both dimensions are closed in an outage. The shipped files ask for the first where the proxy is
// closed too, and for the second where it is open.
const rules = `
dimensions:
- {name: api_calls, kind: period, limit: 3, period: {every: year}, class: hard, lease: {ttl: 10s}, cold: {wait: 900ms, then: deny}, outage: {mode: closed, after: 1s}}
- {name: page_views, kind: period, limit: 4000, period: {every: year}, class: hard, lease: {ttl: 10s}, cold: {wait: 900ms, then: deny}, outage: {mode: closed, after: 1s}}
- {name: cheap, kind: period, limit: 1000, period: {every: year}, class: hard, lease: {ttl: 10s}}
descriptors:
- {domain: app, match: [{key: quota, value: api_calls}, {key: tenant}], dimension: api_calls}
`

// keyOf is a tenant's API key.
func keyOf(tenant string) string { return tenant + "-0123456789abcdefghij" }

// rig is an agent before a control plane in memory, and the application that it protects.
type rig struct {
	agent *agent.Agent
	up    *uplink
	door  *door
	app   string // address
	seen  *seen
}

// seen is what reached the application.
type seen struct {
	mu      sync.Mutex
	headers []http.Header
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.headers)
}

func (s *seen) last() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[len(s.headers)-1]
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.headers = append(s.headers, r.Header.Clone())
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	w.Header().Set("RateLimit", `"of-the-application";r=1`)
	_, _ = io.WriteString(w, received(string(body)))
}

// received is what the application says of a body: that it got all of it.
func received(body string) string {
	return fmt.Sprintf("the application got %d bytes, %x", len(body), sha256.Sum256([]byte(body)))
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{up: &uplink{control: control(t)}, seen: &seen{}}
	during(t, r.up.control.Run)
	var err error
	if r.agent, err = agent.New(agent.Config{Name: "a", Region: "eu", StopTimeout: time.Second}, r.up); err != nil {
		t.Fatal(err)
	}
	during(t, r.agent.Run)
	wait(t, "the agent to be ready", func() bool { return r.agent.Ready() == nil })
	handler, err := web.New(r.agent, web.Config{Identity: believed(t, "acme", "mallory", "victim")})
	if err != nil {
		t.Fatal(err)
	}
	r.door = openDoor(t, handler)
	app := httptest.NewServer(r.seen)
	t.Cleanup(app.Close)
	r.app = app.Listener.Addr().String()
	return r
}

// during runs something for as long as the test runs; what began last ends first.
func during(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// believed are proxies on this machine, and tenants by their API keys.
func believed(t *testing.T, tenants ...string) *identity.Verifier {
	t.Helper()
	var lines string
	for _, tenant := range tenants {
		hash := sha256.Sum256([]byte(keyOf(tenant)))
		lines += hex.EncodeToString(hash[:]) + " " + tenant + "\n"
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := identity.New(identity.Config{KeysFile: path, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// left is what a tenant has left of a dimension.
func (r *rig) left(t *testing.T, tenant, dimension string) int64 {
	t.Helper()
	d, err := r.agent.Take(t.Context(), tenant, dimension, 0)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d.Remaining)
}

func control(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	store, log := memory.New(time.Now), policy.NewMemoryLog(time.Now)
	doc, err := policy.Parse([]policy.File{{Name: "test.yaml", Text: []byte(rules)}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	version, _, err := policy.Apply(t.Context(), log, doc, policy.SourceCLI, "tester", "test")
	if err != nil {
		t.Fatal(err)
	}
	store.SetPolicyVersion(version)
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = store, store, store, store, log
	cfg.Now, cfg.Random = time.Now, rand.Reader
	c, err := controlplane.New(cfg)
	if err == nil {
		err = c.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// uplink calls the control plane in this process, until it is cut.
type uplink struct {
	control *controlplane.ControlPlane
	down    atomic.Bool
}

var errCut = errors.New("cut off")

func (u *uplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if u.down.Load() {
		return nil, errCut
	}
	return u.control.Sync(ctx, req)
}

func (u *uplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if u.down.Load() {
		return nil, errCut
	}
	return u.control.Spend(ctx, req)
}

func (u *uplink) Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error) {
	if u.down.Load() {
		return nil, errCut
	}
	return u.control.Defer(ctx, req)
}

func (u *uplink) Watch(ctx context.Context, req *pb.WatchRequest, notice func(*pb.WatchReply)) error {
	return u.control.Watch(ctx, req.GetIncarnation(), func(m *pb.WatchReply) error { notice(m); return nil })
}

// door is the agent's HTTP door, which can be shut or made to hang.
type door struct {
	addr  string
	serve *http.Server
	hangs atomic.Bool
	freed chan struct{} // closed at the test's end
}

func openDoor(t *testing.T, h http.Handler) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{addr: l.Addr().String(), freed: make(chan struct{})}
	d.serve = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.hangs.Load() {
			<-d.freed
			return
		}
		h.ServeHTTP(w, r)
	}), MaxHeaderBytes: web.MaxHeaderBytes}
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.serve.Serve(l) })
	t.Cleanup(func() {
		close(d.freed)
		_ = d.serve.Close()
		wg.Wait()
	})
	return d
}

// shut closes the door and every connection through it, as the end of the agent's process would.
func (d *door) shut() { _ = d.serve.Close() }

// wait polls a condition for at most half a minute.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited half a minute for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
