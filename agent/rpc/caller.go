package rpc

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Verified makes a server ask who its callers are. A decision is for the caller's own tenant,
// which the request may name or leave out. What names other tenants, as a proxy's service does,
// is for the proxies on the agent's list; health and reflection are for everybody.
func Verified(v *identity.Verifier) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			ctx, err := admit(ctx, v, info.FullMethod, req)
			if err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if _, err := admit(stream.Context(), v, info.FullMethod, nil); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
}

type callerKey struct{}

func admit(ctx context.Context, v *identity.Verifier, method string, req any) (context.Context, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	from := Evidence(ctx)
	switch {
	case service == healthpb.Health_ServiceDesc.ServiceName, strings.HasPrefix(service, "grpc.reflection."):
		return ctx, nil
	case service != pb.DecisionService_ServiceDesc.ServiceName:
		if v.FromProxy(from) != nil {
			return nil, status.Error(codes.Unauthenticated, service+" is for trusted proxies")
		}
		return ctx, nil
	}
	caller, err := v.Tenant(from)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	if err := own(caller, req); err != nil {
		return nil, ErrorStatus(quota.Key{}, err)
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// own holds the tenant of a request to the caller, and fills it in where it was left out.
func own(caller string, req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName("tenant")
	if field == nil { // as of a settle, whose id says whose it is, and of many takes, each of which is held to it
		return nil
	}
	tenant, err := identity.Own(caller, m.ProtoReflect().Get(field).String())
	if err == nil {
		m.ProtoReflect().Set(field, protoreflect.ValueOfString(tenant))
	}
	return err
}

// Evidence is what a call brings to say who sent it.
func Evidence(ctx context.Context) identity.Evidence {
	md, _ := metadata.FromIncomingContext(ctx)
	e := identity.Evidence{Values: md.Get, Now: time.Now()}
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return e
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		e.Peer, _ = netip.AddrFromSlice(tcp.IP)
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		e.Certificate = identity.Verified(&info.State)
	}
	return e
}
