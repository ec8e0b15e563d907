package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestR2_9AnOutageWithThreeOperationsSideBySide(t *testing.T) {
	t.Parallel()
	r := newReal(t, `
dimensions:
  - name: exports
    kind: concurrency
    limit: 4
    max_hold: 1h
    class: hard
    lease: {ttl: 10s, grace: 1s}
  - name: report_export
    kind: period
    limit: 1000
    period: {every: day}
    class: hard
    lease: {ttl: 10s, grace: 1s}
    outage: {mode: closed, after: 5s}
  - name: reads
    kind: period
    limit: 1000
    period: {every: day}
    class: best_effort
    lease: {ttl: 10s, grace: 1s}
    outage: {mode: open, after: 5s, for: 10m}
operations:
  - name: start_export
    takes: [{dimension: exports}, {dimension: report_export}]
`)
	a := r.agent()
	export := func(id string) Outcome {
		var got Outcome
		g := &Group{Tenant: "acme", Operation: "start_export", Times: 1, Permit: id, Done: func(o Outcome) { got = o }}
		a.WantAll(a.clock(), g)
		for range 1000 {
			if g.over {
				break
			}
			r.run(time.Millisecond)
		}
		return got
	}
	if o := export("running"); !o.Allowed {
		t.Fatalf("%+v", o)
	}
	a.take("reads", 1)
	r.down = true
	r.run(30 * time.Second) // every lease is dead
	for range 18 {
		r.run(5 * time.Second) // 2 minutes in all
		if o := export(fmt.Sprint("new", r.now)); !o.Unavailable {
			t.Fatalf("a new export in an outage: %+v", o)
		}
		if o := a.take("reads", 1); !o.Allowed || o.Reason != quota.OpenMode {
			t.Fatalf("free reads go on, marked: %+v", o)
		}
		if err := a.RenewPermit(a.clock(), "acme", "running"); err != nil {
			t.Fatalf("the running export goes on: %v", err)
		}
		if n := a.Stats(a.clock()).Running["exports"]; n != 1 {
			t.Fatalf("%d exports run", n)
		}
	}
	r.down = false
	r.run(5 * time.Second)
	if acc := r.account("exports"); acc.Settled()+acc.Held != 1 {
		t.Errorf("one export runs: %+v", acc.Tally)
	}
	a.done("running")
	r.run(time.Second)
	if acc := r.account("exports"); acc.Headroom() != 4 {
		t.Errorf("it has ended, and %d of 4 slots are free: %+v", acc.Headroom(), acc.Tally)
	}
	if o := export("after"); !o.Allowed {
		t.Errorf("after the outage: %+v", o)
	}
	r.balanced()
}

func TestR2_12JobSlotsAndTheDailyTotalAreSeparateLimits(t *testing.T) {
	t.Parallel()
	r := newReal(t, `
dimensions:
  - name: batch_jobs
    kind: concurrency
    limit: 20
    max_hold: 1h
    class: hard
    lease: {ttl: 10s}
  - name: daily_jobs
    kind: period
    limit: 50
    period: {every: day}
    class: hard
    overshoot: 100%
    lease: {ttl: 10s}
`)
	a := r.agent()
	job := func(id string) Outcome {
		g, got := a.acquire(id, 0, DimensionCost{"batch_jobs", 1}, DimensionCost{"daily_jobs", 1})
		for range 1000 {
			if g.over {
				break
			}
			r.run(time.Millisecond)
		}
		return *got
	}
	started := 0
	for i := range 20 {
		if o := job(fmt.Sprint("j", i)); o.Allowed {
			started++
		}
	}
	if o := job("j20"); started != 20 || !o.Denied || o.Key.Dimension != "batch_jobs" || o.Reason != quota.Exhausted || o.RetryIn != 0 {
		t.Fatalf("%d of 20 started, the next is told %+v", started, o)
	}
	r.run(15 * time.Second)
	if acc := r.account("daily_jobs"); acc.Settled() != 20 {
		t.Errorf("a job that found no slot was counted: %+v", acc.Tally)
	}
	for i := range 30 {
		a.done(fmt.Sprint("j", i))
		if o := job(fmt.Sprint("j", i+20)); !o.Allowed {
			t.Fatalf("job %d of 50: %+v", i+21, o)
		}
	}
	a.done("j49")
	if o := job("j50"); !o.Denied || o.Key.Dimension != "daily_jobs" || o.RetryIn <= 0 {
		t.Errorf("the 51st of the day: %+v", o)
	}
	if n := a.Stats(a.clock()).Running["batch_jobs"]; n != 19 {
		t.Errorf("%d jobs run, want 19: the slot of the denied one was put back", n)
	}
	r.balanced()
}

