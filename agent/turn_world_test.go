package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const turnPolicy = `
dimensions:
  - {name: exports, kind: period, limit: 5, period: {every: minute}, class: hard, overshoot: 100%, lease: {ttl: 5s}}
operations:
  - {name: start_export, takes: [{dimension: exports}], on_deny: defer, defer: {max_age: 10m, max_tickets: 12}}
`

// lossy is an uplink that loses the replies to some Defers.
type lossy struct {
	*uplink
	mu   sync.Mutex
	lose int // so many next ones
	sent []*pb.DeferItem
}

func (l *lossy) Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error) {
	reply, err := l.uplink.Defer(ctx, req)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.sent = append(l.sent, req.GetItems()...)
	}
	if err == nil && l.lose > 0 {
		l.lose--
		return nil, errors.New("connection reset")
	}
	return reply, err
}

func (l *lossy) loseReplies(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = n
}

// steps counts what arrived of one kind.
func (l *lossy) steps(do pb.DeferItem_Step) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.sent {
		if x.GetStep() == do {
			n++
		}
	}
	return n
}

// inFleet runs a test against two agents before one control plane, at the beginning of a minute.
func inFleet(t *testing.T, test func(t *testing.T, up *lossy, agents []*agent.Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		plane, _ := control(t, turnPolicy)
		up := &lossy{uplink: &uplink{control: plane}}
		wg.Go(func() {
			if err := up.control.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		var agents []*agent.Agent
		for i := range 2 {
			cfg := agent.Config{Name: fmt.Sprint("a", i), Region: "eu"}
			cfg.SetNow(func() time.Duration { return time.Hour + time.Since(began) })
			a, err := agent.New(cfg, up)
			if err != nil {
				t.Fatal(err)
			}
			agents = append(agents, a)
			wg.Go(func() {
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for slices.ContainsFunc(agents, func(a *agent.Agent) bool { return a.Ready() != nil }) {
			time.Sleep(time.Millisecond)
		}
		test(t, up, agents)
	})
}

// begin takes an operation for the first time.
func begin(t *testing.T, a *agent.Agent) agent.Decision {
	t.Helper()
	d, err := a.TakeOperation(t.Context(), "acme", "start_export", 1)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// useUp takes what the present minute has.
func useUp(t *testing.T, a *agent.Agent) {
	t.Helper()
	for i := range 5 {
		if d := begin(t, a); !d.Allowed {
			t.Fatalf("take %d of a fresh quota: %+v", i, d)
		}
	}
}

// again takes with a ticket.
func again(t *testing.T, a *agent.Agent, ticket *agent.Ticket) (agent.Decision, error) {
	t.Helper()
	return a.TakeInTurn(t.Context(), ticket.ID, "acme", "start_export", 1)
}

// until waits as told, and asks, for as long as the moment at which to come next is before one.
func until(t *testing.T, a *agent.Agent, d agent.Decision, moment time.Time) agent.Decision {
	t.Helper()
	for time.Now().Add(d.RetryIn).Before(moment) {
		time.Sleep(d.RetryIn)
		var err error
		if d, err = again(t, a, d.Ticket); err != nil || d.Ticket == nil {
			t.Fatal(d, err)
		}
	}
	return d
}

// nextMinute is when the next window begins.
func nextMinute() time.Time { return time.Now().Truncate(time.Minute).Add(time.Minute) }

// caller is one who waits as it is told, at either agent in turn.
func caller(t *testing.T, agents []*agent.Agent, d agent.Decision) {
	for n := 0; !d.Allowed; n++ {
		if d.Ticket == nil || d.RetryIn <= 0 || d.Ticket.RetryIn != d.RetryIn {
			t.Errorf("denied without a time to come back: %+v", d)
			return
		}
		time.Sleep(d.RetryIn)
		var err error
		if d, err = again(t, agents[n%len(agents)], d.Ticket); err != nil {
			t.Error(err)
			return
		}
	}
}
