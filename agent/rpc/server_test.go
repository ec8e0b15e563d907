package rpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ door.Agent = (*agent.Agent)(nil)

// fakeTaker gives one answer, and remembers what it was asked.
type fakeTaker struct {
	door.Agent
	decision agent.Decision
	err      error
	hold     func(ctx context.Context) // before it answers

	mu    sync.Mutex
	asked []asked
	ids   []string
	left  []string

	reservedBy map[string]string // tenants by id
}

func (f *fakeTaker) ReservedBy(id string) string { return f.reservedBy[id] }

func (f *fakeTaker) LeaveTurn(_ context.Context, ticket, tenant, operation string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = append(f.left, tenant+" "+operation+" "+ticket)
	return f.err
}

func (f *fakeTaker) Settle(string, int64) error { return nil }

type asked struct {
	tenant, dimension string
	cost              int64
}

func (f *fakeTaker) Take(ctx context.Context, tenant, dimension string, cost int64) (agent.Decision, error) {
	f.mu.Lock()
	f.asked = append(f.asked, asked{tenant, dimension, cost})
	f.mu.Unlock()
	if f.hold != nil {
		f.hold(ctx)
	}
	d := f.decision
	d.Dimension = dimension
	return d, f.err
}

// TakeHeld has nothing in hand.
func (f *fakeTaker) TakeHeld(string, string, int64) (agent.Decision, bool) {
	return agent.Decision{}, false
}

func (f *fakeTaker) TakeOnce(ctx context.Context, id, tenant, dimension string, cost int64) (agent.Decision, error) {
	f.mu.Lock()
	f.ids = append(f.ids, id)
	f.mu.Unlock()
	return f.Take(ctx, tenant, dimension, cost)
}

func (f *fakeTaker) calls() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// served starts a server for one test; stop makes it stop, and returns what Serve did.
func served(t *testing.T, taker door.Agent) (conn *grpc.ClientConn, stop func() error) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { result <- NewServer(taker, nil).Serve(ctx, l) })
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	stop = func() error {
		cancel()
		wg.Wait()
		return <-result
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = conn.Close()
	})
	return conn, stop
}

func takes(conn *grpc.ClientConn, tenant, dimension string, cost *int64) (*pb.TakeReply, error) {
	return pb.NewDecisionServiceClient(conn).Take(context.Background(), &pb.TakeRequest{Tenant: tenant, Dimension: dimension, Cost: cost})
}

// detail returns the one detail of a type, or its zero value, and how many there are.
func detail[T proto.Message](err error) (found T, n int) {
	for _, d := range status.Convert(err).Details() {
		if m, ok := d.(T); ok {
			found = m
			n++
		}
	}
	return found, n
}

func same(t *testing.T, what string, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("%s\n%v, want\n%v", what, got, want)
	}
}

func TestTakeAllows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		decision agent.Decision
		want     *pb.TakeReply
	}{
		{"allowed", agent.Decision{Allowed: true, Limit: quota.LimitOf(50000), Remaining: 49999, Reset: time.Hour + 1, PolicyVersion: 3},
			&pb.TakeReply{Dimension: "calls", Allowed: true, Limit: 50000, Remaining: 49999, ResetMs: 3600001, PolicyVersion: 3}},
		{"unlimited", agent.Decision{Allowed: true, Limit: quota.NoLimit, PolicyVersion: 3}, &pb.TakeReply{Dimension: "calls", Allowed: true, Limit: -1, PolicyVersion: 3}},
		{"open_mode", agent.Decision{Allowed: true, Reason: quota.OpenMode}, &pb.TakeReply{Dimension: "calls", Allowed: true, Reason: "open_mode"}},
		{"shadow", agent.Decision{Allowed: true, Shadow: true, Reason: quota.Exhausted}, &pb.TakeReply{Dimension: "calls", Allowed: true, Shadow: true, Reason: "exhausted"}},
		{"H4", agent.Decision{Allowed: true, Remaining: -5, RetryIn: -1, Reset: -1}, &pb.TakeReply{Dimension: "calls", Allowed: true}},
	} {
		f := &fakeTaker{decision: tc.decision}
		conn, _ := served(t, f)
		got, err := takes(conn, "acme", "calls", nil)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		same(t, tc.name, got, tc.want)
		if c := f.calls(); len(c) != 1 || c[0] != (asked{"acme", "calls", 1}) {
			t.Errorf("%s: asked %v, want a cost of 1", tc.name, c)
		}
	}
}

func TestDenialsCarryTheWholeAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		decision agent.Decision
		reply    *pb.TakeReply
		retry    time.Duration
		info     string
	}{
		{agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(9), RetryIn: 1900 * time.Millisecond, Reset: 1900 * time.Millisecond, PolicyVersion: 3},
			&pb.TakeReply{Dimension: "calls", Reason: "exhausted", Limit: 9, RetryAfterMs: 1900, ResetMs: 1900, PolicyVersion: 3}, 1900 * time.Millisecond, "EXHAUSTED"},
		{agent.Decision{Reason: quota.LeasedOut, Limit: quota.LimitOf(9), Remaining: 4, RetryIn: 250 * time.Millisecond, PolicyVersion: 3},
			&pb.TakeReply{Dimension: "calls", Reason: "leased_out", Limit: 9, Remaining: 4, RetryAfterMs: 250, PolicyVersion: 3}, 250 * time.Millisecond, "LEASED_OUT"},
		{agent.Decision{Reason: quota.TooLarge, Limit: quota.LimitOf(9), Remaining: 9, Largest: 9, Reset: time.Hour, PolicyVersion: 3},
			&pb.TakeReply{Dimension: "calls", Reason: "too_large", Limit: 9, Remaining: 9, Largest: 9, ResetMs: 3600000, PolicyVersion: 3}, 0, "TOO_LARGE"},
		{agent.Decision{Reason: quota.Cold, RetryIn: 1}, &pb.TakeReply{Dimension: "calls", Reason: "cold", RetryAfterMs: 1}, 1, "COLD"},
		{agent.Decision{Reason: quota.UnknownTenant, PolicyVersion: 3}, &pb.TakeReply{Dimension: "calls", Reason: "unknown_tenant", PolicyVersion: 3}, 0, "UNKNOWN_TENANT"},
	} {
		t.Run(string(tc.decision.Reason), func(t *testing.T) {
			t.Parallel()
			conn, _ := served(t, &fakeTaker{decision: tc.decision})
			reply, err := takes(conn, "acme", "calls", new(int64(20)))
			if status.Code(err) != codes.ResourceExhausted || reply != nil {
				t.Fatalf("got %v, %v, want RESOURCE_EXHAUSTED", reply, err)
			}
			if want := "take acme/calls: " + string(tc.decision.Reason); status.Convert(err).Message() != want {
				t.Errorf("message %q, want %q", status.Convert(err).Message(), want)
			}
			answer, _ := detail[*pb.TakeReply](err)
			same(t, "answer", answer, tc.reply)
			info, _ := detail[*errdetails.ErrorInfo](err)
			same(t, "info", info, &errdetails.ErrorInfo{Reason: tc.info, Domain: "quotalease", Metadata: map[string]string{"tenant": "acme", "dimension": "calls"}})
			failure, _ := detail[*errdetails.QuotaFailure](err)
			same(t, "failure", failure, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
				Subject: "tenant:acme", Description: string(tc.decision.Reason), ApiService: "quotalease.v1.DecisionService",
				QuotaMetric: "calls", QuotaId: "calls", QuotaDimensions: map[string]string{"tenant": "acme"}, QuotaValue: tc.reply.GetLimit(),
			}}})
			retry, n := detail[*errdetails.RetryInfo](err)
			if (n == 1) != (tc.retry > 0) {
				t.Fatalf("%d RetryInfo for a moment of %v", n, tc.retry)
			}
			if n == 1 {
				same(t, "retry", retry, &errdetails.RetryInfo{RetryDelay: durationpb.New(tc.retry)})
			}
		})
	}
}

// CASES O4.
func TestO4OutageIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		retry time.Duration
	}{
		"next attempt known": {&agent.UnavailableError{Key: quota.Key{Tenant: "acme", Dimension: "calls"}, RetryIn: 300 * time.Millisecond}, 300 * time.Millisecond},
		"nothing known":      {&agent.UnavailableError{}, time.Second},
		"the agent stopped":  {agent.ErrStopped, time.Second},
	} {
		conn, _ := served(t, &fakeTaker{err: tc.err})
		for _, cost := range []int64{0, 1} {
			_, err := takes(conn, "acme", "calls", &cost)
			if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != tc.err.Error() {
				t.Fatalf("%s: %v, want UNAVAILABLE", name, err)
			}
			info, _ := detail[*errdetails.ErrorInfo](err)
			same(t, name, info, &errdetails.ErrorInfo{Reason: "UNAVAILABLE", Domain: "quotalease", Metadata: map[string]string{"tenant": "acme", "dimension": "calls"}})
			retry, _ := detail[*errdetails.RetryInfo](err)
			same(t, name, retry, &errdetails.RetryInfo{RetryDelay: durationpb.New(tc.retry)})
			if _, n := detail[*errdetails.QuotaFailure](err); n != 0 {
				t.Errorf("%s: an outage says that a quota failed", name)
			}
		}
	}
}

