package embed

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/rpc"
)

// Config says where an agent of this program belongs. What is left out takes its default.
type Config struct {
	ControlPlanes []string // replicas, each host:port
	Region        string   // that the program serves
	Name          string   // for people; the host's
	StateDir      string   // where the terms of policy are kept for a start in an outage; nowhere
	Logger        *slog.Logger
	Metrics       prometheus.Registerer
}

// Agent is an agent that runs in this program until Close.
type Agent struct {
	*agent.Agent
	uplink *rpc.Uplink
	stop   context.CancelFunc
	over   chan error
	close  func() error // the first time, and what came of it
}

// Start runs an agent. It does not wait for the control plane: the first takes do, and an outage
// is what policy says of it. ctx bounds the start, not the agent, whose units the requests that
// are under way as the program stops still need: that ends with Close.
func Start(ctx context.Context, cfg Config) (*Agent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cfg.Name == "" {
		cfg.Name, _ = os.Hostname()
	}
	uplink, err := rpc.NewUplink(cfg.ControlPlanes)
	if err != nil {
		return nil, err
	}
	inner, err := agent.New(agent.Config{
		Name: cfg.Name, Region: cfg.Region, StateDir: cfg.StateDir, Logger: cfg.Logger, Metrics: cfg.Metrics,
	}, uplink)
	if err != nil {
		return nil, errors.Join(err, uplink.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a := &Agent{Agent: inner, uplink: uplink, stop: stop, over: make(chan error, 1)}
	a.close = sync.OnceValue(a.end)
	go func() { a.over <- inner.Run(running) }()
	return a, nil
}

// Close stops the agent and waits: it reports and returns all that it holds, for at most five
// seconds. Takes after that are refused with agent.ErrStopped, so a server is closed first.
func (a *Agent) Close() error { return a.close() }

func (a *Agent) end() error {
	a.stop()
	return errors.Join(<-a.over, a.uplink.Close())
}
