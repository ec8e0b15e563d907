package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// truth is what callers were really allowed, and what they may have been, by window: the one
// that ends at the boundary, and the next.
type truth struct {
	used    [windows]int64
	largest [windows]int64 // Q + U, the most that it was at any grant or spend
	crashed bool           // what an agent knew was lost: sums may only be bounded
}

const windows = 2

func newTruth(*World) truth { return truth{} }

// windowOf is 0 for the window that ends at the boundary, 1 for the next one.
func windowOf(end time.Time) int {
	if end.After(midnight) {
		return 1
	}
	return 0
}

func (s *state) broken(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// atAgent runs what happens at an agent, and counts what its callers were allowed by it.
func (s *state) atAgent(a *agent, spend *pb.SpendReply, happen func()) {
	before := map[core.ID]int64{}
	a.core.Holdings(func(h core.Holding) { before[h.ID] = h.Taken })
	happen()
	fromLeases := int64(0)
	a.core.Holdings(func(h core.Holding) {
		if n := h.Taken - before[h.ID]; n > 0 {
			fromLeases += n
			s.used(windowOf(time.UnixMicro(h.Window.GetEndUs())), n)
			s.within(a, h.Window, "callers were given units")
		}
	})
	allowed := int64(0)
	waiting := a.callers[:0]
	for _, c := range a.callers {
		switch {
		case c.answer == nil:
			waiting = append(waiting, c)
		case c.answer.Allowed:
			allowed++
		}
	}
	clear(a.callers[len(waiting):])
	a.callers = waiting
	for _, d := range spend.GetDecisions() {
		if allowed > fromLeases && d.GetAmount() > 0 {
			s.used(windowOf(time.UnixMicro(d.GetWindow().GetEndUs())), 1)
			allowed--
		}
	}
	if allowed != fromLeases {
		s.broken("%d callers were allowed a unit, and %d were taken from leases", allowed, fromLeases)
	}
	s.check()
}

// spendable is what callers could be given of leases at this moment, by window. It holds each of
// those leases against the ledger, which must have it as live, and against its window.
func (s *state) spendable() (units [windows]int64) {
	for i, a := range s.agents {
		a.core.Holdings(func(h core.Holding) {
			if !h.Live || h.Left == 0 || s.now(a) < h.Start || s.now(a) >= h.Deadline {
				return
			}
			units[windowOf(time.UnixMicro(h.Window.GetEndUs()))] += h.Left
			g := s.books.grant(h.ID)
			switch {
			case g == nil:
				s.broken("agent %d can spend a lease that the ledger does not know", i+1)
			case g.State != ledger.Live:
				s.broken("agent %d can spend a lease that is %s in the ledger", i+1, g.State)
			case !s.ledgerClock().Before(g.ClosesAt):
				s.broken("agent %d can spend a lease that the ledger may have closed %s ago", i+1, s.ledgerClock().Sub(g.ClosesAt))
			}
			s.within(a, h.Window, "units can be spent")
		})
	}
	return units
}

// within holds use of a lease against its window, unless a clock was wrong.
func (s *state) within(a *agent, w *pb.Window, what string) {
	start, end := time.UnixMicro(w.GetStartUs()), time.UnixMicro(w.GetEndUs())
	switch now := s.trueTime(); {
	case a.slow != 0 || s.left.Setbacks < s.world.Budget.Setbacks:
	case now.Before(start):
		s.broken("%s of a window that begins in %s", what, start.Sub(now))
	case !now.Before(end):
		s.broken("%s of a window that ended %s ago", what, now.Sub(end))
	}
}

func (s *state) used(window int, n int64) { s.truth.used[window] += n }

// inLedger runs a transaction, and holds what it decided against the rules for grants.
func (s *state) inLedger(happen func()) {
	was := s.books
	happen()
	s.books = s.read()
	if s.knows == s.version && !slices.ContainsFunc(s.books.accounts, s.behind) {
		s.reconciled = s.version // there is nothing to bring to it
	}
	clocks := map[ledger.AccountID]time.Time{}
	for _, row := range was.accounts {
		clocks[row.ID] = row.Clock
	}
	for _, row := range s.books.accounts {
		if row.Clock.Before(clocks[row.ID]) {
			s.broken("the clock of %s went back", row.ID)
		}
	}
	for _, g := range s.books.grants {
		if was.grant(g.ID) != nil {
			continue
		}
		if g.IssuedAt.Before(clocks[g.Account]) {
			s.broken("%s was decided %s before what its account decided last", g.ID, clocks[g.Account].Sub(g.IssuedAt))
		}
		if g.Amount > 0 {
			i := slices.IndexFunc(s.books.accounts, func(a ledger.Account) bool { return a.ID == g.Account })
			s.granted(g, s.books.accounts[i])
		}
	}
	_, err := s.store().Verify(context.Background(),
		func(d ledger.Difference) { s.broken("the books do not add up: %s", d) }, func(int, int) {})
	s.must(err)
	s.check()
}

// behind reports an account that the control plane has yet to bring to the policy in force. Those of windows
// that are over by any clock stay as they are.
func (s *state) behind(a ledger.Account) bool {
	return a.PolicyVersion < s.version && a.ID.Window.End.After(s.world.at(s.tick-s.world.Lagging-int(s.world.Budget.Setbacks)))
}

// granted holds a new lease or spend against headroom, exposure and window, by the policy that
// is in force whatever the replica believes.
func (s *state) granted(g ledger.Grant, a ledger.Account) {
	limit := s.world.limitAt(s.version)
	if charged := int64(a.Settled() + a.Outstanding + a.Held); charged > limit {
		s.broken("a grant of %d made S + O + H = %d, above the limit in force, %d", g.Amount, charged, limit)
	}
	out := a.Outstanding
	if a.Class != quota.Hard {
		out += a.Uncertain
	}
	if g.Kind == ledger.KindLease && out > a.Budget.Units {
		s.broken("a lease of %d made the exposure %d, above the budget, %d", g.Amount, out, a.Budget.Units)
	}
	w := g.Account.Window
	if now := s.ledgerClock(); !w.Contains(now) && !s.ahead(g, now) && !now.Before(a.Clock) {
		s.broken("%d units were granted in %s at %s", g.Amount, g.Account.Window, now.Format(time.RFC3339Nano))
	}
	i := windowOf(w.End)
	s.truth.largest[i] = max(s.truth.largest[i], limit+int64(a.Uncertain))
}

// ahead reports a lease of the next window, granted in the half ttl before that begins.
func (s *state) ahead(g ledger.Grant, now time.Time) bool {
	begins := g.Account.Window.Start
	return g.Kind == ledger.KindLease && g.StartsAt.Equal(begins) && now.Before(begins) && !now.Add(g.TTL/2).Before(begins)
}

// check is the bound in both its forms (DESIGN 3.3), for every account. What callers could use at
// this moment without another word counts as if they did: no caller has to come to show it.
func (s *state) check() {
	most := s.spendable()
	for w := range windows {
		most[w] += s.truth.used[w]
	}
	for _, row := range s.books.accounts {
		w := windowOf(row.ID.Window.End)
		if sum := int64(row.Bound()); most[w] > sum {
			s.broken("callers used %d units of window %d and can use %d more, and S + O + H + U is %d", s.truth.used[w], w+1, most[w]-s.truth.used[w], sum)
		}
		if used := most[w] - int64(row.Unleased); used > s.truth.largest[w] {
			s.broken("callers used %d units of window %d and can use %d more, and the largest Q + U at a grant was %d",
				s.truth.used[w], w+1, most[w]-s.truth.used[w], s.truth.largest[w])
		}
		if (row.Class == quota.Hard || row.Class == quota.Exact) && row.Uncertain > 0 {
			s.broken("%d units of class %s are uncertain, and nobody released them", row.Uncertain, row.Class)
		}
	}
}

// checkRest is what holds when nothing is left to come: every unit that was not lost with an agent
// is settled, and what is settled was used.
func (s *state) checkRest() {
	for _, row := range s.books.accounts {
		w := windowOf(row.ID.Window.End)
		lost := int64(row.Held + row.Uncertain)
		settled := int64(row.Settled())
		if row.Outstanding > 0 {
			s.broken("%d units are outstanding at rest", row.Outstanding)
		}
		if !s.truth.crashed && (settled != s.truth.used[w] || lost > 0) {
			s.broken("at rest %d units of window %d are settled and %d held or uncertain; callers used %d", settled, w+1, lost, s.truth.used[w])
		}
	}
}
