package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy/pglog"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// startReplica runs a control plane on a database until stop, which leaves nothing of it behind
// but what the database keeps.
func startReplica(t *testing.T, dsn string) (control *controlplane.ControlPlane, stop func()) {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	store := postgres.New(pool, postgres.Options{})
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = store, store, store, store, pglog.New(pool)
	cfg.Lines = store
	if control, err = controlplane.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := control.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return control, func() { cancel(); wg.Wait(); pool.Close() }
}

// Who waits keeps its place, its age and its line over a restart of the control plane.
func TestR4_5LinesOutliveTheControlPlane(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.DB(t)
	control, stop := startReplica(t, dsn)
	_, err := control.ApplyPolicy(t.Context(), &pb.ApplyPolicyRequest{Who: "kim", Why: "first", Files: []*pb.PolicyFile{{Name: "p.yaml", Text: `
dimensions:
  - {name: exports, kind: period, limit: 0, period: {every: day}, class: exact}
operations:
  - {name: start_export, takes: [{dimension: exports}], on_deny: defer}
`}}})
	if err != nil {
		t.Fatal(err)
	}
	incarnation := newLineID(t)
	move := func(do pb.DeferItem_Step, ids ...uuid.UUID) []*pb.Standing {
		t.Helper()
		req := &pb.DeferRequest{Hello: &pb.Hello{Incarnation: incarnation.Bytes(), Name: "a", Region: "eu"}}
		for _, id := range ids {
			req.Items = append(req.Items, &pb.DeferItem{TicketId: id.Bytes(), Tenant: "acme", Operation: "start_export", Times: 1, Step: do, Reason: "exhausted"})
		}
		reply, err := control.Defer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetStandings()
	}
	ids := []uuid.UUID{newLineID(t), newLineID(t), newLineID(t)}
	before := move(pb.DeferItem_STEP_JOIN, ids...)
	stop()

	control, stop = startReplica(t, dsn)
	defer stop()
	if err := control.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, s := range move(pb.DeferItem_STEP_ASK, ids...) {
		if s.GetGone() || s.GetPlace() != int64(i) || s.GetExpiresInUs() >= before[i].GetExpiresInUs() || s.GetAdmitted() {
			t.Errorf("ticket %d is %v after the restart, was %v", i, s, before[i])
		}
	}
	move(pb.DeferItem_STEP_LEAVE, ids[0])
	if s := move(pb.DeferItem_STEP_JOIN, ids[1], newLineID(t)); s[0].GetPlace() != 0 || s[1].GetPlace() != 2 {
		t.Errorf("after the head left: %v", s)
	}
	if l := hearOfLine(t, control, 3); l.GetTenant() != "acme" || l.GetOperation() != "start_export" || l.GetTickets() != 3 {
		t.Errorf("agents hear %v of the line", l)
	}
}

// hearOfLine listens until a line is told of that has so many tickets; what was told of it on the way,
// between one step and the next, is true as well.
func hearOfLine(t *testing.T, control *controlplane.ControlPlane, tickets int64) (heard *pb.LineNews) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = control.Watch(ctx, newLineID(t).Bytes(), func(m *pb.WatchReply) error {
		for _, n := range m.GetNotices() {
			for _, l := range n.GetLines() {
				if heard = l; l.GetTickets() == tickets {
					cancel()
				}
			}
		}
		return nil
	})
	return heard
}

func newLineID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
