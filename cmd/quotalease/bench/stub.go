package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// stub says yes to whatever it is asked, as plainly as a gRPC server can be written: it is what
// a door costs that does not decide.
type stub struct {
	rlspb.UnimplementedRateLimitServiceServer
	pb.UnimplementedDecisionServiceServer
}

// ShouldRateLimit says OK, once for each descriptor.
func (stub) ShouldRateLimit(_ context.Context, r *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	answer := &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OK}
	for range r.GetDescriptors() {
		answer.Statuses = append(answer.Statuses, &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_OK})
	}
	return answer, nil
}

// Take allows.
func (stub) Take(context.Context, *pb.TakeRequest) (*pb.TakeReply, error) {
	return &pb.TakeReply{Allowed: true}, nil
}

// ServeStub serves the stub until ctx ends, and tells on out where.
func ServeStub(ctx context.Context, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open a door for the stub: %w", err)
	}
	s := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(s, stub{})
	pb.RegisterDecisionServiceServer(s, stub{})
	fmt.Fprintf(out, "%sgrpc=%s\n", stage.Listening, l.Addr())
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(l); !errors.Is(err, grpc.ErrServerStopped) && ctx.Err() == nil {
		return fmt.Errorf("serve the stub: %w", err)
	}
	return nil
}
