package ledger_test

import (
	"math/big"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// checkAnswer holds a decision to the ideal bucket and the budget.
func (w *rateWorld) checkAnswer(before ledger.Account, ans ledger.Answer) {
	g := ans.Grant
	if ans.Repeated {
		if w.state().Tally != before.Tally || w.state().Bucket.Spent > before.Bucket.Spent {
			w.Fatalf("a repeat took from the bucket: %+v to %+v", before, w.state())
		}
		return
	}
	need, soon := whole128(g.Need), new(big.Rat).Add(w.level, w.comes(2*time.Second))
	lease := g.Kind == ledger.KindLease
	room := w.terms.Budget.Units - before.Outstanding
	if g.Amount == 0 {
		switch {
		case g.Need > w.terms.Limit.Units:
			w.wantRetry(ans, quota.TooLarge, 0)
		case need.Cmp(w.level) <= 0:
			w.wantRetry(ans, quota.ExactLane, 0)
			if !lease || g.Need <= room {
				w.Fatalf("denied %d with a level of %v and room for %d", g.Need, w.level, room)
			}
		default:
			w.wantReason(ans, quota.Exhausted)
			if lease && need.Cmp(soon) <= 0 && g.Need <= room {
				w.Fatalf("denied %d, of which the bucket has %v now and %v soon", g.Need, w.level, soon)
			}
			w.checkRetry(ans.RetryIn, need)
		}
		return
	}
	if lease && g.Amount > room {
		w.Fatalf("leased %d with room for %d in the budget", g.Amount, room)
	}
	w.checkRelease(g)
	w.level.Sub(w.level, whole128(g.Amount))
}

func (w *rateWorld) checkRetry(wait time.Duration, need *big.Rat) {
	then := func(in time.Duration) *big.Rat { return new(big.Rat).Add(w.level, w.comes(in)) }
	if then(wait).Cmp(need) < 0 || wait > 0 && then(wait-1).Cmp(need) >= 0 {
		w.Fatalf("%v are in the bucket; told to come back for %v in %s", w.level, need, wait)
	}
}

// checkRelease: no unit of a grant may be used before the bucket had it.
func (w *rateWorld) checkRelease(g ledger.Grant) {
	amount := whole128(g.Amount)
	short := new(big.Rat).Sub(amount, w.level)
	if short.Sign() <= 0 {
		if g.Delay != 0 || g.Drip != 0 {
			w.Fatalf("%d of %v wait %s and drip %s", g.Amount, w.level, g.Delay, g.Drip)
		}
		return
	}
	if g.Kind == ledger.KindSpend || g.Drip <= 0 || g.Delay+g.Drip > 2*time.Second+time.Microsecond {
		w.Fatalf("%d of %v wait %s and drip %s", g.Amount, w.level, g.Delay, g.Drip)
	}
	if w.comes(g.Delay+g.Drip).Cmp(short) < 0 || w.level.Sign() < 0 && w.comes(g.Delay).Cmp(new(big.Rat).Neg(w.level)) < 0 {
		w.Fatalf("%d of %v are released early: after %s over %s", g.Amount, w.level, g.Delay, g.Drip)
	}
}

// gaveBack fills the ideal bucket with what a live lease returned.
func (w *rateWorld) gaveBack(was, after ledger.Grant) {
	if was.State == ledger.Live {
		w.level.Add(w.level, whole128(after.Back-was.Back))
		w.clamp()
	}
	if got, want := w.level128(), new(big.Rat).Set(w.level); got.Cmp(want) > 0 || new(big.Rat).Sub(want, got).Cmp(whole128(1)) >= 0 {
		w.Fatalf("the bucket holds %v, want %v in whole units", got, want)
	}
}

func (w *rateWorld) level128() *big.Rat { return whole128(w.desk.level()) }

// checkIntervals is section 5's promise.
func (w *rateWorld) checkIntervals() {
	most := whole128(w.terms.Limit.Units + w.terms.Budget.Units)
	for first := range w.uses {
		sum := ledger.Units(0)
		for _, u := range w.uses[first:] {
			sum += u.n
			bound := w.comes(u.at.Sub(w.uses[first].at))
			if bound.Add(bound, most); whole128(sum).Cmp(bound) > 0 {
				w.Fatalf("%d used in %s, at most %v may be: %+v", sum, u.at.Sub(w.uses[first].at), bound, w.uses[first:])
			}
		}
	}
}
