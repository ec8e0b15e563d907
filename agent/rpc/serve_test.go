package rpc

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quotalease/quotalease/agent"
)

func TestHealthAndReflection(t *testing.T) {
	t.Parallel()
	conn, _ := served(t, &fakeTaker{})
	for _, service := range []string{"", "quotalease.v1.DecisionService"} {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range reply.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if !strings.Contains(strings.Join(names, " "), "quotalease.v1.DecisionService") {
		t.Errorf("reflection lists %v", names)
	}
}

func TestStopWaitsForTakesInFlight(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f := &fakeTaker{decision: agent.Decision{Allowed: true}, hold: func(context.Context) {
		close(began)
		<-release
	}}
	conn, stop := served(t, f)
	answered, stopped := make(chan error, 1), make(chan error, 1)
	go func() { _, err := takes(conn, "acme", "calls", nil); answered <- err }()
	<-began
	go func() { stopped <- stop() }()
	conn.WaitForStateChange(t.Context(), connectivity.Ready) // the stop is announced to the client
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a take in flight: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("take in flight: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := takes(conn, "acme", "calls", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("take after the stop: %v, want UNAVAILABLE", err)
	}
}

// A stream that watches health never ends by itself, and does not keep an agent from stopping.
func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, stop := served(t, &fakeTaker{})
		stream, err := healthpb.NewHealthClient(conn).Watch(context.Background(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("before the stop: %v, %v", got, err)
		}
		began := time.Now()
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(began); took != stopFor {
			t.Errorf("the stop took %v, want %v", took, stopFor)
		}
		if got, err := stream.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("at the stop: %v, %v", got, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("after the stop: %v, want UNAVAILABLE", err)
		}
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	t.Parallel()
	l := bufconn.Listen(1)
	_ = l.Close()
	if err := NewServer(&fakeTaker{}, nil).Serve(t.Context(), l); err == nil || !strings.HasPrefix(err.Error(), "serve decisions on bufconn: ") {
		t.Errorf("serve on a closed listener: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewServer(&fakeTaker{}, nil).Serve(stopped, bufconn.Listen(1)); err != nil {
		t.Errorf("serve after the end: %v", err)
	}
}