func TestR1_11TokensLeftButNoPermit(t *testing.T) {
	t.Parallel()
	r := newReal(t, `
dimensions:
  - name: calls
    kind: rate
    limit: 100/s
    burst: 100
    class: best_effort
    overshoot: 100%
    lease: {ttl: 10s}
  - name: jobs
    kind: concurrency
    limit: 1
    max_hold: 1h
    class: hard
    lease: {ttl: 10s}
`)
	a := r.agent()
	both := []DimensionCost{{"calls", 1}, {"jobs", 1}}
	_, first := a.acquire("first", 0, both...)
	r.run(100 * time.Millisecond)
	_, second := a.acquire("second", 0, both...)
	r.run(100 * time.Millisecond)
	if !first.Allowed || !second.Denied || second.Key.Dimension != "jobs" {
		t.Fatalf("%+v, %+v", first, second)
	}
	k := a.Table.Find(quota.Key{Tenant: "acme", Dimension: "calls"})
	if taken := k.total(); taken != 1 {
		t.Errorf("%d tokens were taken, by one piece of work", taken)
	}
}

func TestIdleSlotsGoBack(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a, b := r.agent(), r.agent()
	a.work("one", 1)
	a.work("two", 1)
	a.done("one")
	a.done("two")
	r.run(100 * time.Millisecond)
	if k := a.Table.Find(quota.Key{Tenant: "acme", Dimension: "jobs"}); k.slots.idle(a.clock()) != 2 {
		t.Fatal("what was in use a moment ago stays for the next who comes")
	}
	// 2 are free in the pool, and 2 in the other's hands. There is news of that, and it acts.
	_, got := b.acquire("three", time.Minute, DimensionCost{"jobs", 3})
	asked := r.now
	r.until("idle slots go where they are needed", func() bool { return got.Allowed })
	if took := r.now - asked; took > 400*time.Millisecond {
		t.Errorf("that took %s", took)
	}
	b.done("three")
	r.run(10 * time.Second)
	if acc := r.account("jobs"); acc.Headroom() != 4 || acc.Outstanding != 0 {
		t.Errorf("nobody has needed a slot for ttls: %+v", acc.Tally)
	}
	r.run(20 * time.Second)
	if n := a.Stats(a.clock()).Keys + b.Stats(b.clock()).Keys; n != 0 {
		t.Errorf("%d keys are still held", n)
	}
}

func TestIdleSlotsGoBackThoughNoNoticeComes(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	r.deaf = true
	a, b := r.agent(), r.agent()
	a.work("all", 4)
	a.done("all")
	_, got := b.acquire("one", time.Minute, DimensionCost{"jobs", 1})
	asked := r.now
	r.until("the slot comes", func() bool { return got.Allowed })
	if took := r.now - asked; took > 2*3*time.Second {
		t.Errorf("without notices that took %s, two ttls are 6 s", took)
	}
}

func TestALimitCutStopsStartsAndNoWork(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	for i := range 4 {
		a.work(fmt.Sprint("w", i), 1)
	}
	r.apply(strings.Replace(jobPolicy, "limit: 4", "limit: 2", 1))
	r.run(10 * time.Second)
	if n := a.Stats(a.clock()).Running["jobs"]; n != 4 {
		t.Fatalf("%d run: work that runs is never cut", n)
	}
	a.done("w0")
	if o := a.work("new", 1); o.Allowed {
		t.Error("three run, and two may")
	}
	a.done("w1")
	a.done("w2")
	if o := a.work("new2", 1); !o.Allowed {
		t.Errorf("one runs, and two may: %+v", o)
	}
	r.balanced()
}

func TestAPermitLapsesWhenItsCallerIsGone(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy) // max_hold is a minute
	a := r.agent()
	a.work("silent", 1)
	a.work("alive", 1)
	g := &Group{Tenant: "acme", Permit: "short", Hold: 10 * time.Second, Takes: []DimensionCost{{"jobs", 1}}, Done: func(Outcome) {}}
	a.WantAll(a.clock(), g)
	for range 10 {
		r.run(9 * time.Second)
		if err := a.RenewPermit(a.clock(), "acme", "alive"); err != nil {
			t.Fatal(err)
		}
	}
	s := a.Stats(a.clock())
	if s.Running["jobs"] != 1 || s.Lapsed["jobs"] != 2 {
		t.Errorf("%d run and %d lapsed, want the one that gave signs of life, and 2", s.Running["jobs"], s.Lapsed["jobs"])
	}
	if err := a.RenewPermit(a.clock(), "acme", "silent"); err == nil {
		t.Error("it has lapsed: its slot may be another's")
	}
	a.done("silent")
	if n := len(a.permits); n != 3 {
		t.Errorf("%d permits are remembered", n)
	}
	a.done("alive")
	r.run(endedFor)
	a.forgetPermits(a.clock())
	if len(a.permits) != 0 || len(a.endedPermits) != 0 {
		t.Error("ended permits are remembered for ever")
	}
}

