package grpcquota_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/grpcquota"
	"github.com/quotalease/quotalease/agent/identity"
)

// The tenant is whose API key a call brings. Client certificates, tokens and trusted proxies are
// said in the same identity.Config.
func ExampleVerified() {
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

	keys := keyFile() // of hashes: sha256sum(key) acme
	defer os.Remove(keys)
	verifier, err := identity.New(identity.Config{KeysFile: keys})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { verifier.Run(ctx) }) // keys that are added or taken away
	defer following.Wait()
	defer stop()

	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcquota.Unary(q, grpcquota.Config{
		Tenant: grpcquota.Verified(verifier),
		Takes:  func(context.Context, string, any) *door.Request { return &door.Request{Dimension: "checks"} },
	})))
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
	for _, key := range []string{acmeKey, acmeKey, acmeKey, "another-key-0123456789ab"} {
		call := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", key)
		_, err := healthpb.NewHealthClient(conn).Check(call, &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	_, err = healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err))
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// Unauthenticated
	// Unauthenticated
}

const acmeKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

// keyFile has the SHA-256 of acme's key.
func keyFile() string {
	f, err := os.CreateTemp("", "keys")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(f, "220d2d5a8fafd45b5248eb97c8badd2c46aa74ac0506fd618595140a43b183e6 acme")
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	return f.Name()
}
