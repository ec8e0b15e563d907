package embed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ door.Agent  = (*embed.Agent)(nil)
	_ door.Waiter = (*embed.Agent)(nil)
)

const policy = `
dimensions:
- {name: exports, kind: period, limit: 100, period: {every: year}, class: hard, cold: {wait: 1s, then: deny}}
`

func start(t *testing.T, addr string) *embed.Agent {
	t.Helper()
	q, err := embed.Start(t.Context(), embed.Config{ControlPlanes: []string{addr}, Region: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestCloseReturnsWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	control, err := agenttest.Start(policy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := control.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, left := range []quota.Units{99, 98, 97} { // each program finds what the one before has left
		q := start(t, control.Addr())
		if d, err := q.Take(t.Context(), "acme", "exports", 1); err != nil || !d.Allowed || d.Remaining != left {
			t.Errorf("%+v %v, want %d left", d, err, left)
		}
		for range 2 {
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := q.Take(t.Context(), "acme", "exports", 1); !errors.Is(err, agent.ErrStopped) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestAProgramStartsAndClosesInAnOutage(t *testing.T) {
	t.Parallel()
	control, err := agenttest.Start(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Close(); err != nil {
		t.Fatal(err)
	}
	q := start(t, control.Addr())
	var away *agent.UnavailableError
	if _, err := q.Take(t.Context(), "acme", "exports", 1); !errors.As(err, &away) {
		t.Errorf("%v, want an outage", err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStartThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	taken := prometheus.NewRegistry()
	q, err := embed.Start(t.Context(), embed.Config{ControlPlanes: []string{"127.0.0.1:1"}, Region: "eu", Metrics: taken})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for name, tc := range map[string]struct {
		ctx context.Context
		cfg embed.Config
	}{
		"no control plane": {t.Context(), embed.Config{Region: "eu"}},
		"no region":        {t.Context(), embed.Config{ControlPlanes: []string{"127.0.0.1:1"}}},
		"metrics twice":    {t.Context(), embed.Config{ControlPlanes: []string{"127.0.0.1:1"}, Region: "eu", Metrics: taken}},
		"too late":         {over, embed.Config{ControlPlanes: []string{"127.0.0.1:1"}, Region: "eu"}},
	} {
		if q, err := embed.Start(tc.ctx, tc.cfg); err == nil || q != nil {
			t.Errorf("%s: started, %v", name, err)
		}
	}
}

func TestABadPolicyIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	_, err := agenttest.Start("dimensions:\n- {name: exports, kind: periodical}\n")
	if err == nil || err.Error()[:14] != "policy.yaml:2:" {
		t.Errorf("%v", err)
	}
}
