package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/controlplane"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Sizes and times of connections.
const (
	maxReceive   = 20 << 20         // a whole policy
	maxSend      = 64 << 20         // a long listing
	maxStreams   = 1024             // of one connection
	pingEvery    = 30 * time.Second // an idle connection, so that a dead peer is found
	pingTimeout  = 10 * time.Second
	minPing      = 5 * time.Second  // an agent may ping this often
	maxAge       = 30 * time.Minute // then an agent connects anew, maybe to another replica
	maxAgeGrace  = 30 * time.Second
	handshakeFor = 10 * time.Second
)

// Server is the gRPC door of a control plane.
type Server struct {
	*grpc.Server
	log    *slog.Logger
	panics prometheus.Counter
}

// NewServer returns a server for both services; the caller gives it a listener. Options such
// as transport credentials are applied last.
func NewServer(c *controlplane.ControlPlane, log *slog.Logger, metrics prometheus.Registerer, options ...grpc.ServerOption) *Server {
	s := &Server{log: log, panics: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quotalease_controlplane_panics_total", Help: "Calls that ended in a panic; none should.",
	})}
	metrics.MustRegister(s.panics)
	s.Server = grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceive), grpc.MaxSendMsgSize(maxSend), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeFor),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout,
			MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAgeGrace}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
	}, options...)...)
	pb.RegisterLeaseServiceServer(s.Server, &leaseService{control: c})
	pb.RegisterAdminServiceServer(s.Server, &adminService{control: c})
	return s
}

// unary gives every error its code and turns a panic into one: the caller learns that the
// call broke, the log says where, and the other calls go on.
func (s *Server) unary(ctx context.Context, m any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (reply any, err error) {
	defer s.caught(info.FullMethod, &err)
	reply, err = next(ctx, m)
	return reply, s.coded(info.FullMethod, err)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.caught(info.FullMethod, &err)
	return s.coded(info.FullMethod, next(srv, stream))
}

func (s *Server) caught(method string, err *error) {
	if broken := recover(); broken != nil {
		s.panics.Inc()
		s.log.Error("call panicked", "method", method, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s broke", method)
	}
}

func (s *Server) coded(method string, err error) error {
	coded := statusOf(err)
	if status.Code(coded) == codes.Internal {
		s.log.Error("call broke", "method", method, "err", err)
	}
	return coded
}

type leaseService struct {
	pb.UnimplementedLeaseServiceServer
	control *controlplane.ControlPlane
}

func (s *leaseService) Sync(ctx context.Context, m *pb.SyncRequest) (*pb.SyncReply, error) {
	return s.control.Sync(ctx, m)
}

func (s *leaseService) Spend(ctx context.Context, m *pb.SpendRequest) (*pb.SpendReply, error) {
	return s.control.Spend(ctx, m)
}

func (s *leaseService) Defer(ctx context.Context, m *pb.DeferRequest) (*pb.DeferReply, error) {
	return s.control.Defer(ctx, m)
}

func (s *leaseService) Watch(m *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchReply]) error {
	return s.control.Watch(stream.Context(), m.GetIncarnation(), stream.Send)
}

type adminService struct {
	pb.UnimplementedAdminServiceServer
	control *controlplane.ControlPlane
}

func (s *adminService) ApplyPolicy(ctx context.Context, m *pb.ApplyPolicyRequest) (*pb.ApplyPolicyReply, error) {
	return s.control.ApplyPolicy(ctx, m)
}

func (s *adminService) GetPolicy(ctx context.Context, m *pb.GetPolicyRequest) (*pb.GetPolicyReply, error) {
	return s.control.GetPolicy(ctx, m)
}

func (s *adminService) ListPolicies(ctx context.Context, m *pb.ListPoliciesRequest) (*pb.ListPoliciesReply, error) {
	return s.control.ListPolicies(ctx, m)
}

func (s *adminService) RollbackPolicy(ctx context.Context, m *pb.RollbackPolicyRequest) (*pb.ApplyPolicyReply, error) {
	return s.control.RollbackPolicy(ctx, m)
}

func (s *adminService) AddOverride(ctx context.Context, m *pb.AddOverrideRequest) (*pb.ApplyPolicyReply, error) {
	return s.control.AddOverride(ctx, m)
}

func (s *adminService) RemoveOverride(ctx context.Context, m *pb.RemoveOverrideRequest) (*pb.ApplyPolicyReply, error) {
	return s.control.RemoveOverride(ctx, m)
}

func (s *adminService) ExplainPolicy(ctx context.Context, m *pb.ExplainPolicyRequest) (*pb.ExplainPolicyReply, error) {
	return s.control.ExplainPolicy(ctx, m)
}

func (s *adminService) ListTenants(ctx context.Context, m *pb.ListTenantsRequest) (*pb.ListTenantsReply, error) {
	return s.control.ListTenants(ctx, m)
}

func (s *adminService) ListUsage(ctx context.Context, m *pb.ListUsageRequest) (*pb.ListUsageReply, error) {
	return s.control.ListUsage(ctx, m)
}

func (s *adminService) ListLeases(ctx context.Context, m *pb.ListLeasesRequest) (*pb.ListLeasesReply, error) {
	return s.control.ListLeases(ctx, m)
}

func (s *adminService) RevokeLeases(ctx context.Context, m *pb.RevokeLeasesRequest) (*pb.RevokeLeasesReply, error) {
	return s.control.RevokeLeases(ctx, m)
}

func (s *adminService) ListAgents(ctx context.Context, m *pb.ListAgentsRequest) (*pb.ListAgentsReply, error) {
	return s.control.ListAgents(ctx, m)
}

func (s *adminService) ListWaiting(ctx context.Context, m *pb.ListWaitingRequest) (*pb.ListWaitingReply, error) {
	return s.control.ListWaiting(ctx, m)
}

func (s *adminService) GetBound(ctx context.Context, m *pb.GetBoundRequest) (*pb.GetBoundReply, error) {
	return s.control.GetBound(ctx, m)
}

func (s *adminService) ListStatements(ctx context.Context, m *pb.ListStatementsRequest) (*pb.ListStatementsReply, error) {
	return s.control.ListStatements(ctx, m)
}

func (s *adminService) AdjustUsage(ctx context.Context, m *pb.AdjustUsageRequest) (*pb.AdjustUsageReply, error) {
	return s.control.AdjustUsage(ctx, m)
}

func (s *adminService) ReleaseHeld(ctx context.Context, m *pb.ReleaseHeldRequest) (*pb.ReleaseHeldReply, error) {
	return s.control.ReleaseHeld(ctx, m)
}
