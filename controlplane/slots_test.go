package controlplane

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// bench is a desk's transaction with the terms of its keys set by the test.
type bench struct {
	*world
	inc   ledger.ID
	token ledger.ID
	terms map[string]ledger.Terms
}

func newBench(t *testing.T) *bench {
	b := &bench{world: newWorld(t, examplePolicy), terms: map[string]ledger.Terms{
		"batch_jobs": {
			PolicyVersion: 1, Kind: quota.Concurrency, Class: quota.Hard, Limit: quota.LimitOf(20), Budget: quota.LimitOf(2),
			MaxHold: time.Hour, TTL: 30 * time.Second, Grace: 5 * time.Second,
		},
		"free_reads": {
			PolicyVersion: 1, Kind: quota.Period, Class: quota.BestEffort, Limit: quota.LimitOf(100), Budget: quota.LimitOf(100),
			Pot: 40, TTL: 30 * time.Second, Grace: 5 * time.Second,
		},
	}}
	b.inc = b.id()
	return b
}

// sync runs a Sync through one transaction, under the bench's terms.
func (b *bench) sync(m *pb.SyncRequest) *pb.SyncReply {
	b.t.Helper()
	m.Hello = &pb.Hello{Incarnation: b.inc.Bytes(), Name: "agent", Region: "ap-seoul", PolicyVersion: 1}
	if !b.token.IsNil() {
		m.Hello.Token = b.token.Bytes()
	}
	fresh := b.id()
	r, err := readSync(m, fresh)
	if err != nil {
		b.t.Fatal(err)
	}
	daily, err := quota.ParsePeriod("day", "", 0, "")
	if err != nil {
		b.t.Fatal(err)
	}
	p := newPlan(b.cp.Desk().policies.snapshot(), b.ledger.now(), 24*time.Hour)
	for dimension, terms := range b.terms {
		key := quota.Key{Tenant: "acme", Dimension: dimension}
		at := &place{account: ledger.AccountID{Key: key}, terms: terms, dimension: &policy.Dimension{Kind: terms.Kind, Period: daily}}
		if terms.Kind == quota.Period {
			at.account.Window = day(b.ledger.now())
		}
		p.places[key], p.order = at, append(p.order, key)
	}
	done, err := b.cp.Desk().attempt(b.t.Context(), p, []*request{r})
	if lacks, retry := asAgain(err); retry {
		p.learn(lacks)
		done, err = b.cp.Desk().attempt(b.t.Context(), p, []*request{r})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if done.answers[0].err != nil {
		b.t.Fatal(done.answers[0].err)
	}
	b.token = fresh
	return done.answers[0].sync
}

func TestR2_12SlotsAreRenewedOverTheWire(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ask := &pb.Ask{GrantId: b.id().Bytes(), Key: acme("batch_jobs"), Want: 9, Need: 3}
	lease := b.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
	if lease.Amount != 5 || lease.Seq != 0 { // 3 in use, 2 idle
		t.Fatalf("decision %v, want 5 slots", lease)
	}
	renewal := func(seq, inUse, returned int64) *pb.Renewal {
		return &pb.Renewal{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: seq, InUse: inUse, Returned: returned}
	}
	b.ledger.move(20 * time.Second)
	foreign := renewal(1, 0, 0)
	foreign.GrantId = b.id().Bytes()
	odd := renewal(1, 0, 0)
	odd.GrantId = []byte("short")
	first := b.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(1, 4, 0), foreign, odd}})
	got := first.Renewals
	if got[0].Amount != 5 || got[0].Seq != 1 || got[0].RemainingUs != 30_000_000 || got[0].TtlUs != 30_000_000 {
		t.Errorf("renewed %v, want 5 slots for another 30 s", got[0])
	}
	if got[1].Fault.GetCode() != "foreign_grant" || got[2].Fault.GetCode() != "invalid" {
		t.Errorf("answers %v and %v, want faults", got[1], got[2])
	}
	if k := first.Keys[0]; k.Key.Dimension != "batch_jobs" || k.Headroom != 15 {
		t.Errorf("key state %v, want 15 left", k)
	}
	// A report and an ask of the same Sync go before and after: what came back is asked for again.
	b.ledger.move(10 * time.Second)
	reply := b.sync(&pb.SyncRequest{
		Reports:  []*pb.Report{{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 2, InUse: 3, Returned: 2}},
		Renewals: []*pb.Renewal{renewal(3, 3, 2)},
		Asks:     []*pb.Ask{{GrantId: b.id().Bytes(), Key: acme("batch_jobs"), Want: 17, Need: 17}},
	})
	if d := reply.Renewals[0]; d.Amount != 3 || d.State != pb.GrantState_GRANT_STATE_LIVE || reply.Decisions[0].Amount != 17 {
		t.Errorf("renewed %v, decided %v: want 3 and 17", d, reply.Decisions[0])
	}
	// A cut keeps what runs.
	cut := b.terms["batch_jobs"]
	cut.Limit = quota.LimitOf(10)
	b.terms["batch_jobs"] = cut
	b.applied()
	d := b.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(4, 1, 2)}}).Renewals[0]
	if d.Amount != 1 || !d.Revoked || d.State != pb.GrantState_GRANT_STATE_LIVE {
		t.Errorf("after a cut: %v, want the one in use", d)
	}
	// A closed lease is not renewed, and its answer says so.
	b.ledger.move(time.Minute)
	d = b.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{renewal(5, 1, 4)}}).Renewals[0]
	if d.Amount != 0 || d.State != pb.GrantState_GRANT_STATE_CLOSED || d.Fault != nil || d.RemainingUs != 0 {
		t.Errorf("too late: %v, want a closed lease", d)
	}
	end := &pb.Report{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 6, Returned: 5, Final: true}
	if x := b.sync(&pb.SyncRequest{Reports: []*pb.Report{end}}).Results[0]; x.State != pb.GrantState_GRANT_STATE_FINAL {
		t.Errorf("the last report: %v", x)
	}
	b.verified()
}

