package ledger_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// potNode is an agent that lives through outages on its allowances.
type potNode struct {
	id      ledger.ID
	buckets []*bucket
}

// TestThePotHoldsWhateverHappens: however many agents come, crash and start again, and however
// often an outage comes, what all callers used in a window without the ledger is at most its pot.
func TestThePotHoldsWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		pot := rapid.SampledFrom([]ledger.Units{0, 1, 7, 30, 100}).Draw(rt, "pot")
		class := rapid.SampledFrom([]quota.Class{quota.Hard, quota.Bounded, quota.BestEffort}).Draw(rt, "class")
		d := openPot(rt, class, 200, pot)
		d.apply(func(*ledger.Terms) {})
		w := &potWorld{desk: d, pot: pot, used: map[ledger.AccountID]ledger.Units{}}
		w.play(rt)
	})
}

type potWorld struct {
	*desk
	pot     ledger.Units // the largest there was
	nodes   []*potNode   // alive
	lost    []*potNode
	born    uint64
	used    map[ledger.AccountID]ledger.Units // by callers, of allowances, undone uses aside
	network []func()
}

func (w *potWorld) play(rt *rapid.T) {
	for range 3 {
		w.join()
	}
	rt.Repeat(map[string]func(*rapid.T){
		"":          func(*rapid.T) { w.check() },
		"ask":       w.doAsk,
		"ask more":  w.doAsk,
		"use":       w.doUse,
		"use more":  w.doUse,
		"undo":      w.doUndo,
		"give back": w.doGiveBack,
		"report":    w.doReport,
		"deliver":   w.doDeliver,
		"restart":   w.doRestart,
		"more":      func(*rapid.T) { w.join() },
		"pot":       w.doPot,
		"pass":      w.doPass,
		"sweep":     func(*rapid.T) { w.sweep() },
	})
	w.settle()
}

func (w *potWorld) join() {
	w.born++
	w.nodes = append(w.nodes, &potNode{id: agent(w.born)})
}

func (w *potWorld) within(id ledger.AccountID, act func()) {
	present := w.account
	w.account = id
	act()
	w.account = present
}

func (w *potWorld) send(rt *rapid.T, deliver func()) {
	w.network = append(w.network, deliver)
	if rapid.Bool().Draw(rt, "at once") {
		deliver()
	}
}

func (w *potWorld) doDeliver(rt *rapid.T) {
	if len(w.network) == 0 {
		rt.Skip("silence")
	}
	pick(rt, "message", w.network)()
}

// doAsk asks for the present window's allowance or the next one's; the answer may be lost, and
// the ask given up for it.
func (w *potWorld) doAsk(rt *rapid.T) {
	n := pick(rt, "node", w.nodes)
	ask := w.newEmergency(n.id, amount(rt, 25), 1)
	if rapid.Bool().Draw(rt, "the next") {
		end := w.account.Window.End
		ask.Account.Window = quota.NewWindow(end, end.Add(24*time.Hour))
	}
	over := false
	w.send(rt, func() {
		w.within(ask.Account, func() {
			ans, err := w.tryAsk(ask)
			if err != nil && !errors.Is(err, ledger.ErrWindow) {
				w.Fatalf("ask: %v", err)
			}
			switch fate := rapid.SampledFrom([]string{"heard", "heard", "lost", "given up"}).Draw(rt, "answer"); {
			case err != nil || over || fate == "lost":
			case fate == "given up":
				over = true
				w.network = append(w.network, func() { w.within(ask.Account, func() { w.must(w.cancel(ask.ID, ask.Agent)) }) })
			case ans.Approved():
				over = true
				n.buckets = append(n.buckets, &bucket{Grant: ans.Grant})
				if ans.Grant.State != ledger.Live { // ended before its agent heard of it
					n.buckets[len(n.buckets)-1].seal()
				}
			}
		})
	})
}

