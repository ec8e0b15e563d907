package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/rpc"
)

// fleet is agents that share connections, so that there may be a thousand of them.
type fleet struct {
	agents []*agent.Agent
	links  []*rpc.Uplink
	stop   context.CancelFunc
	over   chan error // what each Run said
}

// fleet starts n agents. Like the others, they are to be closed after an error too.
func (w *world) fleet(ctx context.Context, name string, n int) (*fleet, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &fleet{stop: stop, over: make(chan error, n)}
	for range min(connections, n) {
		l, err := rpc.NewUplink([]string{w.address})
		if err != nil {
			return f, err
		}
		f.links = append(f.links, l)
	}
	for i := range n {
		a, err := agent.New(agent.Config{Name: fmt.Sprintf("%s-%d", name, i), Region: region}, f.links[i%len(f.links)])
		if err != nil {
			return f, err
		}
		f.agents = append(f.agents, a)
		go func() { f.over <- a.Run(running) }()
	}
	return f, nil
}

// callers are n for each agent.
func (f *fleet) callers(n int) []taker {
	var list []taker
	for range n {
		for _, a := range f.agents {
			list = append(list, a)
		}
	}
	return list
}

// close lets the agents report and give back what they have, and waits for them.
func (f *fleet) close() error {
	f.stop()
	var errs []error
	for range f.agents {
		errs = append(errs, <-f.over)
	}
	for _, l := range f.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
