package grpcquota

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/rpc"
)

// Pacing says what a client's calls take. nil: nothing. Tenant and dimension are those by which
// policy knows the limit of the service that is called.
type Pacing func(ctx context.Context, method string, req any) *door.Request

// Pace returns an interceptor that sends each call when its limit allows it: see agent.Wait.
// A call that would wait beyond its deadline is not sent.
func Pace(w door.Waiter, takes Pacing) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := wait(ctx, w, takes(ctx, method, req), method); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
}

// PaceStreams is Pace for streams, each of which takes once, before it begins.
func PaceStreams(w door.Waiter, takes Pacing) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := wait(ctx, w, takes(ctx, method, nil), method); err != nil {
			return nil, err
		}
		return begin(ctx, desc, conn, method, opts...)
	}
}

func wait(ctx context.Context, w door.Waiter, r *door.Request, method string) error {
	if r == nil {
		return nil
	}
	err := door.Wait(ctx, w, r)
	var denied *agent.DeniedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &denied):
		return rpc.DeniedStatus(method, r.Tenant, denied.Decision)
	}
	return rpc.ErrorStatus(r.Key(), err)
}