// The machine slept, and callers are faster than the tick that ends what lapsed meanwhile.
func TestAPermitThatLapsedIsNobodysBeforeAnyTick(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("renewed", 1)
	a.work("repeated", 1)
	r.now += 2 * time.Minute // max_hold is one
	if _, got := a.acquire("repeated", 0, DimensionCost{"jobs", 1}); got.Bad == nil || got.Bad.Field != "id" {
		t.Errorf("a repeat of an acquire whose permit has lapsed: %+v", got)
	}
	var unknown *UnknownIDError
	if err := a.RenewPermit(a.clock(), "acme", "renewed"); !errors.As(err, &unknown) {
		t.Errorf("renewed after it lapsed: %v", err)
	}
	if s := a.Stats(a.clock()); s.Running["jobs"] != 0 || s.Lapsed["jobs"] != 2 {
		t.Errorf("%d run and %d lapsed, want 0 and 2", s.Running["jobs"], s.Lapsed["jobs"])
	}
}

func TestARepeatedAcquireTakesNothing(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	for range 3 {
		if o := a.work("same", 2); !o.Allowed {
			t.Fatalf("%+v", o)
		}
	}
	if n := a.Stats(a.clock()).Running["jobs"]; n != 2 {
		t.Errorf("%d slots are in use, want 2", n)
	}
	if o := a.work("same", 1); o.Bad == nil || o.Bad.Field != "id" {
		t.Errorf("other terms under the id: %+v", o)
	}
	a.done("same")
	if o := a.work("same", 2); o.Bad == nil || o.Bad.Field != "id" {
		t.Errorf("a late repeat of work that has ended: %+v", o)
	}
	if o := a.work("huge", 5); !o.Denied || o.Reason != quota.TooLarge || o.Largest != 4 {
		t.Errorf("5 of 4 slots: %+v", o)
	}
}

func TestACopysWorkRunsWithoutALease(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("one", 2)
	r.run(time.Second)
	a.reincarnate(a.clock())
	a.listen()
	r.run(2 * time.Second)
	if acc := r.account("jobs"); acc.Unleased != 2 {
		t.Errorf("its leases are the original's: %+v", acc.Tally)
	}
	a.done("one")
	r.run(2 * time.Second)
	if acc := r.account("jobs"); acc.Unleased != 0 {
		t.Errorf("that work has ended: %+v", acc.Tally)
	}
	r.balanced()
}

func TestD6AStopGivesBackIdleSlotsAndReportsWhatRuns(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	a.work("runs", 1)
	a.work("ends", 2)
	a.done("ends")
	_, waits := a.acquire("waits", time.Minute, DimensionCost{"jobs", 4})
	a.Stop(a.clock())
	if !waits.Unavailable {
		t.Errorf("who waits is told at once: %+v", waits)
	}
	if o := a.work("late", 1); !o.Unavailable {
		t.Errorf("nothing starts any more: %+v", o)
	}
	r.run(200 * time.Millisecond)
	if acc := r.account("jobs"); acc.Headroom() != 3 || acc.Settled() != 1 || !a.Owes() {
		t.Errorf("one runs: %+v", acc.Tally)
	}
	a.done("runs")
	r.run(200 * time.Millisecond)
	if acc := r.account("jobs"); acc.Headroom() != 4 || a.Owes() {
		t.Errorf("it has ended in time: %+v", acc.Tally)
	}
	r.balanced()
}

func TestSlotsAreNotTakenLikeUnits(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	r.run(100 * time.Millisecond)
	if o := a.take("jobs", 1); o.Bad == nil || o.Bad.Field != "dimension" {
		t.Errorf("a take of a slot that nobody would give back: %+v", o)
	}
	_, got := a.acquire("", 0, DimensionCost{"jobs", 1})
	if got.Bad == nil {
		t.Errorf("the same of several: %+v", got)
	}
	if o := a.take("jobs", 0); !o.Allowed || o.Limit != 4 {
		t.Errorf("a look is free: %+v", o)
	}
}

func TestOpenModeStartsWorkAndCountsIt(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy+"    outage: {mode: open, after: 2s, for: 1m}\n")
	a := r.agent()
	a.work("leased", 4)
	r.down = true
	r.run(5 * time.Second)
	for i := range 6 {
		if o := a.work(fmt.Sprint("open", i), 1); !o.Allowed || o.Reason != quota.OpenMode {
			t.Fatalf("marked, and beyond the limit: %+v", o)
		}
	}
	r.down = false
	r.run(2 * time.Second)
	if acc := r.account("jobs"); acc.Unleased != 6 {
		t.Errorf("six run without a lease: %+v", acc.Tally)
	}
	for i := range 6 {
		a.done(fmt.Sprint("open", i))
	}
	r.run(2 * time.Second)
	if acc := r.account("jobs"); acc.Unleased != 0 || acc.Settled()+acc.Held != 4 {
		t.Errorf("they have ended: %+v", acc.Tally)
	}
	r.balanced()
}
