package ledger_test

import (
	"context"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// TestRateHistories drives random histories of a rate key with two agents: lost and slow
// replies, reports that come late or never, trickles, vanished agents. It counts when units were
// really used, and holds every interval to burst + rate*t + B, and every answer to a bucket of
// rational numbers.
func TestRateHistories(t *testing.T) {
	t.Parallel()
	rates := []quota.Rate{
		{Units: 1, Per: 24 * time.Hour}, {Units: 7, Per: 3 * time.Second}, perSecond(10), perSecond(300),
		{Units: 1000, Per: time.Minute}, perSecond(1_000_000),
	}
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.SampledFrom(rates).Draw(rt, "rate")
		burst := rapid.SampledFrom([]ledger.Units{1, 5, 20, 100}).Draw(rt, "burst")
		budget := rapid.SampledFrom([]ledger.Units{0, 3, 10, 40, 200}).Draw(rt, "budget")
		class := rapid.SampledFrom([]quota.Class{quota.Hard, quota.Bounded, quota.BestEffort}).Draw(rt, "class")
		w := &rateWorld{desk: openRate(rt, class, rate, burst, budget)}
		w.store.SetRetention(10_000 * 24 * time.Hour)
		w.level, w.at = whole128(burst), w.now
		w.join()
		w.join()
		rt.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) {},
			"pass":      w.doPass,
			"pass more": w.doPass,
			"ask":       w.doAsk,
			"ask more":  w.doAsk,
			"use":       w.doUse,
			"use more":  w.doUse,
			"use it up": w.doUseUp,
			"return":    w.doReturn,
			"seal":      w.doSeal,
			"report":    w.doReport,
			"deliver":   w.doDeliver,
			"spend":     w.doSpend,
			"withdraw":  w.doWithdraw,
			"vanish":    w.doVanish,
			"sweep":     func(*rapid.T) { w.expire(0) },
			"stall":     w.doStall,
			"hoard":     w.doHoard,
			"rush":      w.doRush,
			"rush more": w.doRush,
		})
		w.checkIntervals()
		w.verify()
	})
}

// rateWorld is what an observer of everything sees.
type rateWorld struct {
	*desk
	agents  []*rateAgent
	born    uint64
	network []func()
	uses    []use

	level *big.Rat // of an ideal bucket
	at    time.Time
}

type use struct {
	at time.Time
	n  ledger.Units
}

// used counts what was used now, or undone if n is below zero.
func (w *rateWorld) used(n ledger.Units) {
	if last := len(w.uses) - 1; last >= 0 && w.uses[last].at.Equal(w.now) {
		w.uses[last].n += n
		return
	}
	w.uses = append(w.uses, use{w.now, n})
}

type rateAgent struct {
	id     ledger.ID
	leases []*rateLease
	asks   []*rateAsk
}

type rateAsk struct {
	ledger.Ask
	sent time.Time
	over bool
}

// rateLease is a lease as its agent holds it.
type rateLease struct {
	ledger.Grant
	stops, heard    time.Time
	taken, returned ledger.Units
	told            ledger.Units // of both, in a rush
	sealed          bool
}

// usable is what may be used now: what has been released, and is neither used nor returned.
func (l *rateLease) usable(now time.Time) ledger.Units {
	if l.sealed || !now.Before(l.stops) {
		return 0
	}
	released := l.Amount
	if since := now.Sub(l.heard) - l.Delay; since < l.Drip {
		released = ledger.Units(int64(l.Amount) * max(0, int64(since)) / int64(l.Drip))
	}
	return max(0, min(released, l.Amount-l.returned)-l.taken)
}

func (w *rateWorld) join() {
	w.born++
	w.agents = append(w.agents, &rateAgent{id: agent(w.born)})
}

func whole128(n ledger.Units) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }

// comes is what a rate brings in a time.
func (w *rateWorld) comes(in time.Duration) *big.Rat {
	r := big.NewRat(int64(w.terms.Rate.Units), int64(w.terms.Rate.Per))
	return r.Mul(r, big.NewRat(int64(in), 1))
}

