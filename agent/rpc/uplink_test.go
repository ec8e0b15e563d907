package rpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// replica is a control plane that answers with its own name.
type replica struct {
	pb.UnimplementedLeaseServiceServer
	name   string
	err    error // what it answers instead
	silent bool  // it does not answer at all
	says   int64 // notices, before its stream ends

	mu     sync.Mutex
	called int
}

func (r *replica) answer(ctx context.Context) error {
	r.mu.Lock()
	r.called++
	r.mu.Unlock()
	if r.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.err
}

func (r *replica) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.called
}

func (r *replica) Sync(ctx context.Context, _ *pb.SyncRequest) (*pb.SyncReply, error) {
	return &pb.SyncReply{Token: []byte(r.name)}, r.answer(ctx)
}

func (r *replica) Spend(ctx context.Context, _ *pb.SpendRequest) (*pb.SpendReply, error) {
	return &pb.SpendReply{LedgerNowUs: 7}, r.answer(ctx)
}

func (r *replica) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchReply]) error {
	for version := range r.says {
		if err := stream.Send(&pb.WatchReply{Notices: []*pb.Notice{{PolicyVersion: version + 1}}}); err != nil {
			return err
		}
	}
	return r.answer(stream.Context())
}

// network holds what is at each address. An address that is not there refuses; one that is
// there as nil swallows everything.
type network map[string]*bufconn.Listener

func (n network) dial(ctx context.Context, address string) (net.Conn, error) {
	l, ok := n[address]
	switch {
	case !ok:
		return nil, errors.New("connection refused")
	case l == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.DialContext(ctx)
}

// up puts a replica at an address, and returns what takes it down.
func (n network) up(t *testing.T, r *replica) (down func()) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	n[r.name] = l
	s := grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterLeaseServiceServer(s, r)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	down = sync.OnceFunc(func() {
		s.Stop()
		wg.Wait()
	})
	t.Cleanup(down)
	return down
}

// uplinkTo prefers the first address.
func uplinkTo(t *testing.T, n network, addresses ...string) *Uplink {
	t.Helper()
	u, err := newUplink(addresses, grpc.WithContextDialer(n.dial))
	if err != nil {
		t.Fatal(err)
	}
	u.first.Store(0)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// mustSync syncs, and tells which replica answered.
func mustSync(t *testing.T, u *Uplink) string {
	t.Helper()
	reply, err := u.Sync(within(t, 5*time.Second), &pb.SyncRequest{})
	if err != nil {
		t.Fatalf("sync: %v", err)
	}
	return string(reply.GetToken())
}

func TestSyncGoesRoundDeadEndpoints(t *testing.T) {
	t.Parallel()
	n := network{}
	one, two := &replica{name: "one"}, &replica{name: "two"}
	downOne := n.up(t, one)
	downTwo := n.up(t, two)
	u := uplinkTo(t, n, "dead", "one", "two")

	if got := mustSync(t, u); got != "one" {
		t.Errorf("answered by %q, want one: dead is dead", got)
	}
	if got := mustSync(t, u); got != "one" || u.first.Load() != 1 {
		t.Errorf("answered by %q, first %d, want one, which is good", got, u.first.Load())
	}
	downOne()
	if got := mustSync(t, u); got != "two" {
		t.Errorf("answered by %q, want two: one is down", got)
	}
	if _, err := u.Spend(within(t, 5*time.Second), &pb.SpendRequest{}); err != nil || two.calls() != 2 {
		t.Errorf("spend: %v, two called %d times, want 2", err, two.calls())
	}
	downTwo()
	_, err := u.Sync(within(t, 5*time.Second), &pb.SyncRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("all down: %v, want UNAVAILABLE", err)
	}
	if one.calls() != 2 {
		t.Errorf("one called %d times, want 2", one.calls())
	}
}

// A replica without its Postgres says UNAVAILABLE: another may be better off.
func TestUnavailableReplicaIsPassedOver(t *testing.T) {
	t.Parallel()
	n := network{}
	ill, well := &replica{name: "ill", err: status.Error(codes.Unavailable, "no ledger")}, &replica{name: "well"}
	n.up(t, ill)
	n.up(t, well)
	u := uplinkTo(t, n, "ill", "well")
	if got := mustSync(t, u); got != "well" || ill.calls() != 1 {
		t.Errorf("answered by %q, ill called %d times", got, ill.calls())
	}
}

func TestTypedRefusalIsFinal(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.Internal, codes.Unimplemented} {
		n := network{}
		strict, other := &replica{name: "strict", err: status.Error(code, "no")}, &replica{name: "other"}
		n.up(t, strict)
		n.up(t, other)
		u := uplinkTo(t, n, "strict", "other")
		_, err := u.Sync(within(t, 5*time.Second), &pb.SyncRequest{})
		if status.Code(err) != code || strict.calls() != 1 || other.calls() != 0 {
			t.Errorf("%v: %v; strict called %d times, other %d", code, err, strict.calls(), other.calls())
		}
		if _, err := u.Spend(within(t, 5*time.Second), &pb.SpendRequest{}); status.Code(err) != code || other.calls() != 0 {
			t.Errorf("spend: %v; other called %d times", err, other.calls())
		}
	}
}

