package agent_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/memory"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// inWorld runs a test against an agent with both doors open, before the real control plane and
// a ledger in memory. Time is the bubble's, and begins in the middle of a day, month and minute.
func inWorld(t *testing.T, text string, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		up := &uplink{}
		up.control, up.store = control(t, text)
		wg.Go(func() {
			if err := up.control.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		cfg := agent.Config{Name: "a", Region: "eu"}
		cfg.SetNow(func() time.Duration { return time.Hour + time.Since(began) })
		a, err := agent.New(cfg, up)
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		over := make(chan error, 1)
		go func() { over <- a.Run(running) }()
		defer func() {
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		}()
		for a.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		handler, err := web.New(a, web.Config{})
		if err != nil {
			t.Fatal(err)
		}
		conn, closeDoor := dial(t, a)
		defer closeDoor()
		test(t, &world{t: t, agent: a, http: handler, grpc: pb.NewDecisionServiceClient(conn), rls: rlspb.NewRateLimitServiceClient(conn), up: up})
	})
}

func control(t *testing.T, text string) (*controlplane.ControlPlane, *memory.Store) {
	t.Helper()
	store, log := memory.New(time.Now), policy.NewMemoryLog(time.Now)
	doc, err := policy.Parse([]policy.File{{Name: "test.yaml", Text: []byte(text)}}, time.Time{})
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
	cfg.Lines, cfg.Now, cfg.Random = store, time.Now, rand.Reader
	c, err := controlplane.New(cfg)
	if err == nil {
		err = c.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, store
}

// dial opens the gRPC door.
func dial(t *testing.T, a interface {
	door.Agent
	rls.Agent
}) (conn *grpc.ClientConn, closeDoor func()) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- rpc.NewServer(a, []grpc.ServerOption{rls.Codec()}, rls.New(a).Register).Serve(ctx, l) }()
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return conn, func() {
		_ = conn.Close()
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

// uplink calls the control plane in this process; each call takes two milliseconds, or as long
// as is said.
type uplink struct {
	control *controlplane.ControlPlane
	store   *memory.Store
	mu      sync.Mutex
	down    bool
	far     time.Duration
	called  int
}

// calls is how many were made.
func (u *uplink) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.called
}

// lie says how far away the control plane is, there and back.
func (u *uplink) lie(far time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.far = far
}

func (u *uplink) cut(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = down
}

func (u *uplink) travel(ctx context.Context) error {
	u.mu.Lock()
	down, far := u.down, max(u.far, 2*time.Millisecond)
	u.called++
	u.mu.Unlock()
	if down {
		return status.Error(codes.Unavailable, "cut off")
	}
	select {
	case <-time.After(far):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *uplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if err := u.travel(ctx); err != nil {
		return nil, err
	}
	return u.control.Sync(ctx, req)
}

func (u *uplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	if err := u.travel(ctx); err != nil {
		return nil, err
	}
	return u.control.Spend(ctx, req)
}

func (u *uplink) Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error) {
	if err := u.travel(ctx); err != nil {
		return nil, err
	}
	return u.control.Defer(ctx, req)
}

func (u *uplink) Watch(ctx context.Context, req *pb.WatchRequest, notice func(*pb.WatchReply)) error {
	return u.control.Watch(ctx, req.GetIncarnation(), func(m *pb.WatchReply) error { notice(m); return nil })
}

// world is one agent, seen through its doors.
type world struct {
	t     *testing.T
	agent *agent.Agent
	http  http.Handler
	grpc  pb.DecisionServiceClient
	rls   rlspb.RateLimitServiceClient
	up    *uplink
}

// told is what a caller is told, however a door writes it.
type told struct {
	Outcome string // allowed, denied, peeked, outage, bad, unknown id
	Field   string // bad, unknown id
	Detail  string `json:"-"`

	Allowed       bool   `json:"allowed"`
	Reason        string `json:"reason"`
	Dimension     string `json:"dimension"`
	Limit         int64  `json:"-"` // -1: unlimited
	Remaining     int64  `json:"-"`
	RetryAfterMs  int64  `json:"retry_after_ms"`
	PolicyVersion int64  `json:"policy_version"`
	Shadow        bool   `json:"shadow"`
	ResetMs       int64  `json:"reset_ms"`
	Largest       int64  `json:"largest"`

	ID        string `json:"id"`
	Estimate  int64  `json:"estimate"`
	Actual    int64  `json:"actual"`
	ExpiresMs int64  `json:"expires_ms"`
	WaitedMs  int64  `json:"waited_ms"`

	Ticket *toldTicket `json:"ticket"`

	header http.Header
}

type toldTicket struct {
	ID           string `json:"id"`
	Place        int64  `json:"place"`
	RetryAfterMs int64  `json:"retry_after_ms"`
	ExpiresMs    int64  `json:"expires_ms"`
}

// post asks over HTTP.
func (w *world) post(what, body string) told {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.http.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/"+what, strings.NewReader(body)))
	v := w.read(what+" "+body, rec.Code, rec.Body.Bytes())
	v.header = rec.Header()
	return v
}

