package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

var jobs = quota.Key{Tenant: "acme", Dimension: "jobs"}

func TestARenewalThatWasOvertakenProlongsNothing(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("one", 1)
	r.run(100 * time.Millisecond)
	k := a.Table.Find(jobs)
	l := k.slots.leases[0]
	ends := l.deadline
	r.run(500 * time.Millisecond)
	// A later message of this lease came first, say of a copy of this agent: the ledger says how
	// things stand after that one, and has not moved the end for the sake of this one.
	l.seq++
	sent := sentSlots{key: k, lease: l, said: l.use(), seq: l.seq, sent: a.clock()}
	a.slotsRenewed(sent, &pb.Decision{State: pb.GrantState_GRANT_STATE_LIVE, Seq: l.seq + 3, Amount: 1, TtlUs: 3_000_000})
	if l.deadline != ends {
		t.Errorf("the lease is used until %s after its end at the ledger", l.deadline-ends)
	}
	// The next renewal is the latest word, and counts.
	r.run(2500 * time.Millisecond)
	if l.deadline == ends || k.slots.leases[0] != l {
		t.Errorf("the lease was not renewed after that: ends %s, was to end %s", l.deadline, ends)
	}
	if acc := r.account("jobs"); acc.Settled() != 1 || acc.Held != 0 {
		t.Errorf("one piece of work runs: %+v", acc.Tally)
	}
	r.balanced()
}

func TestARenewalOfWhatACopyGaveBackProlongsNothing(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("one", 1)
	r.run(100 * time.Millisecond)
	l := a.Table.Find(jobs).slots.leases[0]
	ends := l.deadline
	r.run(500 * time.Millisecond)
	// A copy of this agent gave back every slot. The answer to this agent's own renewal says so:
	// there was nothing left to prolong.
	l.seq++
	sent := sentSlots{key: a.Table.Find(jobs), lease: l, said: l.use(), seq: l.seq, sent: a.clock()}
	a.slotsRenewed(sent, &pb.Decision{State: pb.GrantState_GRANT_STATE_LIVE, Seq: l.seq, Amount: 0, TtlUs: 3_000_000})
	if l.deadline != ends {
		t.Errorf("the lease is used until %s after its end at the ledger", l.deadline-ends)
	}
	if !l.retired {
		t.Error("work begins on slots that were given back")
	}
	if l.inUse != 1 || l.closed {
		t.Errorf("the work that runs lost its lease: %+v", l)
	}
}

func TestARenewalThatACopySaidBeforeProlongsByWhatRemains(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("one", 1)
	r.run(100 * time.Millisecond)
	l := a.Table.Find(jobs).slots.leases[0]
	r.run(500 * time.Millisecond)
	l.seq++
	sent := sentSlots{key: a.Table.Find(jobs), lease: l, said: l.use(), seq: l.seq, sent: a.clock()}
	// The copy's renewal had the same sequence, 2.8 s ago: the ledger answers this one the same.
	a.slotsRenewed(sent, &pb.Decision{State: pb.GrantState_GRANT_STATE_LIVE, Seq: l.seq, Amount: 1, TtlUs: 6_000_000, RemainingUs: 3_200_000})
	if got := l.deadline - a.clock(); got != 3200*time.Millisecond {
		t.Errorf("the lease is used for %s, and 3.2 s of it are left", got)
	}
}

const jobAndPayPolicy = jobPolicy + `
  - name: payouts
    kind: period
    limit: 10
    period: {every: day}
    class: exact
    lease: {ttl: 10s, grace: 1s}
`

// pay begins a piece of work that takes a slot and spends through the exact lane, up to the
// moment at which it holds the slot and its Spend has not left.
func (a *realAgent) pay(id string, wait time.Duration) (*Group, *Outcome) {
	a.t.Helper()
	g, got := a.acquire(id, wait, DimensionCost{"jobs", 1}, DimensionCost{"payouts", 1})
	a.until("the slot is there", func() bool { return g.over || g.exact })
	return g, got
}

func TestACopysWorkThatBeganWithASpendEnds(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobAndPayPolicy)
	a := r.agent()
	_, got := a.pay("one", 0)
	a.reincarnate(a.clock()) // while the Spend is on its way
	a.listen()
	r.run(time.Second)
	if !got.Allowed {
		t.Fatalf("%+v", got)
	}
	// The slot of before is the original's: the copy's work began on one of its own.
	if acc := r.account("jobs"); acc.Unleased != 0 || acc.Settled() == 0 {
		t.Errorf("work began without a lease: %+v", acc.Tally)
	}
	a.done("one")
	r.run(2 * time.Second)
	if acc := r.account("jobs"); acc.Unleased != 0 {
		t.Errorf("no work of this copy runs, and the ledger counts %d slots for it: %+v", acc.Unleased, acc.Tally)
	}
	r.run(30 * time.Second)
	if n := a.Stats(a.clock()).Keys; n != 0 {
		t.Errorf("%d keys are held for work that ended", n)
	}
}

func TestSlotsThatAParkedCallerPutsBackServeTheLine(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy+`
  - name: credits
    kind: period
    limit: 10
    period: {every: day}
    class: hard
    overshoot: 50%
    lease: {ttl: 10s, grace: 1s}
`)
	a := r.agent()
	a.take("credits", 1) // and holds a lease of 4 more
	a.work("warm", 4)
	a.done("warm")
	r.run(300 * time.Millisecond)
	large, _ := a.acquire("large", time.Minute, DimensionCost{"jobs", 4}, DimensionCost{"credits", 9})
	r.until("it holds the slots and is in the exact lane", func() bool { return large.exact })
	_, small := a.acquire("small", time.Minute, DimensionCost{"jobs", 1})
	if small.Allowed || large.over {
		t.Fatal("the other has all slots")
	}
	r.until("its units are in this agent's own lease: they go back first", func() bool {
		return len(a.Table.Find(quota.Key{Tenant: "acme", Dimension: "credits"}).parked) > 0
	})
	r.run(time.Millisecond)
	if !small.Allowed {
		asked := r.now
		r.until("the line moves on", func() bool { return small.Allowed })
		t.Errorf("all slots were idle, and a caller waited %s for one", r.now-asked)
	}
}
