package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/quotalease/quotalease/agent/door"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Sizes and times of callers' connections.
const (
	maxTake      = 64 << 10 // bytes of one request; 16 takes have some 5,000 at most
	maxStreams   = 1024     // takes at once on one connection
	handshakeFor = 5 * time.Second
	pingIdle     = 30 * time.Second // a silent caller, so that a dead one is found
	pingFor      = 10 * time.Second
	minPing      = 5 * time.Second // a caller may ping this often
	// workers decide one call after the other, on stacks that have grown already: to grow that of a new
	// goroutine for every call is a quarter of what a decision costs. Calls beyond them get one of their
	// own, as all had otherwise.
	workers = 256
	// stopFor is how long a stop waits for calls in flight. A take is over by then; a stream
	// that watches health never is, and is cut.
	stopFor = 2 * time.Second
)

// Server is the gRPC door to an agent's decisions, with the standard health service and
// reflection beside it. Its health is that of the door: an agent that has lost contact still
// decides, as policy says, so callers must not be sent away. Readiness is the HTTP door's.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

// NewServer returns a server that does nothing until Serve. Options are those of a listener that
// others can reach: its TLS, and Verified. Other doors on the same port are registered by the
// functions given.
func NewServer(a door.Agent, options []grpc.ServerOption, others ...func(grpc.ServiceRegistrar)) *Server {
	s := &Server{health: health.NewServer(), grpc: grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxTake), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeFor), grpc.WaitForHandlers(true), grpc.NumStreamWorkers(workers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingIdle, Timeout: pingFor}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}, options...)...)}
	pb.RegisterDecisionServiceServer(s.grpc, &decisions{agent: a})
	for _, register := range others {
		register(s.grpc)
	}
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Serve answers on l until ctx ends, then takes no new calls and waits for those in flight.
// It closes l, and may be called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		s.stop()
	})
	err := s.grpc.Serve(l)
	close(over)
	wg.Wait()
	if err != nil && (ctx.Err() == nil || !errors.Is(err, grpc.ErrServerStopped)) {
		return fmt.Errorf("serve decisions on %s: %w", l.Addr(), err)
	}
	return nil
}

func (s *Server) stop() {
	s.health.Shutdown()
	cut := time.AfterFunc(stopFor, s.grpc.Stop)
	defer cut.Stop()
	s.grpc.GracefulStop()
}
