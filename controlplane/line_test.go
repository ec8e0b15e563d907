package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const linePolicy = `
unlisted_tenants: deny
tenants: [{tenant: acme}, {tenant: globex}]
dimensions:
  - {name: exports, kind: period, limit: 5, period: {every: day}, class: hard, overshoot: 100%, lease: {ttl: 30s}}
  - {name: calls, kind: rate, limit: 1/2s, burst: 2, class: hard, overshoot: 100%, lease: {ttl: 30s}}
operations:
  - {name: start_export, takes: [{dimension: exports}], on_deny: defer, defer: {max_age: 48h, max_tickets: 4}}
  - {name: call, takes: [{dimension: calls, cost: 2}], on_deny: defer, defer: {max_age: 1m}}
  - {name: plain, takes: [{dimension: exports}]}
`

// step is a step of a ticket of acme's.
func step(do pb.DeferItem_Step, id ledger.ID, operation string) *pb.DeferItem {
	return &pb.DeferItem{TicketId: id.Bytes(), Tenant: "acme", Operation: operation, Times: 1, Step: do}
}

func join(id ledger.ID) *pb.DeferItem {
	x := step(pb.DeferItem_STEP_JOIN, id, "start_export")
	x.Reason = "exhausted"
	return x
}

func (a *agent) move(items ...*pb.DeferItem) []*pb.Standing {
	a.t.Helper()
	reply, err := a.cp.Defer(a.t.Context(), &pb.DeferRequest{Hello: a.hello(), Items: items})
	if err != nil {
		a.t.Fatal(err)
	}
	return reply.Standings
}

func (a *agent) place(id ledger.ID) *pb.Standing {
	a.t.Helper()
	return a.move(step(pb.DeferItem_STEP_ASK, id, "start_export"))[0]
}

func TestR4_5WhoWaitsKeepsItsPlaceOverARestartOfTheControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a, b := w.agent(), w.agent()
	a.lease("exports", 5)
	ids := []ledger.ID{w.id(), w.id(), w.id()}
	for i, by := range []*agent{a, b, a} {
		s := by.move(join(ids[i]))[0]
		if s.Fault != nil || s.Place != int64(i) || s.Waiting != int64(i)+1 || s.Admitted || s.RetryInUs == 0 {
			t.Fatalf("ticket %d: %v", i, s)
		}
	}
	if s := b.move(join(ids[0]))[0]; s.Place != 0 || s.Waiting != 3 {
		t.Errorf("joined again at another agent, because the reply was lost: %v", s)
	}
	w.cp = w.replica(w.ledger.now, prometheus.NewRegistry())
	if err := w.cp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if s := b.place(id); s.Gone || s.Place != int64(i) {
			t.Errorf("ticket %d after the restart: %v", i, s)
		}
	}
	left := b.move(step(pb.DeferItem_STEP_LEAVE, ids[0], "start_export"), step(pb.DeferItem_STEP_LEAVE, ids[0], "start_export"))
	if !left[1].Gone || left[1].Waiting != 2 || a.place(ids[1]).Place != 0 || !a.place(ids[0]).Gone {
		t.Errorf("after the head left twice: %v, then %v and %v", left, a.place(ids[1]), a.place(ids[0]))
	}
}

func TestR4_5WhenAWindowOpensThoseGoForWhomThereIsRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a := w.agent()
	lease := a.lease("exports", 5)
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(lease, acme("exports"))}})
	ids := []ledger.ID{w.id(), w.id(), w.id(), w.id()}
	for i, id := range ids {
		x := join(id)
		if i == 2 {
			x.Times = 3
		}
		s := a.move(x)[0]
		if got := time.Duration(s.RetryInUs) * time.Microsecond; got < time.Minute || got > time.Minute+time.Second || s.Reason != "exhausted" || s.Dimension != "exports" {
			t.Errorf("ticket %d: %v, want it to look in a minute, in case the limit is raised", i, s)
		}
	}
	w.ledger.move(12*time.Hour + 100*time.Millisecond)
	var admitted []bool
	for i, id := range ids { // 1 + 1 + 3 are 5, and 6 are too many
		x := step(pb.DeferItem_STEP_ASK, id, "start_export")
		if i == 2 {
			x.Times = 3
		}
		s := a.move(x)[0]
		if s.Admitted != (s.RetryInUs == 0) {
			t.Errorf("ticket %d: %v", i, s)
		}
		admitted = append(admitted, s.Admitted)
	}
	if !slices.Equal(admitted, []bool{true, true, true, false}) {
		t.Errorf("admitted %v, want the first three", admitted)
	}
}