func TestOtherErrorsAreNoDenial(t *testing.T) {
	t.Parallel()
	for want, cause := range map[codes.Code]error{
		codes.Canceled: context.Canceled, codes.DeadlineExceeded: context.DeadlineExceeded, codes.Internal: errors.New("a bug"),
	} {
		conn, _ := served(t, &fakeTaker{err: cause})
		if _, err := takes(conn, "acme", "calls", nil); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", cause, err, want)
		}
	}
}

func TestBadRequestsNeverReachTheAgent(t *testing.T) {
	t.Parallel()
	f := &fakeTaker{decision: agent.Decision{Allowed: true}}
	conn, _ := served(t, f)
	for _, tc := range []struct {
		name, tenant, dimension string
		cost                    int64
		field, allowed          string
	}{
		{"no tenant", "", "calls", 1, "tenant", "1 to 256 bytes of UTF-8 without control characters"},
		{"NUL in the tenant", "a\x00b", "calls", 1, "tenant", "1 to 256 bytes of UTF-8 without control characters"},
		{"10 kB tenant", strings.Repeat("x", 10_000), "calls", 1, "tenant", "1 to 256 bytes of UTF-8 without control characters"},
		{"no dimension", "acme", "", 1, "dimension", "1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"},
		{"negative cost", "acme", "calls", -1, "cost", "a whole number from 0 to 9007199254740991"},
		{"huge cost", "acme", "calls", agent.MaxCost + 1, "cost", "a whole number from 0 to 9007199254740991"},
	} {
		_, err := takes(conn, tc.tenant, tc.dimension, &tc.cost)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", tc.name, err)
		}
		bad, _ := detail[*errdetails.BadRequest](err)
		same(t, tc.name, bad, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: tc.field, Description: tc.allowed}}})
	}
	if _, err := takes(conn, strings.Repeat("x", 65<<10), "calls", nil); err == nil {
		t.Error("a message of 65 KiB was accepted")
	}
	if got := f.calls(); len(got) != 0 {
		t.Errorf("the agent was asked: %v", got)
	}

	// What only the agent knows to be wrong reads alike.
	conn, _ = served(t, &fakeTaker{err: &quota.FieldError{Field: "dimension", Allowed: "one that policy defines: calls"}})
	_, err := takes(conn, "acme", "calls", nil)
	bad, _ := detail[*errdetails.BadRequest](err)
	same(t, "unknown dimension", bad, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
		Field: "dimension", Description: "one that policy defines: calls"}}})
}

// CASES A5.
func TestA5PeekIsAnsweredNotDenied(t *testing.T) {
	t.Parallel()
	f := &fakeTaker{decision: agent.Decision{Reason: quota.Exhausted, Limit: quota.LimitOf(5), RetryIn: time.Minute, Reset: time.Minute}}
	conn, _ := served(t, f)
	got, err := takes(conn, "acme", "calls", new(int64(0)))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "peek", got, &pb.TakeReply{Dimension: "calls", Reason: "exhausted", Limit: 5, RetryAfterMs: 60000, ResetMs: 60000})
	if c := f.calls(); len(c) != 1 || c[0].cost != 0 {
		t.Errorf("asked %v, want a cost of 0", c)
	}
}

func TestAnIDIsHandedOn(t *testing.T) {
	t.Parallel()
	f := &fakeTaker{decision: agent.Decision{Allowed: true}}
	conn, _ := served(t, f)
	for _, id := range []string{"order-1", ""} {
		if _, err := pb.NewDecisionServiceClient(conn).Take(t.Context(), &pb.TakeRequest{Tenant: "acme", Dimension: "calls", Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.ids) != 1 || f.ids[0] != "order-1" || len(f.calls()) != 2 {
		t.Errorf("ids %q of %d takes", f.ids, len(f.calls()))
	}
}
