package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Sizes and times of the connections to the control plane.
const (
	maxReply = 16 << 20 // bytes; the largest Sync has some 2 MB, and a catalogue
	maxSend  = 16 << 20
	// connectFor is how long a call waits for an endpoint that does not answer at all, before
	// it goes on to the next one: half of an agent's usual deadline.
	connectFor  = time.Second
	pingEvery   = 10 * time.Second // a dead connection is noticed even if nothing is sent
	pingTimeout = 3 * time.Second
)

// reconnect is the pace at which a lost endpoint is tried again, with jitter, for ever. It
// stays below the core's own backoff, so that an attempt of the core finds a connection.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// Uplink reaches a control plane at one or more endpoints, which are replicas and alike. It
// is safe for concurrent use.
type Uplink struct {
	peers []peer
	first atomic.Int64 // of peers: the one to ask first
}

var _ agent.Uplink = (*Uplink)(nil)

type peer struct {
	endpoint string
	conn     *grpc.ClientConn
	lease    pb.LeaseServiceClient
}

// NewUplink returns an uplink to endpoints, each host:port. It connects when it is first
// used. As connections are not encrypted, an endpoint must be on this machine.
func NewUplink(endpoints []string) (*Uplink, error) {
	if len(endpoints) == 0 {
		return nil, &quota.FieldError{Field: "endpoints", Allowed: "one or more"}
	}
	for _, endpoint := range endpoints {
		if !loopback(endpoint) {
			return nil, fmt.Errorf("connect to %q: %w", endpoint, &quota.FieldError{
				Field: "endpoint", Allowed: "host:port on this machine (127.0.0.1, [::1] or localhost), as the connection is not encrypted",
			})
		}
	}
	return newUplink(endpoints)
}

func loopback(endpoint string) bool {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && addr.IsLoopback())
}

func newUplink(endpoints []string, options ...grpc.DialOption) (*Uplink, error) {
	u := &Uplink{}
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent("quotalease-agent"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectFor}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply), grpc.MaxCallSendMsgSize(maxSend)),
	}, options...)
	for _, endpoint := range endpoints {
		conn, err := grpc.NewClient("passthrough:///"+endpoint, options...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", endpoint, err), u.Close())
		}
		u.peers = append(u.peers, peer{endpoint: endpoint, conn: conn, lease: pb.NewLeaseServiceClient(conn)})
	}
	u.first.Store(rand.Int64N(int64(len(u.peers)))) // agents spread over the replicas
	return u, nil
}

// Close ends every connection and call.
func (u *Uplink) Close() error {
	var errs []error
	for _, p := range u.peers {
		if err := p.conn.Close(); err != nil {
			errs = append(errs, fmt.Errorf("disconnect from %s: %w", p.endpoint, err))
		}
	}
	return errors.Join(errs...)
}

// Sync implements agent.Uplink.
func (u *Uplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	return call(ctx, u, "sync with", req, pb.LeaseServiceClient.Sync)
}

// Spend implements agent.Uplink.
func (u *Uplink) Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error) {
	return call(ctx, u, "spend at", req, pb.LeaseServiceClient.Spend)
}

// Defer implements agent.Uplink.
func (u *Uplink) Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error) {
	return call(ctx, u, "defer at", req, pb.LeaseServiceClient.Defer)
}

// call asks the endpoints in turn until one answers. A call that broke half way may have been
// carried out; asking again elsewhere is right because every message is idempotent.
func call[Request, Reply any](
	ctx context.Context, u *Uplink, act string, req *Request,
	do func(pb.LeaseServiceClient, context.Context, *Request, ...grpc.CallOption) (*Reply, error),
) (*Reply, error) {
	var errs []error
	for _, i := range u.order() {
		reply, err := do(u.peers[i].lease, ctx, req)
		if err == nil {
			u.first.Store(i)
			return reply, nil
		}
		err = fmt.Errorf("%s %s: %w", act, u.peers[i].endpoint, err)
		switch status.Code(err) {
		case codes.Unavailable:
			errs = append(errs, err)
			continue
		case codes.DeadlineExceeded:
			// Connected, but silent. No time is left for the others: the next call begins there.
			u.first.Store((i + 1) % int64(len(u.peers)))
		}
		return nil, err
	}
	return nil, errors.Join(errs...)
}

// order is that in which endpoints are asked.
func (u *Uplink) order() []int64 {
	n := int64(len(u.peers))
	first, all := u.first.Load(), make([]int64, n)
	for i := range n {
		all[i] = (first + i) % n
	}
	return all
}

// Watch implements agent.Uplink. It hears one endpoint, and goes on to the next while none
// has said anything.
func (u *Uplink) Watch(ctx context.Context, req *pb.WatchRequest, notice func(*pb.WatchReply)) error {
	var errs []error
	for _, i := range u.order() {
		heard, err := u.peers[i].watch(ctx, req, notice)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("watch %s: %w", u.peers[i].endpoint, err))
		if heard || status.Code(err) != codes.Unavailable {
			break
		}
	}
	return errors.Join(errs...)
}

func (p peer) watch(ctx context.Context, req *pb.WatchRequest, notice func(*pb.WatchReply)) (heard bool, err error) {
	stream, err := p.lease.Watch(ctx, req)
	if err != nil {
		return false, err
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return heard, nil
		} else if err != nil {
			return heard, err
		}
		heard = true
		notice(reply)
	}
}
