package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/ledgertest"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// asProgram in the environment makes this test binary the program itself: dev and demo start
// their processes from the binary that they run in.
const asProgram = "QUOTALEASE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	ledgertest.Main(m)
}

// today is the time of day of these tests.
var today = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// result is what a user sees of one command.
type result struct {
	code     int
	out, err string
}

// console runs command lines as a user would.
type console struct {
	env   map[string]string
	stdin string
	login string
}

func (c console) run(t *testing.T, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	sh := &shell{
		in: strings.NewReader(c.stdin), out: &out, err: &err,
		getenv: func(name string) string { return c.env[name] },
		now:    func() time.Time { return today },
		login:  func() string { return c.login },
	}
	code := run(t.Context(), sh, args)
	return result{code, out.String(), err.String()}
}

// fakeAdmin is a control plane that answers every request with what a test gave it.
type fakeAdmin struct {
	pb.UnimplementedAdminServiceServer

	mu       sync.Mutex
	replies  map[string]proto.Message   // by the name of the method
	series   map[string][]proto.Message // the same, one after another, before replies
	faults   map[string]error
	requests []proto.Message
}

func (f *fakeAdmin) intercept(_ context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request.(proto.Message))
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	if err := f.faults[method]; err != nil {
		return nil, err
	}
	if next := f.series[method]; len(next) > 0 {
		f.series[method] = next[1:]
		return next[0], nil
	}
	if reply, ok := f.replies[method]; ok {
		return reply, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "the test has no reply to %s", method)
}

// last returns the newest request of M's kind.
func last[M proto.Message](t *testing.T, f *fakeAdmin) M {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.requests) - 1; i >= 0; i-- {
		if m, ok := f.requests[i].(M); ok {
			return m
		}
	}
	t.Fatalf("no such request among %d", len(f.requests))
	panic("unreachable")
}

// serve starts the control plane on a loopback port and returns a console that asks it.
func (f *fakeAdmin) serve(t *testing.T) console {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(f.intercept))
	pb.RegisterAdminServiceServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return console{env: map[string]string{serverEnv: listener.Addr().String(), "USER": "mina"}}
}

// expect compares an exit code and shows both streams if it is another.
func (r result) expect(t *testing.T, code int) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.out, r.err)
	}
}

func wantText(t *testing.T, what, got string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(got, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, got)
		}
	}
}
