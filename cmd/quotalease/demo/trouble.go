package demo

import (
	"context"
	"fmt"
	"os/user"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// goWrong plays the troubles in their order. sent ends when the traffic does: troubles that
// are left then happen at once, so that a short trace sees them all.
func (s *show) goWrong(ctx context.Context, sent chan error) error {
	troubles := []struct {
		at float64
		do func(context.Context) error
	}{
		{outageBegins, s.killControl},
		{outageEnds, s.startControl},
		{agentDies, s.killAgent},
		{limitCut, s.cutLimit},
	}
	for _, t := range troubles {
		timer := time.NewTimer(time.Until(s.began.Add(time.Duration(t.at * float64(s.plan.length)))))
		select {
		case <-timer.C:
		case err := <-sent:
			sent <- err
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if err := t.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) killControl(context.Context) error {
	s.stage.KillControl()
	s.say("control plane killed: agents live on what they hold, then deny or, where policy says so, go on")
	return nil
}

func (s *show) startControl(ctx context.Context) error {
	if err := s.stage.StartControl(ctx); err != nil {
		return err
	}
	s.say("control plane back")
	return nil
}

func (s *show) killAgent(context.Context) error {
	last := len(s.agents) - 1
	s.callers.Gone(last)
	s.agents[last].Kill()
	s.say("agent in %s killed with SIGKILL: what it had not reported stays charged, by class", regions[last])
	return nil
}

// cutLimit lowers one limit to half of what was used of it.
func (s *show) cutLimit(ctx context.Context) error {
	victim, used, err := s.cutVictim(ctx)
	if err != nil {
		return err
	}
	if used < 2 {
		s.say("no limit to cut: nothing has units left")
		return nil
	}
	text, from, err := withLimit(s.plan.policy, victim, used/2)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, text, "the demo cuts a limit"); err != nil {
		return err
	}
	s.cut = victim
	s.say("limit of %s cut from %d to %d, below what was used", victim, from, used/2)
	return nil
}

// cutVictim is the account whose limit is cut: of the dimension that the plan names, or of
// those with units left, the one that was used most.
func (s *show) cutVictim(ctx context.Context) (string, quota.Units, error) {
	accounts, err := s.accounts(ctx)
	if err != nil {
		return "", 0, err
	}
	var best ledger.Account
	for _, a := range accounts {
		name := a.ID.Key.Dimension
		if s.plan.cut != "" && name != s.plan.cut || s.plan.cut == "" && a.Headroom() <= 0 {
			continue
		}
		if a.Settled() > best.Settled() {
			best = a
		}
	}
	return best.ID.Key.Dimension, best.Settled(), nil
}

// apply makes a policy current, as an operator would.
func (s *show) apply(ctx context.Context, text []byte, why string) error {
	conn, err := s.stage.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = pb.NewAdminServiceClient(conn).ApplyPolicy(ctx, &pb.ApplyPolicyRequest{
		Files: []*pb.PolicyFile{{Name: "demo.yaml", Text: string(text)}}, Who: who(), Why: why,
	})
	if err != nil {
		return fmt.Errorf("apply the demo's policy: %w", err)
	}
	return nil
}

func who() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "demo"
}

// withLimit returns the policy with another limit of one dimension, and the limit it had.
func withLimit(text []byte, dimension string, limit quota.Units) ([]byte, quota.Units, error) {
	doc, err := policy.Parse([]policy.File{{Name: "demo.yaml", Text: text}}, time.Time{})
	if err != nil {
		return nil, 0, err
	}
	d, ok := doc.Snapshot(0).Dimension(dimension)
	if !ok {
		return nil, 0, fmt.Errorf("cut the limit of %s: no such dimension", dimension)
	}
	changed, err := replaceLimit(text, dimension, limit)
	return changed, d.Limit.Units, err
}