func (w *rateWorld) doPass(rt *rapid.T) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{
		time.Microsecond, ms, 60 * ms, 100 * ms, 333 * ms, time.Second, 2 * time.Second, 29 * time.Second, 40 * time.Second, 25 * time.Hour,
	}).Draw(rt, "by"))
	w.flow()
}

// flow brings the ideal bucket to the present.
func (w *rateWorld) flow() {
	w.level.Add(w.level, w.comes(w.now.Sub(w.at)))
	w.at = w.now
	w.clamp()
}

func (w *rateWorld) clamp() {
	if full := whole128(w.terms.Limit.Units); w.level.Cmp(full) > 0 {
		w.level = full
	}
}

func (w *rateWorld) anyAgent(rt *rapid.T) *rateAgent { return pick(rt, "agent", w.agents) }

func (w *rateWorld) anyLease(rt *rapid.T) *rateLease {
	a := w.anyAgent(rt)
	if len(a.leases) == 0 {
		rt.Skip("no lease")
	}
	return pick(rt, "lease", a.leases)
}

func (w *rateWorld) doAsk(rt *rapid.T) {
	a := w.anyAgent(rt)
	want := amount(rt, 50)
	ask := &rateAsk{Ask: w.newAsk(a.id, want, amount(rt, want)), sent: w.now}
	a.asks = append(a.asks, ask)
	w.network = append(w.network, func() { w.deliverAsk(a, ask, false) })
	if rapid.Bool().Draw(rt, "at once") {
		w.deliverAsk(a, ask, rapid.Bool().Draw(rt, "reply lost"))
	}
}

func (w *rateWorld) deliverAsk(a *rateAgent, ask *rateAsk, lost bool) {
	before := w.peekState()
	ans, err := w.tryAsk(ask.Ask)
	w.must(err)
	w.checkAnswer(before, ans)
	if lost || ask.over || !ans.Approved() {
		return
	}
	ask.over = true
	a.leases = append(a.leases, &rateLease{Grant: ans.Grant, stops: ask.sent.Add(w.terms.TTL), heard: w.now})
}

// peekState closes what is due, and is the account after it.
func (w *rateWorld) peekState() ledger.Account {
	w.expire(0)
	return w.state()
}

func (w *rateWorld) doUse(rt *rapid.T) {
	l := w.anyLease(rt)
	n := amount(rt, l.usable(w.now))
	l.taken += n
	w.used(n)
}

func (w *rateWorld) doUseUp(*rapid.T) {
	for _, a := range w.agents {
		for _, l := range a.leases {
			if n := l.usable(w.now); n > 0 {
				l.taken += n
				w.used(n)
			}
		}
	}
}

func (w *rateWorld) doReturn(rt *rapid.T) {
	l := w.anyLease(rt)
	if l.sealed {
		rt.Skip("sealed")
	}
	l.returned += amount(rt, l.Amount-l.taken-l.returned)
}

func (w *rateWorld) doSeal(rt *rapid.T) {
	l := w.anyLease(rt)
	if !l.sealed {
		l.sealed, l.returned = true, l.Amount-l.taken
	}
}

func (w *rateWorld) doReport(rt *rapid.T) {
	l := w.anyLease(rt)
	r := reportOf(l.Grant, l.taken, 0, l.returned, l.sealed)
	w.network = append(w.network, func() { w.deliverReport(r) })
	if rapid.Bool().Draw(rt, "at once") {
		w.deliverReport(r)
	}
}

func (w *rateWorld) deliverReport(r ledger.Report) {
	was := w.grant(r.ID)
	after, err := w.tryReport(r)
	w.must(err)
	w.gaveBack(was, after)
}