func TestR4_5TheTimeToAskAgainIsThatOfTheDenier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a := w.agent()
	calls := func(x *pb.DeferItem) *pb.DeferItem { x.Operation = "call"; return x }
	a.spend(&pb.SpendItem{SpendId: w.id().Bytes(), Key: acme("calls"), Cost: 2})
	if s := a.move(calls(join(w.id())))[0]; s.RetryInUs != 4_100_000 || s.Dimension != "calls" {
		t.Errorf("two calls at one in two seconds: %v, want four seconds and a tenth", s)
	}
	said := calls(join(w.id()))
	said.RetryInUs = 7_000_000
	if s := a.move(said)[0]; s.RetryInUs != 7_120_000 || s.Place != 1 {
		t.Errorf("told seven seconds: %v, want that and a little for the place", s)
	}
	a.lease("exports", 5)
	if s := a.move(join(w.id()))[0]; s.Reason != "leased_out" || s.RetryInUs != 600_000 {
		t.Errorf("units in others' hands: %v, want to ask again soon", s)
	}
	if s := a.move(step(pb.DeferItem_STEP_JOIN, w.id(), "call"))[0]; s.ExpiresInUs != 60_000_000 {
		t.Errorf("the age limit: %v, want a minute", s)
	}
}

func TestStepsThatMakeNoSenseAreFaultsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a := w.agent()
	known := w.id()
	a.move(join(known), join(w.id()), join(w.id()), join(w.id()))
	change := func(with func(*pb.DeferItem)) *pb.DeferItem { x := join(w.id()); with(x); return x }
	items := []*pb.DeferItem{
		join(w.id()),
		change(func(x *pb.DeferItem) { x.TicketId = []byte("no") }),
		change(func(x *pb.DeferItem) { x.Tenant = "" }),
		change(func(x *pb.DeferItem) { x.Tenant = "initech" }),
		change(func(x *pb.DeferItem) { x.Operation = "START" }),
		change(func(x *pb.DeferItem) { x.Operation = "start" }),
		change(func(x *pb.DeferItem) { x.Operation = "plain" }),
		change(func(x *pb.DeferItem) { x.Step = 0 }),
		change(func(x *pb.DeferItem) { x.Times = 0 }),
		change(func(x *pb.DeferItem) { x.Operation, x.Times = "call", 1<<52 }),
		change(func(x *pb.DeferItem) { x.TicketId, x.Times = known.Bytes(), 2 }),
		change(func(x *pb.DeferItem) { x.RetryInUs = 1 << 62 }),
	}
	var got []string
	for _, s := range a.move(items...) {
		got = append(got, s.GetFault().GetCode()+" "+s.GetFault().GetField())
	}
	want := []string{
		"line_full ticket_id", "invalid ticket_id", "invalid tenant", "unknown_tenant tenant", "invalid operation",
		"unknown_operation operation", "unknown_operation operation", "invalid step", "invalid times", "invalid times", "terms_mismatch times",
		"invalid retry_in_us",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%q, want\n%q", got, want)
	}
	large := a.move(change(func(x *pb.DeferItem) { x.Operation, x.Times = "call", 2 }))[0]
	if !large.Gone || large.Reason != "too_large" || large.Dimension != "calls" {
		t.Errorf("what can never pass: %v, want no place", large)
	}
	lines, err := w.store.Lines(t.Context(), ledger.LineID{}, 0)
	if err != nil || len(lines) != 1 || lines[0].Tickets != 4 || w.accountCount() != 0 {
		t.Errorf("lines %+v and %d accounts, %v: want four tickets in one line and nothing else", lines, w.accountCount(), err)
	}
	if _, err := w.cp.Defer(t.Context(), &pb.DeferRequest{Hello: a.hello(), Items: make([]*pb.DeferItem, MaxItems+1)}); err == nil {
		t.Error("more items than one call may have were taken")
	}
}

