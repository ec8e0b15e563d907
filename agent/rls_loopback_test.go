package agent_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/rpc"
)

// overLoopback runs a test against an agent's gRPC port on 127.0.0.1, in real time.
func overLoopback(t *testing.T, text string, test func(w *world)) {
	t.Helper()
	run := func(what func(context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- what(ctx) }()
		return func() {
			cancel()
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
	}
	up := &uplink{}
	up.control, up.store = control(t, text)
	defer run(up.control.Run)()
	a, err := agent.New(agent.Config{Name: "a", Region: "eu"}, up)
	if err != nil {
		t.Fatal(err)
	}
	defer run(a.Run)()
	for a.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer run(func(ctx context.Context) error {
		return rpc.NewServer(a, nil, rls.NewPatient(a, time.Minute).Register).Serve(ctx, l)
	})()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	test(&world{t: t, rls: rlspb.NewRateLimitServiceClient(conn), up: up})
}

func TestAnUnmodifiedClientOverLoopback(t *testing.T) {
	t.Parallel()
	overLoopback(t, rlsPolicy, func(w *world) {
		for i := range 5 {
			w.wantAnswer(asked("messaging", "message_type=marketing"), fmt.Sprintf("OK | OK marketing 5/DAY left %d", 4-i))
		}
		w.wantAnswer(asked("messaging", "message_type=marketing"), "OVER_LIMIT exhausted | OVER_LIMIT marketing 5/DAY left 0")
		w.wantAnswer(asked("messaging", "message_type=marketing,to_number=+1"), "OK | OK marketing_messages 5/DAY left 4")
		w.wantAnswer(asked("web", "path=/v1/x,org=acme", "viewer=acme", "path=/v1/health,org=acme", "nobody=knows"),
			"OK | OK v1 10/HOUR left 9 | OK left 4294967295 | OK left 4294967295 | OK")
		w.wantAnswer(asked("web", "watched=acme"), "OK | OK alone 2/DAY left 1")
		own := asked("web", "path=/,org=acme", "org=globex")
		own.Descriptors[0].Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_DAY}
		own.Descriptors[1].HitsAddend = wrapperspb.UInt64(4)
		w.wantAnswer(own, "OK | OK requests 7/DAY left 6 | OK requests 10/HOUR left 6")
	})
}
