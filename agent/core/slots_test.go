package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

const jobPolicy = `
dimensions:
  - name: jobs
    kind: concurrency
    limit: 4
    max_hold: 1m
    class: hard
    overshoot: 50%
    lease: {ttl: 3s, grace: 1s}
`

func TestSlotsAreHeldWhileWorkRunsAndGivenBackAfter(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a, b := r.agent(), r.agent()
	for i := range 3 {
		if o := a.work(fmt.Sprint("job", i), 1); !o.Allowed {
			t.Fatalf("job %d: %+v", i, o)
		}
	}
	if o := b.work("other", 1); !o.Allowed {
		t.Fatalf("the fourth slot: %+v", o)
	}
	for _, agent := range []*realAgent{a, b} {
		if o := agent.work("late", 1); !o.Denied || o.Reason != quota.Exhausted || o.RetryIn != 0 {
			t.Errorf("all slots are in use, and nobody knows until when: %+v", o)
		}
	}
	r.run(20 * time.Second) // many ttls: renewals keep what runs
	if acc := r.account("jobs"); acc.Settled() != 4 || acc.Held+acc.Uncertain+acc.Outstanding != 0 {
		t.Fatalf("the ledger has %+v, want 4 in use", acc.Tally)
	}
	a.done("job0")
	if o := a.work("next", 1); !o.Allowed {
		t.Errorf("a slot was given up here: %+v", o)
	}
	a.done("job1")
	a.done("job1")
	if got := a.Stats(a.clock()).Running["jobs"]; got != 2 {
		t.Errorf("%d run, want 2: to give back twice is to give back once", got)
	}
	r.until("the freed slot is the other agent's", func() bool { return b.work(fmt.Sprint("b", r.now), 1).Allowed })
	r.run(time.Second)
	if acc := r.account("jobs"); acc.Settled() != 4 {
		t.Errorf("the ledger has %+v, want 4 in use", acc.Tally)
	}
	r.balanced()
}

func TestF8WaitingForASlotIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	if o := a.work("big", 4); !o.Allowed {
		t.Fatal(o)
	}
	_, first := a.acquire("first", time.Minute, DimensionCost{"jobs", 3})
	_, second := a.acquire("second", time.Minute, DimensionCost{"jobs", 1})
	r.run(10 * time.Second)
	if first.Allowed || second.Allowed || first.Denied {
		t.Fatal("they wait", first, second)
	}
	a.done("big")
	if !first.Allowed || !second.Allowed {
		t.Errorf("woken by the release itself: %+v, %+v", first, second)
	}
	_, large := a.acquire("large", time.Minute, DimensionCost{"jobs", 2})
	_, small := a.acquire("small", time.Minute, DimensionCost{"jobs", 1})
	a.done("second")
	r.run(time.Second)
	if large.Allowed || small.Allowed {
		t.Error("a small one passed a large one, which would starve")
	}
	a.done("first")
	if !large.Allowed || !small.Allowed {
		t.Errorf("3 slots for 2 and 1: %+v, %+v", large, small)
	}
}

func TestF8ASlotFreedElsewhereWakesWhoWaits(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a, b := r.agent(), r.agent()
	if o := a.work("all", 4); !o.Allowed {
		t.Fatal(o)
	}
	_, got := b.acquire("waits", time.Minute, DimensionCost{"jobs", 1})
	r.run(5 * time.Second)
	a.done("all")
	freed := r.now
	r.until("the other agent's caller starts", func() bool { return got.Allowed })
	if took := r.now - freed; took > 200*time.Millisecond {
		t.Errorf("%s after the slot was free", took)
	}
}

func TestF7AStormOfCallersForSlots(t *testing.T) {
	t.Parallel()
	r := newReal(t, strings.Replace(jobPolicy, "limit: 4", "limit: 1000", 1))
	a := r.agent()
	r.run(100 * time.Millisecond)
	began := 0
	for i := range 1500 {
		g := &Group{Tenant: "acme", Permit: fmt.Sprint(i), Wait: time.Minute, Takes: []DimensionCost{{"jobs", 1}}}
		g.Done = func(o Outcome) {
			if o.Allowed {
				began++
			}
		}
		a.WantAll(a.clock(), g)
	}
	r.run(time.Second)
	if asks := a.asksSent; began != 1000 || asks > 5 {
		t.Errorf("%d of 1000 began, with %d asks", began, asks)
	}
	if n := len(a.Table.Find(quota.Key{Tenant: "acme", Dimension: "jobs"}).slots.leases); n > 5 {
		t.Errorf("%d leases for a storm", n)
	}
	for i := range 500 {
		a.done(fmt.Sprint(i))
	}
	if began != 1500 {
		t.Errorf("%d of 1500 began", began)
	}
}

func TestARaisedLimitIsNotTooLargeForLong(t *testing.T) {
	t.Parallel()
	r := newReal(t, jobPolicy)
	a := r.agent()
	if o := a.work("six", 6); o.Reason != quota.TooLarge {
		t.Fatalf("%+v", o)
	}
	r.apply(strings.Replace(jobPolicy, "limit: 4", "limit: 8", 1))
	r.run(time.Second)
	if o := a.work("six again", 6); !o.Allowed {
		t.Errorf("6 of 8 slots: %+v", o)
	}
}
