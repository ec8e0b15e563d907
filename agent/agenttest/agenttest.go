package agenttest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/controlplane/rpc"
	"github.com/quotalease/quotalease/ledger/memory"
)

// ControlPlane is a control plane in this process that forgets everything at its end.
type ControlPlane struct {
	addr  string
	close func() error
}

// Start serves a control plane on a port of this machine's loopback, with a policy as in a
// policy file.
func Start(text string) (*ControlPlane, error) {
	ctx, stop := context.WithCancel(context.Background())
	control, err := build(ctx, text)
	if err != nil {
		stop()
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, err
	}
	server := rpc.NewServer(control, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	var wg sync.WaitGroup
	var ran, served error
	wg.Go(func() { ran = control.Run(ctx) })
	wg.Go(func() { served = server.Serve(l) })
	return &ControlPlane{addr: l.Addr().String(), close: sync.OnceValue(func() error {
		server.Stop()
		stop()
		wg.Wait()
		if errors.Is(served, grpc.ErrServerStopped) {
			served = nil
		}
		return errors.Join(ran, served)
	})}, nil
}

// Addr is where agents reach it.
func (c *ControlPlane) Addr() string { return c.addr }

// Close ends it, as an outage does, and waits.
func (c *ControlPlane) Close() error { return c.close() }

func build(ctx context.Context, text string) (*controlplane.ControlPlane, error) {
	store, log := memory.New(time.Now), policy.NewMemoryLog(time.Now)
	doc, err := policy.Parse([]policy.File{{Name: "policy.yaml", Text: []byte(text)}}, time.Now())
	if err != nil {
		return nil, err
	}
	version, _, err := policy.Apply(ctx, log, doc, policy.SourceCLI, "agenttest", "a test")
	if err != nil {
		return nil, err
	}
	store.SetPolicyVersion(version)
	cfg := controlplane.DefaultConfig()
	cfg.Lines = store
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = store, store, store, store, log
	cfg.Now, cfg.Random = time.Now, rand.Reader
	control, err := controlplane.New(cfg)
	if err != nil {
		return nil, err
	}
	return control, control.Refresh(ctx)
}