// doDeliver delivers what is under way, in any order, and maybe once more later.
func (w *rateWorld) doDeliver(rt *rapid.T) {
	if len(w.network) == 0 {
		rt.Skip("nothing is under way")
	}
	i := rapid.IntRange(0, len(w.network)-1).Draw(rt, "message")
	deliver := w.network[i]
	if rapid.Bool().Draw(rt, "once") {
		w.network = append(w.network[:i:i], w.network[i+1:]...)
	}
	deliver()
}

func (w *rateWorld) doSpend(rt *rapid.T) {
	s := w.newSpend(w.anyAgent(rt).id, amount(rt, 50))
	before := w.peekState()
	ans, err := w.trySpend(s)
	w.must(err)
	w.checkAnswer(before, ans)
	if !ans.Approved() {
		return
	}
	w.used(s.Cost)
	if rapid.Bool().Draw(rt, "refunded") {
		w.must(w.cancel(s.ID, s.Agent))
		w.used(-s.Cost)
		w.level.Add(w.level, whole128(s.Cost))
		w.clamp()
	}
}

// doWithdraw cancels what an agent still waits for.
func (w *rateWorld) doWithdraw(rt *rapid.T) {
	for _, ask := range w.anyAgent(rt).asks {
		if ask.over {
			continue
		}
		ask.over = true
		cancel := func() {
			was := w.recordOf(ask.ID)
			w.must(w.cancel(ask.ID, ask.Agent))
			w.gaveBack(was, w.grant(ask.ID))
		}
		w.network = append(w.network, cancel)
		return
	}
	rt.Skip("nobody waits")
}

// recordOf is the record of an id, or a zero one.
func (w *rateWorld) recordOf(id ledger.ID) ledger.Grant {
	list, err := w.store.Grants(context.Background(), ledger.GrantQuery{ID: id})
	w.must(err)
	if len(list) == 0 {
		return ledger.Grant{}
	}
	return list[0]
}

func (w *rateWorld) doVanish(rt *rapid.T) {
	i := rapid.IntRange(0, len(w.agents)-1).Draw(rt, "agent")
	for _, ask := range w.agents[i].asks {
		ask.over = true
	}
	w.agents = append(w.agents[:i:i], w.agents[i+1:]...)
	w.join()
}

// The three acts below are those of one who wants as much as there is at once: units that are
// accounted for late, leases that lie ready while the bucket fills, and all of it used.

func (w *rateWorld) doStall(*rapid.T) {
	for _, a := range w.agents {
		for _, l := range a.leases {
			if !l.sealed {
				l.sealed, l.returned = true, l.Amount-l.taken
				r := reportOf(l.Grant, l.taken, 0, l.returned, true)
				w.network = append(w.network, func() { w.deliverReport(r) })
			}
		}
	}
	w.now = w.now.Add(40 * time.Second)
	w.flow()
}

func (w *rateWorld) doHoard(rt *rapid.T) {
	for range 3 {
		for _, a := range w.agents {
			w.grab(a, 50, 1)
		}
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 9 * time.Second}).Draw(rt, "by"))
		w.flow()
	}
}

func (w *rateWorld) doRush(rt *rapid.T) {
	need := amount(rt, 50)
	for range 3 {
		w.doUseUp(rt)
		for _, a := range w.agents {
			a.leases = slices.DeleteFunc(a.leases, func(l *rateLease) bool {
				spent := l.sealed || l.taken+l.returned == l.Amount
				if l.told != l.taken+l.returned || spent {
					l.told = l.taken + l.returned
					w.deliverReport(reportOf(l.Grant, l.taken, 0, l.returned, spent))
				}
				return spent
			})
			w.grab(a, 50, need)
		}
		for _, deliver := range w.network {
			deliver()
		}
		w.network = nil
	}
}

// grab asks, and hears the answer at once.
func (w *rateWorld) grab(a *rateAgent, want, need ledger.Units) {
	ask := &rateAsk{Ask: w.newAsk(a.id, want, need), sent: w.now}
	a.asks = append(a.asks, ask)
	w.deliverAsk(a, ask, false)
}
