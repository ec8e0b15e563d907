package core

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// real is cores before the real control plane and ledger, on one virtual clock that goes in
// steps of a millisecond. Messages take rtt there and back. Policy is the test's.
type real struct {
	t     *testing.T
	now   time.Duration
	rtt   time.Duration
	store *memory.Store
	log   *policy.MemoryLog
	cp    *controlplane.ControlPlane

	agents []*realAgent
	down   bool        // the control plane cannot be reached
	deaf   bool        // notices are lost
	lose   func() bool // of a message, there or back; nil: none
}

type realAgent struct {
	*real
	*Core
	name     string
	boot     Instant
	sync     *pb.SyncReply
	syncAt   time.Duration // when the answer is there; 0: none is on its way
	spend    *pb.SpendReply
	spendOn  Instant
	spendAt  time.Duration
	listener *controlplane.Listener
	asksSent int
	stopped  bool // the process is gone
}

func newReal(t *testing.T, text string) *real {
	t.Helper()
	r := &real{t: t, rtt: 4 * time.Millisecond}
	r.store, r.log = memory.New(r.clock), policy.NewMemoryLog(r.clock)
	r.apply(text)
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = r.store, r.store, r.store, r.store, r.log
	cfg.Now, cfg.Random = r.clock, seeded(99)
	var err error
	if r.cp, err = controlplane.New(cfg); err != nil {
		t.Fatal(err)
	}
	r.must(r.cp.Refresh(t.Context()))
	r.must(r.cp.Poll(t.Context()))
	return r
}

func (r *real) clock() time.Time { return epoch.Add(r.now) }

func (r *real) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// apply puts a policy in force.
func (r *real) apply(text string) {
	r.t.Helper()
	doc, err := policy.Parse([]policy.File{{Name: "test.yaml", Text: []byte(text)}}, time.Time{})
	r.must(err)
	version, _, err := policy.Apply(context.Background(), r.log, doc, policy.SourceCLI, "tester", "test")
	r.must(err)
	r.store.SetPolicyVersion(version)
	if r.cp != nil {
		r.must(r.cp.Refresh(r.t.Context()))
		r.must(r.cp.Reconcile(r.t.Context()))
	}
}

// agent starts one.
func (r *real) agent() *realAgent {
	a := &realAgent{real: r, name: fmt.Sprintf("a%d", len(r.agents)), boot: time.Hour * time.Duration(len(r.agents)+1)}
	a.Core = New(Config{Name: a.name, Region: "eu", Random: seeded(uint64(len(r.agents) + 7)), Wall: r.clock(), Start: a.clock()})
	r.agents = append(r.agents, a)
	a.listen()
	return a
}

func (a *realAgent) listen() {
	l, err := a.cp.Listen(a.Incarnation().Bytes())
	a.must(err)
	a.listener = l
}

func (a *realAgent) clock() Instant { return a.boot + a.real.now }

// run lets time pass.
func (r *real) run(d time.Duration) {
	r.t.Helper()
	for end := r.now + d; r.now < end; r.now += time.Millisecond {
		r.step()
	}
}

// until lets time pass until the condition holds, and fails the test if it does not within a
// minute.
func (r *real) until(what string, holds func() bool) {
	r.t.Helper()
	for end := r.now + time.Minute; !holds(); r.now += time.Millisecond {
		if r.now > end {
			r.t.Fatalf("a minute later still not: %s", what)
		}
		r.step()
	}
}

func (r *real) step() {
	r.t.Helper()
	if r.now%(50*time.Millisecond) == 0 {
		r.must(r.cp.Poll(r.t.Context()))
	}
	if r.now%(500*time.Millisecond) == 0 {
		_, err := r.cp.Sweep(r.t.Context())
		r.must(err)
	}
	for _, a := range r.agents {
		if !a.stopped {
			a.step()
		}
	}
}

