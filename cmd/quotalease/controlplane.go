package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy/pglog"
	"github.com/quotalease/quotalease/controlplane/rpc"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/migrations"
)

type controlFlags struct {
	grpc, http, policyDir       string
	connections                 int
	pprof                       bool
	retention, accountRetention time.Duration
}

func newControlPlaneCommand(sh *shell) *cobra.Command {
	standard := controlplane.DefaultConfig()
	var f controlFlags
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run a control plane replica",
		Long: `Run a control plane replica: it grants leases from the ledger in Postgres, sweeps what
expired, and answers operators. Any number of replicas may share one Postgres. The schema
must be current: see quotalease migrate.

Every listener binds a loopback address: whoever can reach one may use it, until
identities are checked.

Its heap is small, so Go's collector runs at GOGC=400 unless GOGC is set.`,
		Example: `  export QUOTALEASE_DATABASE_URL=postgres://quota@db/quota
  quotalease migrate up
  quotalease controlplane --policy-dir /etc/quotalease/policy`,
		Args: arguments(0, 0, "none"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.grpc, "grpc", "127.0.0.1:7600", "address for agents and operators")
	flags.StringVar(&f.http, "http", "127.0.0.1:7601", "address for metrics and health")
	flags.StringVar(&f.policyDir, "policy-dir", "", "folder of policy files, applied whenever their content changes")
	flags.IntVar(&f.connections, "database-connections", 8, "connections to Postgres at most")
	flags.DurationVar(&f.retention, "retention", standard.Retention, "how long ids, settled grants and the journal are kept")
	flags.DurationVar(&f.accountRetention, "account-retention", standard.AccountRetention, "how long past windows and their statements are kept")
	pprofFlag(flags, &f.pprof)
	sh.databaseFlag(cmd)
	bound := sh.stopWithStdin(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := bound(cmd.Context())
		defer cancel()
		return sh.runControlPlane(ctx, f)
	}
	return cmd
}

func (sh *shell) runControlPlane(ctx context.Context, f controlFlags) error {
	dsn, err := sh.needDatabase()
	if err != nil {
		return err
	}
	if err := positive("--database-connections", int64(f.connections)); err != nil {
		return err
	}
	// An address that may not be used is told before the database is asked; the doors open
	// only when there is somebody behind them.
	for flag, addr := range map[string]string{"--grpc": f.grpc, "--http": f.http} {
		if _, err := listenAddr(ctx, net.DefaultResolver.LookupNetIP, flag, addr, loopbackOnly); err != nil {
			return err
		}
	}
	defer spareCollector(controlPlaneGC)()
	pool, err := postgres.Open(ctx, dsn, f.connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool); err != nil {
		if errors.Is(err, migrations.ErrOutdated) {
			return err
		}
		return outage(hide(err, dsn), databaseAdvice)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	store := postgres.New(pool, postgres.Options{Retention: f.retention})
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = store, store, store, store, pglog.New(pool)
	cfg.Lines = store
	cfg.PolicyDir, cfg.Metrics, cfg.Log = f.policyDir, registry, sh.logger()
	cfg.Retention, cfg.AccountRetention = f.retention, f.accountRetention
	control, err := controlplane.New(cfg)
	if err != nil {
		return err
	}
	open, err := openDoors(ctx, f.grpc, f.http, loopbackOnly)
	if err != nil {
		return err
	}
	open.announce(sh.out)
	return serveControlPlane(ctx, control, cfg, open, registry, f.pprof)
}

// serveControlPlane runs the replica behind its doors. It ends before they close: its streams
// would otherwise never end.
func serveControlPlane(ctx context.Context, control *controlplane.ControlPlane, cfg controlplane.Config, open doors, registry *prometheus.Registry, profiles bool) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running := make(chan error, 1)
	go func() { running <- control.Run(inner) }()
	server := rpc.NewServer(control, cfg.Log, registry)
	err := open.serve(ctx, func(ctx context.Context, l net.Listener) error {
		ended := context.AfterFunc(ctx, func() {
			stop()
			hard := time.AfterFunc(stopping, server.Stop)
			defer hard.Stop()
			server.GracefulStop()
		})
		defer ended()
		return server.Serve(l)
	}, withProfiles(profiles, rpc.Handler(control, registry)))
	stop()
	if runErr := <-running; runErr != nil && err == nil {
		err = fmt.Errorf("run the control plane: %w", runErr)
	}
	return err
}