// applied brings the terms of a bench into force under the next policy version.
func (b *bench) applied() {
	b.t.Helper()
	b.apply(examplePolicy + "  - {name: spare, kind: period, limit: 1, period: {every: day}, class: exact}\n")
	if err := b.cp.Refresh(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	for name, terms := range b.terms {
		terms.PolicyVersion = b.cp.Desk().policies.snapshot().Version
		b.terms[name] = terms
	}
}

func TestSlotsThatEndAreSwept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: b.id().Bytes(), Key: acme("batch_jobs"), Want: 5, Need: 5}}})
	for _, c := range []struct {
		after time.Duration
		swept int
		held  ledger.Units
	}{
		{35*time.Second - time.Microsecond, 0, 0}, {time.Microsecond, 1, 5},
		{time.Hour - time.Microsecond, 0, 5}, {time.Microsecond, 1, 0},
	} {
		b.ledger.move(c.after)
		n, err := b.cp.Desk().Sweep(t.Context())
		if a := b.account("batch_jobs"); err != nil || n != c.swept || a.Held != c.held {
			t.Errorf("after %s: swept %d, %v, H is %d: want %d and %d", c.after, n, err, a.Held, c.swept, c.held)
		}
	}
	if got := b.metric("leases_closed_total"); got != 1 {
		t.Errorf("%v leases closed, want 1", got)
	}
	b.verified()
}

func TestACopysRenewalsAreNotAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := b.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: b.id().Bytes(), Key: acme("batch_jobs"), Want: 1, Need: 1}}}).Decisions[0]
	copied := *b
	b.sync(&pb.SyncRequest{})
	b.sync(&pb.SyncRequest{})
	reply := copied.sync(&pb.SyncRequest{Renewals: []*pb.Renewal{{GrantId: lease.GrantId, Key: acme("batch_jobs"), Seq: 1}}})
	if !reply.NewIncarnation || len(reply.Renewals) != 0 {
		t.Errorf("reply to the copy: %v", reply)
	}
	if got := b.account("batch_jobs"); got.Leased != 1 {
		t.Errorf("%+v, want the one slot in use", got.Tally)
	}
}

func TestR2_9AnAllowanceForAnOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ask := &pb.Ask{GrantId: b.id().Bytes(), Key: acme("free_reads"), Want: 100, Need: 1, Emergency: true}
	reply := b.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}})
	d := reply.Decisions[0]
	if d.Amount != 40 || !d.Emergency || d.RemainingUs != (12*time.Hour).Microseconds() || reply.Keys[0].Headroom != 100 {
		t.Errorf("decision %v with headroom %d, want the pot of 40 until midnight, and 100", d, reply.Keys[0].Headroom)
	}
	used := &pb.Report{GrantId: ask.GrantId, Key: ask.Key, Window: d.Window, Taken: 15, Returned: 25, Final: true, Emergency: true}
	if x := b.sync(&pb.SyncRequest{Reports: []*pb.Report{used}}).Results[0]; x.Fault != nil || x.State != pb.GrantState_GRANT_STATE_FINAL {
		t.Errorf("the last report: %v", x)
	}
	if a := b.account("free_reads"); a.Emergency != 15 || a.Headroom() != 85 {
		t.Errorf("E is %d and headroom %d, want 15 and 85", a.Emergency, a.Headroom())
	}
	b.verified()
}

func TestWhileClocksDisagreeRenewalsWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.store.SetClockSuspect(true)
	_, err := b.cp.Desk().Sync(t.Context(), &pb.SyncRequest{
		Hello:    &pb.Hello{Incarnation: b.inc.Bytes(), Name: "agent", Region: "eu"},
		Renewals: []*pb.Renewal{{GrantId: b.id().Bytes(), Key: acme("small"), Seq: 1}},
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("a renewal is answered with %v, want an outage", err)
	}
}
