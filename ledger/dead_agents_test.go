package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Of five agents two die and one idles. Until the leases of the dead close, after ttl + grace, and a
// little longer they count as agents; then their share of grants is the others', as is that of the idle one, and
// what they had in hand is where the class says.
func TestM5TwoOfFiveAgentsDieAndOneIdles(t *testing.T) {
	t.Parallel()
	for class, want := range map[quota.Class]books{
		quota.Hard:       {H: 40, A: 10_000 - 40},
		quota.Bounded:    {H: 40, A: 10_000 - 40},
		quota.BestEffort: {U: 40, A: 10_000},
	} {
		d := open(t, class, 10_000, 100)
		d.terms.TTL, d.terms.Grace = 2*time.Minute, 10*time.Second
		ask := func(n uint64) ledger.Grant {
			var ans ledger.Answer
			x := d.newAsk(agent(n), 1_000, 1)
			d.must(d.update(ledger.Scope{Agents: []ledger.ID{x.Agent}}, func(b *ledger.Book) (err error) {
				ans, err = b.Ask(x, d.terms, func(r ledger.Room) ledger.Units { return r.Budget.Units/ledger.Units(r.Agents) - r.Holds })
				return err
			}))
			return ans.Grant
		}
		giveBack := func(g ledger.Grant) { d.report(g, 0, 0, g.Amount, true) }
		for n := range uint64(5) {
			giveBack(ask(n)) // all five are there
		}
		var held []ledger.Grant
		for n := range uint64(5) {
			g := ask(n)
			if g.Amount != 20 {
				t.Fatalf("%v: agent %d is granted %d, want floor(100/5)", class, n, g.Amount)
			}
			held = append(held, g)
		}
		// 0 and 1 die at once, 4 has nothing to do and gives back. 2 and 3 go on.
		for _, g := range held[2:] {
			giveBack(g)
		}
		for _, after := range []struct {
			wait  time.Duration
			share ledger.Units
		}{
			{2 * time.Minute, 20},                   // the dead may have units in hand
			{10*time.Second - time.Millisecond, 20}, // still
			{time.Millisecond, 20},                  // ttl + grace: so long they must count, and
			{130*time.Second/16 - time.Millisecond, 20},
			{time.Millisecond, 50}, // a sixteenth longer, as notes may be older: their share is the others'
		} {
			d.expire(after.wait)
			g := ask(2)
			giveBack(ask(3))
			if g.Amount != after.share {
				t.Errorf("%v: granted %d at %s, want %d", class, g.Amount, d.now.Sub(start), after.share)
			}
			giveBack(g)
		}
		d.want(want)
	}
}
