package controlplane

import (
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const historyPolicy = `
dimensions:
  - {name: hard, kind: period, limit: 60, period: {every: hour}, class: hard, overshoot: 50%, lease: {ttl: 10s}}
  - {name: bounded, kind: period, limit: 60, period: {every: hour}, class: bounded, overshoot: 20, lease: {ttl: 10s}}
  - {name: effort, kind: period, limit: 60, period: {every: hour}, class: best_effort, overshoot: 20, lease: {ttl: 10s}}
  - {name: exact, kind: period, limit: 60, period: {every: hour}, class: exact}
`

// caller is an agent that spends what it is granted, at once, and hears only some answers.
type caller struct {
	*agent
	sent []*pb.SyncRequest       // any of which may arrive again
	used map[string]*pb.Report   // what it will report, by grant
	said map[string]*pb.Decision // first answers
}

// spot is one account, as tests name it.
type spot struct {
	dimension string
	start     int64
}

// TestHistoriesKeepEveryBound drives replicas with lost, repeated and reordered Syncs, crashes
// and sweeps, and holds what was truly used against the bound of each class.
func TestHistoriesKeepEveryBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, historyPolicy)
		used := map[spot]int64{}
		var callers []*caller
		start := func() {
			callers = append(callers, &caller{agent: w.agent(), used: map[string]*pb.Report{}, said: map[string]*pb.Decision{}})
		}
		start()
		pick := func() *caller { return callers[rapid.IntRange(0, len(callers)-1).Draw(rt, "caller")] }
		name := rapid.SampledFrom([]string{"hard", "bounded", "effort", "exact"})
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) { start() },
			"sync": func(rt *rapid.T) {
				c := pick()
				m := &pb.SyncRequest{Hello: c.hello(), Asks: []*pb.Ask{c.ask(name.Draw(rt, "key"), rapid.Int64Range(1, 40).Draw(rt, "want"))}}
				for _, id := range slices.Sorted(maps.Keys(c.used)) {
					if rapid.Bool().Draw(rt, "reports") {
						m.Reports = append(m.Reports, c.used[id])
					}
				}
				c.sent = append(c.sent, m)
				c.deliver(rt, m, used)
			},
			"again": func(rt *rapid.T) {
				c := pick()
				if len(c.sent) > 0 {
					c.deliver(rt, rapid.SampledFrom(c.sent).Draw(rt, "sent"), used)
				}
			},
			"spend": func(rt *rapid.T) {
				c := pick()
				key := acme(name.Draw(rt, "key"))
				d := c.spend(&pb.SpendItem{SpendId: w.id().Bytes(), Key: key, Cost: rapid.Int64Range(1, 20).Draw(rt, "cost")}).Decisions[0]
				used[spot{key.Dimension, d.Window.StartUs}] += d.Amount
			},
			"wait": func(rt *rapid.T) {
				w.ledger.move(time.Duration(rapid.IntRange(1, 900).Draw(rt, "seconds")) * time.Second)
			},
			"sweep": func(rt *rapid.T) {
				if _, err := w.cp.Sweep(t.Context()); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				w.checkBounds(rt, used)
			},
		})
	})
}

// deliver sends a message; the answer may be lost. Grants that arrive are spent in full.
func (c *caller) deliver(rt *rapid.T, m *pb.SyncRequest, used map[spot]int64) {
	reply, err := c.cp.Desk().Sync(c.t.Context(), m)
	if err != nil {
		rt.Fatalf("sync: %v", err)
	}
	for i, d := range reply.Decisions {
		id := string(d.GrantId)
		if first, told := c.said[id]; told && (first.Amount != d.Amount || first.Reason != d.Reason || first.Generation != d.Generation || first.IssuedAtUs != d.IssuedAtUs || !proto.Equal(first.Window, d.Window)) {
			rt.Fatalf("answers to one ask: %v, then %v", first, d)
		}
		c.said[id] = d
		heard := rapid.Bool().Draw(rt, "heard")
		if heard && d.RemainingUs > 0 && c.used[id] == nil {
			used[spot{m.Asks[i].Key.Dimension, d.Window.StartUs}] += d.Amount
			c.used[id] = usedUp(d, m.Asks[i].Key)
		}
	}
	if len(reply.Token) > 0 && rapid.Bool().Draw(rt, "token") {
		c.token = reply.Token
	}
}

// checkBounds holds what callers used against what the ledger says a window can end with, and
// that against what the class promises: nothing above the limit of 60, or the budget of 20.
func (w *world) checkBounds(rt *rapid.T, used map[spot]int64) {
	found, err := w.store.Accounts(w.t.Context(), ledger.AccountQuery{})
	if err != nil {
		rt.Fatal(err)
	}
	most := map[quota.Class]int64{quota.Exact: 60, quota.Hard: 60, quota.Bounded: 80, quota.BestEffort: 80}
	for _, a := range found {
		at := spot{a.ID.Key.Dimension, micros(a.ID.Window.Start)}
		if n := used[at]; n > windowBound(a) || n > most[a.Class] || n > int64(a.Bound()) {
			rt.Fatalf("%v: %d used, bound now %d, at the end %d, by class %d: %+v", a.ID, n, a.Bound(), windowBound(a), most[a.Class], a.Tally)
		}
	}
	_, err = w.store.Verify(w.t.Context(), func(d ledger.Difference) { rt.Errorf("ledger: %v", d) }, func(int, int) {})
	if err != nil {
		rt.Fatal(err)
	}
}
