package grpcquota_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/grpcquota"
)

func Example() {
	control, err := agenttest.Start(`
dimensions:
- {name: checks, kind: period, limit: 2, period: {every: year}, class: hard, cold: {wait: 1s, then: deny}}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer control.Close()

	q, err := embed.Start(context.Background(), embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	cfg := grpcquota.Config{
		Tenant: func(ctx context.Context) (string, error) { return userOf(ctx) },
		Takes:  func(context.Context, string, any) *door.Request { return &door.Request{Dimension: "checks"} },
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcquota.Unary(q, cfg)), grpc.ChainStreamInterceptor(grpcquota.Stream(q, cfg)))
	defer server.Stop()

	healthpb.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// userOf stands for how a program knows who calls.
func userOf(context.Context) (string, error) { return "alice", nil }