func (a *realAgent) step() {
	a.t.Helper()
	for _, n := range a.listener.Notices() {
		if !a.deaf && !a.down {
			a.Notice(a.clock(), n)
		}
	}
	a.Tick(a.clock())
	if a.syncAt != 0 && a.real.now >= a.syncAt {
		reply := a.sync
		a.sync, a.syncAt = nil, 0
		was := a.Incarnation()
		a.SyncDone(a.clock(), reply)
		if a.Incarnation() != was {
			a.listen()
		}
	}
	if a.spendAt != 0 && a.real.now >= a.spendAt {
		reply := a.spend
		a.spend, a.spendAt = nil, 0
		a.SpendDone(a.clock(), a.spendOn, reply)
	}
	if a.syncAt == 0 {
		if req := a.BuildSync(a.clock()); req != nil {
			a.syncAt = a.real.now + a.real.rtt
			a.asksSent += len(req.GetAsks())
			if !a.down && !a.lost() {
				reply, err := a.cp.Desk().Sync(a.t.Context(), req)
				a.must(err)
				if a.sync = reply; a.lost() {
					a.sync = nil
				}
				for _, f := range reply.GetResults() {
					if f.GetFault() != nil {
						a.t.Errorf("%s: a report was refused: %v", a.name, f.GetFault())
					}
				}
			}
		}
	}
	if a.spendAt == 0 {
		if req := a.BuildSpend(a.clock(), time.Second); req != nil {
			a.spendAt, a.spendOn = a.real.now+a.real.rtt, a.clock()
			if !a.down && !a.lost() {
				reply, err := a.cp.Desk().Spend(a.t.Context(), req)
				a.must(err)
				if a.spend = reply; a.lost() {
					a.spend = nil
				}
			}
		}
	}
}

func (r *real) lost() bool { return r.lose != nil && r.lose() }

// take is a caller of one unit or more, who waits for the answer.
func (a *realAgent) take(dimension string, cost int64) Outcome {
	a.t.Helper()
	key := quota.Key{Tenant: "acme", Dimension: dimension}
	if k := a.Table.Find(key); k != nil {
		if t := k.Take(a.clock(), cost); t.Allowed || t.Denied {
			if t.Low {
				a.Low(a.clock(), k)
			}
			return Outcome{Taken: t}
		}
	}
	var got *Outcome
	w := &Waiter{Key: key, Cost: cost, Done: func(o Outcome) { got = &o }}
	a.Want(a.clock(), w)
	for end := a.real.now + time.Second; got == nil; a.real.now += time.Millisecond {
		if a.real.now >= end {
			o, mine := a.GiveUp(a.clock(), w)
			if mine {
				got = &o
			}
			break
		}
		a.real.step()
	}
	return *got
}

// acquire begins a caller's wait for slots, or for more beside them.
func (a *realAgent) acquire(id string, wait time.Duration, takes ...DimensionCost) (g *Group, got *Outcome) {
	got = new(Outcome)
	g = &Group{Tenant: "acme", Permit: id, Wait: wait, Takes: takes}
	g.Done = func(o Outcome) { *got = o }
	a.WantAll(a.clock(), g)
	return g, got
}

// work acquires slots and waits for the answer.
func (a *realAgent) work(id string, slots int64) Outcome {
	a.t.Helper()
	g, got := a.acquire(id, 0, DimensionCost{"jobs", slots})
	for end := a.real.now + time.Second; !g.over; a.real.now += time.Millisecond {
		if a.real.now >= end {
			o, _ := a.GiveUpAll(a.clock(), g)
			return o
		}
		a.real.step()
	}
	return *got
}

func (a *realAgent) done(id string) {
	a.t.Helper()
	_, err := a.Release(a.clock(), "acme", id)
	a.must(err)
}

// account is the ledger's row of a dimension in the present window.
func (r *real) account(dimension string) ledger.Account {
	r.t.Helper()
	found, err := r.store.Accounts(r.t.Context(), ledger.AccountQuery{Tenant: "acme", Dimension: dimension})
	if err != nil || len(found) == 0 {
		r.t.Fatalf("accounts of %s: %v, %v", dimension, found, err)
	}
	for _, a := range found {
		if a.ID.Window.Contains(r.clock()) {
			return a
		}
	}
	r.t.Fatalf("no account of %s in the window of %s", dimension, r.clock())
	return ledger.Account{}
}

// balanced fails the test if the ledger's books do not balance.
func (r *real) balanced() {
	r.t.Helper()
	_, err := r.store.Verify(r.t.Context(), func(d ledger.Difference) { r.t.Errorf("ledger: %v", d) }, func(int, int) {})
	r.must(err)
}

func accountsOf(dimension string) ledger.AccountQuery {
	return ledger.AccountQuery{Tenant: "acme", Dimension: dimension}
}

func must[T any](got T, err error) T {
	if err != nil {
		panic(err)
	}
	return got
}