// read is what a body tells.
func (w *world) read(question string, code int, body []byte) told {
	w.t.Helper()
	var v told
	var loose struct {
		Limit, Remaining any
		Detail           string
	}
	if err := json.Unmarshal(body, &v); err != nil {
		w.t.Fatalf("%s: %s: %v", question, body, err)
	}
	if err := json.Unmarshal(body, &loose); err != nil {
		w.t.Fatal(err)
	}
	switch n, isNumber := loose.Limit.(float64); {
	case isNumber:
		left, _ := loose.Remaining.(float64)
		v.Limit, v.Remaining = int64(n), int64(left)
	case loose.Limit == "unlimited":
		v.Limit = -1
	}
	v.Detail = ""
	if v.Field != "" { // the details of other problems repeat what their members say
		v.Detail = strings.TrimPrefix(loose.Detail, v.Field+": ")
	}
	switch code {
	case 200:
		v.Outcome = "allowed"
		if v.Reason != "" && !v.Allowed {
			v.Outcome = "peeked"
		}
	case 400:
		v.Outcome = "bad"
	case 404:
		v.Outcome = "unknown id"
	case 429:
		v.Outcome = "denied"
	case 503:
		v.Outcome, v.Reason = "outage", ""
	default:
		w.t.Fatalf("%s: status %d", question, code)
	}
	return v
}

// call asks the same over gRPC.
func (w *world) call(what, body string) told {
	w.t.Helper()
	ctx := w.t.Context()
	read := func(m proto.Message) {
		if err := protojson.Unmarshal([]byte(body), m); err != nil {
			w.t.Fatalf("%s %s: %v", what, body, err)
		}
	}
	var v told
	var err error
	switch what {
	case "take":
		var req pb.TakeRequest
		read(&req)
		var reply *pb.TakeReply
		reply, err = w.grpc.Take(ctx, &req)
		v.answer(reply)
	case "reserve":
		var req pb.ReserveRequest
		read(&req)
		var reply *pb.ReserveReply
		reply, err = w.grpc.Reserve(ctx, &req)
		v.answer(reply.GetAnswer())
		v.ID, v.Estimate = reply.GetId(), reply.GetEstimate()
	case "settle":
		var req pb.SettleRequest
		read(&req)
		var reply *pb.SettleReply
		reply, err = w.grpc.Settle(ctx, &req)
		v.ID, v.Actual = reply.GetId(), reply.GetActual()
	case "acquire":
		var req pb.AcquireRequest
		read(&req)
		var reply *pb.AcquireReply
		reply, err = w.grpc.Acquire(ctx, &req)
		v.answer(reply.GetAnswer())
		v.ID, v.ExpiresMs, v.WaitedMs = reply.GetId(), reply.GetExpiresMs(), reply.GetWaitedMs()
	case "renew":
		var req pb.RenewRequest
		read(&req)
		var reply *pb.RenewReply
		reply, err = w.grpc.Renew(ctx, &req)
		v.ID, v.ExpiresMs = reply.GetId(), reply.GetExpiresMs()
	case "release":
		var req pb.ReleaseRequest
		read(&req)
		var reply *pb.ReleaseReply
		reply, err = w.grpc.Release(ctx, &req)
		v.ID = reply.GetId()
	case "leave":
		var req pb.LeaveRequest
		read(&req)
		var reply *pb.LeaveReply
		reply, err = w.grpc.Leave(ctx, &req)
		v.ID = reply.GetId()
	}
	v.judge(w.t, err)
	return v
}

func (v *told) answer(a *pb.TakeReply) {
	v.Allowed, v.Reason, v.Dimension = a.GetAllowed(), a.GetReason(), a.GetDimension()
	v.Limit, v.Remaining, v.RetryAfterMs, v.PolicyVersion = a.GetLimit(), a.GetRemaining(), a.GetRetryAfterMs(), a.GetPolicyVersion()
	v.Shadow, v.ResetMs, v.Largest = a.GetShadow(), a.GetResetMs(), a.GetLargest()
	if t := a.GetTicket(); t != nil {
		v.Ticket = &toldTicket{t.GetId(), t.GetPlace(), t.GetRetryAfterMs(), t.GetExpiresMs()}
	}
}

var outcomes = map[codes.Code]string{
	codes.InvalidArgument: "bad", codes.NotFound: "unknown id", codes.ResourceExhausted: "denied", codes.Unavailable: "outage",
}

func (v *told) judge(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		v.Outcome = "allowed"
		if v.Reason != "" && !v.Allowed {
			v.Outcome = "peeked"
		}
		return
	}
	v.Outcome = outcomes[status.Code(err)]
	if v.Outcome == "" {
		t.Fatal(err)
	}
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *pb.TakeReply:
			v.answer(d)
		case *errdetails.BadRequest:
			v.Field, v.Detail = d.GetFieldViolations()[0].GetField(), d.GetFieldViolations()[0].GetDescription()
		case *errdetails.RetryInfo:
			v.RetryAfterMs = agent.RoundUp(d.GetRetryDelay().AsDuration(), time.Millisecond)
		}
	}
}