// An endpoint that swallows connections costs a call a second, no more.
func TestBlackHoleCostsASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := network{"hole": nil}
		n.up(t, &replica{name: "well"})
		u := uplinkTo(t, n, "hole", "well")
		began := time.Now()
		if got := mustSync(t, u); got != "well" {
			t.Errorf("answered by %q", got)
		}
		if took := time.Since(began); took != connectFor {
			t.Errorf("took %v, want %v", took, connectFor)
		}
		began = time.Now()
		if mustSync(t, u); time.Since(began) != 0 {
			t.Errorf("the next call took %v, want no time", time.Since(began))
		}
	})
}

func TestSilentEndpointIsLeftForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		n.up(t, &replica{name: "silent", silent: true})
		n.up(t, &replica{name: "well"})
		u := uplinkTo(t, n, "silent", "well")
		began := time.Now()
		_, err := u.Sync(within(t, 2*time.Second), &pb.SyncRequest{})
		if status.Code(err) != codes.DeadlineExceeded || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v, want the deadline", time.Since(began), err)
		}
		if got := mustSync(t, u); got != "well" {
			t.Errorf("the next call was answered by %q", got)
		}
	})
}

func TestCancelledCallEndsAtOnce(t *testing.T) {
	t.Parallel()
	n := network{}
	silent, other := &replica{name: "silent", silent: true}, &replica{name: "other"}
	n.up(t, silent)
	n.up(t, other)
	u := uplinkTo(t, n, "silent", "other")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Sync(ctx, &pb.SyncRequest{}); status.Code(err) != codes.Canceled || other.calls() != 0 {
		t.Errorf("sync: %v; other called %d times", err, other.calls())
	}
}

func TestWatchHearsOneEndpoint(t *testing.T) {
	t.Parallel()
	restart, refusal := status.Error(codes.Unavailable, "restarting"), status.Error(codes.InvalidArgument, "incarnation")
	for _, tc := range []struct {
		name      string
		says      int64
		err       error // how the stream of the first live endpoint ends
		heard     []int64
		code      codes.Code
		secondHas int // calls to the second, which says one notice
	}{
		{"ends well", 2, nil, []int64{1, 2}, codes.OK, 0},
		{"breaks after a notice", 2, restart, []int64{1, 2}, codes.Unavailable, 0},
		{"breaks before", 0, restart, []int64{1}, codes.OK, 1},
		{"refuses", 0, refusal, nil, codes.InvalidArgument, 0},
	} {
		n := network{}
		first, second := &replica{name: "first", err: tc.err, says: tc.says}, &replica{name: "second", says: 1}
		n.up(t, first)
		n.up(t, second)
		u := uplinkTo(t, n, "first", "second")
		var heard []int64
		err := u.Watch(within(t, 5*time.Second), &pb.WatchRequest{}, func(r *pb.WatchReply) {
			heard = append(heard, r.GetNotices()[0].GetPolicyVersion())
		})
		if !slices.Equal(heard, tc.heard) || second.calls() != tc.secondHas || status.Code(err) != tc.code {
			t.Errorf("%s: heard %v, second called %d times, %v; want %v, %d, %v", tc.name, heard, second.calls(), err, tc.heard, tc.secondHas, tc.code)
		}
	}
}

func TestWatchOfNobodyEnds(t *testing.T) {
	t.Parallel()
	u := uplinkTo(t, network{}, "dead", "gone")
	err := u.Watch(within(t, 5*time.Second), &pb.WatchRequest{}, func(*pb.WatchReply) { t.Error("heard a notice") })
	if status.Code(err) != codes.Unavailable {
		t.Errorf("watch: %v, want UNAVAILABLE", err)
	}
}

func TestEndpointsAreLoopback(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"127.0.0.1:7600", "[::1]:7600", "localhost:7600", "127.8.9.1:1"} {
		u, err := NewUplink([]string{good})
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if err := u.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1", ":7600", "0.0.0.0:7600", "10.0.0.1:7600", "control.example:7600", "localhost.example:7600", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:grpc"} {
		_, err := NewUplink([]string{"127.0.0.1:7600", bad})
		var field *quota.FieldError
		if !errors.As(err, &field) || field.Field != "endpoint" {
			t.Errorf("%q: %v, want a refusal of the endpoint", bad, err)
		}
	}
	_, err := NewUplink(nil)
	var field *quota.FieldError
	if !errors.As(err, &field) || field.Field != "endpoints" {
		t.Errorf("no endpoints: %v", err)
	}
}