func (w *potWorld) anyBucket(rt *rapid.T) *bucket {
	n := pick(rt, "node", w.nodes)
	if len(n.buckets) == 0 {
		rt.Skip("no allowance")
	}
	return pick(rt, "allowance", n.buckets)
}

func (w *potWorld) doUse(rt *rapid.T) {
	b := w.anyBucket(rt)
	if w.now.Before(b.StartsAt) || !w.now.Before(b.ExpiresAt) {
		rt.Skip("not its window")
	}
	n := amount(rt, b.left())
	b.taken += n
	w.used[b.Account] += n
}

func (w *potWorld) doUndo(rt *rapid.T) {
	b := w.anyBucket(rt)
	n := amount(rt, b.taken-b.refunded)
	b.refunded += n
	if b.sealed {
		b.returned += n
	}
	w.used[b.Account] -= n
}

func (w *potWorld) doGiveBack(rt *rapid.T) {
	b := w.anyBucket(rt)
	if rapid.Bool().Draw(rt, "all") {
		b.seal()
		return
	}
	b.returned += amount(rt, b.left())
}

func (w *potWorld) doReport(rt *rapid.T) {
	r := w.anyBucket(rt).report()
	w.send(rt, func() { w.deliver(r) })
}

func (w *potWorld) deliver(r ledger.Report) {
	w.within(r.Account, func() {
		_, err := w.tryReport(r)
		w.must(err)
	})
}

// doRestart ends an agent without a word, and starts it with nothing.
func (w *potWorld) doRestart(rt *rapid.T) {
	n := pick(rt, "node", w.nodes)
	w.lost = append(w.lost, &potNode{id: n.id, buckets: n.buckets})
	w.born++
	n.id, n.buckets = agent(w.born), nil
}

func (w *potWorld) doPot(rt *rapid.T) {
	pot := rapid.SampledFrom([]ledger.Units{0, 5, 30, 100}).Draw(rt, "pot")
	w.pot = max(w.pot, pot)
	w.apply(func(t *ledger.Terms) { t.Pot = pot })
}

func (w *potWorld) doPass(rt *rapid.T) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Minute, 6 * time.Hour}).Draw(rt, "lapse"))
	for !w.account.Window.Contains(w.now) {
		end := w.account.Window.End
		w.account.Window = quota.NewWindow(end, end.Add(24*time.Hour))
	}
	w.must(w.update(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Open(w.account, w.terms)
		return err
	}))
}

func (w *potWorld) sweep() {
	for id := range w.used {
		w.within(id, func() { w.expire(0) })
	}
}

func (w *potWorld) check() {
	w.verify()
	for id, used := range w.used {
		a := w.stateOf(id)
		switch {
		case used > w.pot:
			w.Fatalf("%d used in an outage, the pot is %d", used, w.pot)
		case used > a.Emergency:
			w.Fatalf("%d used in an outage, E is %d", used, a.Emergency)
		case a.Emergency > w.pot:
			w.Fatalf("E is %d, the pot %d", a.Emergency, w.pot)
		case used > a.Bound():
			w.Fatalf("%d used, the ledger accounts for %d", used, a.Bound())
		case a.Unleased != 0 || a.Outstanding != 0 || a.Held != 0 || a.Uncertain != 0 || a.Granted != 0:
			w.Fatalf("allowances are in %+v", a.Tally)
		}
	}
}

// settle: when every living agent has said all, E is what was used, and what the lost ones had.
func (w *potWorld) settle() {
	for _, late := range w.network {
		late()
	}
	w.sweep()
	w.check()
	for _, n := range w.nodes {
		for _, b := range n.buckets {
			b.seal()
			w.deliver(b.report())
			if got := w.grant(b.ID); got.State != ledger.Final || got.Tally().Emergency != b.taken-b.refunded {
				w.Fatalf("all is said of %+v", got)
			}
		}
	}
	w.check()
}
