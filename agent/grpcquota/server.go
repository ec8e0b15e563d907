package grpcquota

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Config says whose calls are whose, and what they take.
type Config struct {
	// Tenant is whose quota a call is charged to, by an identity that the program has verified, or
	// by what the agent's own door believes: see Verified. An error or an empty name is nobody's, and
	// refused, as is everybody without Tenant or Takes.
	Tenant func(ctx context.Context) (string, error)
	// Takes is what a call takes: a dimension, several, or an operation; its Tenant is not looked
	// at. nil: nothing, and nobody is asked whose it is. method is like /package.Service/Method,
	// req nil for a stream, which takes once, when it begins.
	Takes        func(ctx context.Context, method string, req any) *door.Request
	PassInOutage bool         // else an outage refuses, unless policy says otherwise
	Logger       *slog.Logger // of what Takes says and the agent cannot take; none: discards
}

// Verified is a Config's Tenant: the one that a client's certificate, a token, an API key or a
// trusted proxy names, as v believes them.
func Verified(v *identity.Verifier) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return v.Tenant(rpc.Evidence(ctx)) }
}

// Unary returns an interceptor that lets only calls pass whose tenant's quota has room.
func Unary(a door.Agent, cfg Config) grpc.UnaryServerInterceptor {
	s := newServer(a, cfg)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := s.admit(ctx, info.FullMethod, req); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// Stream is Unary for streams.
func Stream(a door.Agent, cfg Config) grpc.StreamServerInterceptor {
	s := newServer(a, cfg)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := s.admit(stream.Context(), info.FullMethod, nil); err != nil {
			return err
		}
		return next(srv, stream)
	}
}

type server struct {
	cfg   Config
	guard door.Guard
}

func newServer(a door.Agent, cfg Config) *server {
	if cfg.Tenant == nil || cfg.Takes == nil {
		cfg.Tenant = func(context.Context) (string, error) { return "", nil }
		cfg.Takes = func(context.Context, string, any) *door.Request { return &door.Request{} }
	}
	return &server{cfg, door.Guard{Agent: a, PassInOutage: cfg.PassInOutage, Logger: cfg.Logger}}
}

func (s *server) admit(ctx context.Context, method string, req any) error {
	r := s.cfg.Takes(ctx, method, req)
	if r == nil {
		return nil
	}
	tenant, err := s.cfg.Tenant(ctx)
	d, err := s.guard.Admit(ctx, tenant, err, r)
	var nobody *identity.RefusedError
	switch {
	case errors.As(err, &nobody):
		return status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		if ours := rpc.ErrorStatus(quota.Key{Tenant: tenant, Dimension: r.Key().Dimension}, err); status.Code(ours) != codes.Internal {
			return ours
		}
		return status.Error(codes.Internal, "no decision was made")
	case !d.Allowed:
		return rpc.DeniedStatus(method, tenant, d)
	}
	return nil
}