func TestR4_5AnOutageIsNoPlaceInALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a := w.agent()
	id := w.id()
	a.move(join(id))
	for name, end := range map[string]func(bool){
		"store": func(down bool) {
			w.store.OnCommit(func() memory.Outcome {
				if down {
					return memory.Broken
				}
				return memory.Committed
			})
		},
		"clock": func(down bool) { w.store.SetClockSuspect(down) },
	} {
		end(true)
		_, err := w.cp.Defer(t.Context(), &pb.DeferRequest{Hello: a.hello(), Items: []*pb.DeferItem{join(w.id())}})
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want an outage", name, err)
		}
		end(false)
		if s := a.place(id); s.Place != 0 || s.Waiting != 1 {
			t.Errorf("%s: after the outage %v, want the one ticket that was there", name, s)
		}
	}
	bare := w.replica(w.ledger.now, prometheus.NewRegistry())
	if _, err := bare.Defer(t.Context(), &pb.DeferRequest{Hello: a.hello(), Items: []*pb.DeferItem{join(w.id())}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("before a policy is known: %v, want an outage", err)
	}
}

// linesIn are the news of lines in some notices.
func linesIn(notices []*pb.Notice) (all []string) {
	for _, n := range notices {
		for _, l := range n.Lines {
			all = append(all, fmt.Sprintf("%s %s %d", l.Tenant, l.Operation, l.Tickets))
		}
	}
	return all
}

func TestR4_5AgentsHearWhereSomebodyWaits(t *testing.T) {
	t.Parallel()
	running(t, linePolicy, func(w *world) {
		a := w.agent()
		e, stop := w.listen(a.inc)
		defer stop()
		first, second := w.id(), w.id()
		heard := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := linesIn(e.take()); !slices.Equal(got, want) {
				t.Errorf("%s: heard %q, want %q", what, got, want)
			}
		}
		heard("nobody waits")
		a.move(join(first))
		heard("one joins", "acme start_export 1")
		a.move(join(second))
		heard("another joins")
		late, stopLate := w.listen(w.agent().inc)
		defer stopLate()
		synctest.Wait()
		if got := linesIn(late.take()); len(got) != 1 {
			t.Errorf("who begins to listen hears %q, want the line", got)
		}
		time.Sleep(lineRetell + 1500*time.Millisecond)
		heard("some time later", "acme start_export 2")
		if got := w.metric("line_tickets"); got != 2 {
			t.Errorf("%v tickets are shown, want 2", got)
		}
		a.move(step(pb.DeferItem_STEP_LEAVE, first, "start_export"), step(pb.DeferItem_STEP_LEAVE, second, "start_export"))
		heard("both leave", "acme start_export 0")
		call := join(w.id())
		call.Operation = "call"
		a.move(call)
		heard("one joins another line", "acme call 1")
		time.Sleep(2 * time.Minute)
		if got := linesIn(e.take()); len(got) == 0 || got[len(got)-1] != "acme call 0" {
			t.Errorf("after the age limit: heard %q, want that nobody waits", got)
		}
		if joined, left, now := w.metric("tickets_joined_total"), w.metric("tickets_left_total"), w.metric("line_tickets"); joined != 3 || left != 2 || now != 0 {
			t.Errorf("%v joined, %v left and %v wait, want 3, 2 and 0", joined, left, now)
		}
	})
}
