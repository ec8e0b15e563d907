package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/rls"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/cmd/quotalease/stage"
)

type agentFlags struct {
	grpc, http, region, name string
	stateDir                 string
	controlPlanes            []string
	maxKeys                  int
	stopTimeout              time.Duration
	patience                 time.Duration
	pprof                    bool
	identity                 identityFlags
}

// stageStop is the time that an agent of dev or demo has for its last report. They stop it
// while the control plane is there, or because they died and nothing will be.
const stageStop = 2 * time.Second

func newAgentCommand(sh *shell) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a regional agent",
		Long: `Run a regional agent: it holds leases, decides takes from them without a message, and
reports what was used. A stop by SIGTERM reports and returns everything that it holds.

By default both listeners bind a loopback address, and whoever can reach one may name any
tenant, except at /v1/check, which believes nobody until a source of identity is given. An
address that others can reach needs TLS, --verified-callers and such a source.`,
		Example: `  quotalease agent --region eu-west --control-plane 127.0.0.1:7600
  curl -d '{"tenant":"acme","dimension":"report_export","cost":1}' http://127.0.0.1:7611/v1/take`,
		Args: arguments(0, 0, "none"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.grpc, "grpc", "127.0.0.1:7610", "address for decisions over gRPC, Envoy's rate limit service included")
	flags.StringVar(&f.http, "http", "127.0.0.1:7611", "address for decisions over HTTP, metrics and health")
	flags.StringVar(&f.region, "region", "local", "region that the agent serves")
	flags.StringVar(&f.name, "name", "", "name for people (default the host's)")
	flags.StringSliceVar(&f.controlPlanes, "control-plane", []string{defaultServer}, "control plane replica, host:port; may be repeated")
	flags.StringVar(&f.stateDir, "state-dir", "", "directory in which the terms of policy and the names of hot keys are kept for the next start (default none)")
	flags.DurationVar(&f.patience, "rls-patience", rls.Patience, "longest that Envoy's rate limit service waits for a lease; below Envoy's own timeout")
	flags.IntVar(&f.maxKeys, "max-keys", 1_000_000, "keys held at most")
	pprofFlag(flags, &f.pprof)
	f.identity.register(flags)
	bound := sh.stopWithStdin(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := bound(cmd.Context())
		defer cancel()
		if ours, _ := cmd.Flags().GetBool(stage.StopWithStdin[2:]); ours {
			f.stopTimeout = stageStop
		}
		return sh.runAgent(ctx, f)
	}
	return cmd
}

func (sh *shell) runAgent(ctx context.Context, f agentFlags) error {
	if f.name == "" {
		f.name, _ = os.Hostname()
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if f.patience < time.Millisecond || f.patience > time.Minute {
		return misuse("--rls-patience: %s; allowed: 1ms to 1m", f.patience)
	}
	if f.maxKeys < 1 {
		return misuse("--max-keys: %d; allowed: 1 or more", f.maxKeys)
	}
	known, err := f.identity.build(sh.logger(), registry)
	if err != nil {
		return err
	}
	uplink, err := rpc.NewUplink(f.controlPlanes)
	if err != nil {
		return misuse("--control-plane: %w", err)
	}
	defer func() { _ = uplink.Close() }()
	a, err := agent.New(agent.Config{
		Name: f.name, Region: f.region, MaxKeys: f.maxKeys, StateDir: f.stateDir, StopTimeout: f.stopTimeout, Logger: sh.logger(), Metrics: registry,
	}, uplink)
	if err != nil {
		return misuse("%w", err)
	}
	handler, err := web.New(a, web.Config{
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Identity: known.verifier, VerifiedCallers: f.identity.verifiedCallers,
	})
	if err != nil {
		return err
	}
	open, err := openDoors(ctx, f.grpc, f.http, known.needs)
	if err != nil {
		return err
	}
	open.announce(sh.out)
	if known.tls != nil {
		open.http = tls.NewListener(open.http, known.tls.Config())
	}
	// The agent outlives its doors: takes under way end before the last report (D6).
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running := make(chan error, 1)
	go func() { running <- a.Run(inner) }()
	var watching sync.WaitGroup
	watching.Go(func() { known.watch(inner) })
	defer watching.Wait()
	err = open.serve(ctx, rpc.NewServer(a, append(known.options(f.identity.verifiedCallers), rls.Codec()), rls.NewPatient(a, f.patience).Register).Serve, withProfiles(f.pprof, handler))
	stop()
	if runErr := <-running; runErr != nil && err == nil {
		err = fmt.Errorf("run the agent: %w", runErr)
	}
	return err
}
