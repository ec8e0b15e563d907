package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy/pglog"
	"github.com/quotalease/quotalease/controlplane/rpc"
	"github.com/quotalease/quotalease/ledger/postgres"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

//go:embed policy.yaml
var policyText string

// ledgerConnections are what a control plane has unless it is told otherwise.
const ledgerConnections = 8

// world is a control plane as the command runs it, with its door, in this process.
type world struct {
	pool     *pgxpool.Pool
	control  *controlplane.ControlPlane
	registry *prometheus.Registry
	server   *rpc.Server
	address  string

	program string // from which agents and stubs are started; empty: they are not
	tenants int    // that callers of a door are of

	close   func() error // ends it, once
	stop    context.CancelFunc
	running chan error // what Run said
	serving chan error // what Serve said
}

// startWorld starts it on a ledger that is ready, and gives it its policy.
func startWorld(ctx context.Context, dsn string) (*world, error) {
	w, err := startReplica(ctx, dsn)
	if err != nil {
		return nil, err
	}
	_, err = w.control.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{
		Files: []*pb.PolicyFile{{Name: "bench.yaml", Text: policyText + partsPolicy()}}, Who: "bench", Why: "the benchmark begins"})
	if err == nil {
		err = w.control.Refresh(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("apply the benchmark's policy: %w", err), w.close())
	}
	return w, nil
}

// startReplica starts it on a ledger that has its policy.
func startReplica(ctx context.Context, dsn string) (*world, error) {
	pool, err := postgres.Open(ctx, dsn, ledgerConnections)
	if err != nil {
		return nil, err
	}
	store := postgres.New(pool, postgres.Options{})
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Lines = store, store, store, store, store
	registry := prometheus.NewRegistry()
	cfg.Policies, cfg.Metrics = pglog.New(pool), registry
	control, err := controlplane.New(cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open a door for agents: %w", err)
	}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &world{pool: pool, control: control, registry: registry, address: listener.Addr().String(), stop: stop,
		running: make(chan error, 1), serving: make(chan error, 1),
		server: rpc.NewServer(control, slog.New(slog.DiscardHandler), registry)}
	w.close = sync.OnceValue(w.end)
	go func() { w.running <- control.Run(inner) }()
	go func() { w.serving <- w.server.Serve(listener) }()
	return w, nil
}

// end ends the control plane before its door, whose streams would otherwise never end.
func (w *world) end() error {
	w.stop()
	err := <-w.running
	w.server.Stop()
	if served := <-w.serving; !errors.Is(served, grpc.ErrServerStopped) { // it was stopped before it began
		err = errors.Join(err, served)
	}
	w.pool.Close()
	return err
}

// counted is a counter of the control plane, summed over its labels.
func (w *world) counted(name string) (float64, error) {
	families, err := w.registry.Gather()
	if err != nil {
		return 0, fmt.Errorf("read the control plane's counters: %w", err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "quotalease_controlplane_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum, nil
}
