package oracle

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// of makes a life of another kind of limit, in the window that never ends.
func of(kind quota.Kind) *life {
	l := begin(quota.Hard)
	l.terms.Kind, l.terms.Rate, l.terms.MaxHold = kind, quota.Rate{Units: 1, Per: time.Second}, 10*time.Second
	l.row = ledger.Account{ID: ledger.AccountID{Key: id.Key}, Terms: l.terms}
	return l
}

// usedUp is a lease that is granted, used and reported at once.
func (l *life) usedUp(n byte, amount ledger.Units) {
	id := lease
	id[15] = n
	l.grant(id, amount)
	l.Used(l.now(), 1, id, int64(amount))
	g := l.grants[id]
	g.State, g.Taken = ledger.Final, amount
	l.write(g)
}

func TestUseInAnyIntervalIsWithinTheRate(t *testing.T) {
	t.Parallel()
	l := of(quota.RateLimit) // burst 10, budget 5, 1 a second
	l.row.Clock = l.now().Ledger
	for n := range byte(3) {
		l.usedUp(n, 5)
	}
	l.wants(t, "")
	l.at = 4 * time.Second
	l.row.Clock = l.now().Ledger
	l.usedUp(4, 4)
	l.wants(t, "")
	l.usedUp(5, 1)
	l.wants(t, WithinInterval)
}

func TestACutOfBurstTakesNothingFromWhatIsOut(t *testing.T) {
	t.Parallel()
	l := of(quota.RateLimit) // burst 10, budget 5
	l.row.Clock = l.now().Ledger
	l.usedUp(3, 5)
	l.usedUp(4, 5)
	out := l.grant(lease, 5)
	l.terms.Limit = quota.LimitOf(4)
	l.row.Terms = l.terms
	l.write(out)
	l.Used(l.now(), 1, lease, 5)
	l.wants(t, "")
	out.State, out.Taken = ledger.Final, 5
	l.write(out)
	l.usedUp(5, 1)
	l.wants(t, WithinInterval)
}

func TestATrickleHasItsDelay(t *testing.T) {
	t.Parallel()
	for owed, want := range map[ledger.Units]Promise{0: "", 1: Headroom} {
		l := of(quota.RateLimit)
		l.row.Bucket.Spent = 10 + owed
		l.grant(lease, 5)
		l.wants(t, want)
	}
}

func (l *life) slots(amount, use ledger.Units) ledger.Grant {
	now := l.now().Ledger
	g := ledger.Grant{
		ID: lease, Account: l.row.ID, Kind: ledger.KindSlots, State: ledger.Live, Class: l.terms.Class, Agent: agent,
		Asked: amount, Need: amount, Amount: amount, InUse: use, PolicyVersion: 1, IssuedAt: now, TTL: l.terms.TTL,
		ExpiresAt: now.Add(l.terms.TTL), ClosesAt: now.Add(l.terms.TTL + l.terms.Grace), EndsAt: now.Add(l.terms.TTL + l.terms.Grace + l.terms.MaxHold),
	}
	l.write(g)
	return g
}

func TestWorkOnSlotsIsInTheBooks(t *testing.T) {
	t.Parallel()
	began := func() (*life, ledger.Grant) {
		l := of(quota.Concurrency)
		g := l.slots(3, 3)
		l.Began(l.now(), 1, agent, lease, l.row.ID, quota.Hard, 3)
		l.wants(t, "")
		return l, g
	}
	l, _ := began()
	l.Began(l.now(), 1, agent, lease, l.row.ID, quota.Hard, 1)
	l.wants(t, Backed)

	l, g := began()
	g.State, g.InUse, g.Back = ledger.Final, 0, 3 // the ledger takes it for ended
	l.write(g)
	l.wants(t, Accounted)

	l, g = began()
	l.Ended(l.now(), 1, agent, lease, l.row.ID, 3)
	g.State, g.InUse, g.Back = ledger.Final, 0, 3
	l.write(g)
	l.Rest(l.now())
	l.wants(t, "")
}

func TestACopyWorksOnSlotsOfASharedAsk(t *testing.T) {
	t.Parallel()
	for shared, want := range map[bool]Promise{true: "", false: Accounted} {
		l := of(quota.Concurrency)
		if shared {
			l.Shared(lease)
		}
		l.slots(3, 3)
		l.Began(l.now(), 1, agent, lease, l.row.ID, quota.Hard, 3)
		l.wants(t, "")
		l.Began(l.now(), 2, agent, lease, l.row.ID, quota.Hard, 3)
		l.wants(t, want)
	}
}

func TestSlotsAreProlongedWhileTheyLive(t *testing.T) {
	t.Parallel()
	for state, want := range map[ledger.State]Promise{ledger.Live: "", ledger.Closed: Closes} {
		l := of(quota.Concurrency)
		g := l.slots(3, 3)
		l.at = 3 * time.Second
		if state == ledger.Closed {
			g.State, g.InUse = ledger.Closed, 0
			l.write(g)
		} else {
			l.at = time.Second
		}
		g.State, g.Seq = ledger.Live, 1
		g.ExpiresAt, g.ClosesAt, g.EndsAt = g.ExpiresAt.Add(time.Second), g.ClosesAt.Add(time.Second), g.EndsAt.Add(time.Second)
		l.write(g)
		l.wants(t, want)
	}
}

func TestAllowancesAreWithinTheirPot(t *testing.T) {
	t.Parallel()
	allowed := func(l *life, id, agent ledger.ID, amount ledger.Units) {
		now := l.now().Ledger
		g := ledger.Grant{
			ID: id, Account: l.row.ID, Kind: ledger.KindEmergency, State: ledger.Live, Class: l.terms.Class, Agent: agent,
			Asked: amount, Need: 1, Amount: amount, PolicyVersion: 1, IssuedAt: now, TTL: l.terms.TTL,
			ExpiresAt: now.Add(l.terms.TTL), ClosesAt: now.Add(l.terms.TTL + l.terms.Grace),
		}
		l.row.Emergency += amount
		l.grants[id] = g
		l.row.Generation++
		l.Commit(l.now(), ledger.Changes{Accounts: []ledger.Account{l.row}, NewGrants: []ledger.Grant{g}})
	}
	for _, c := range []struct {
		name   string
		second ledger.ID
		amount ledger.Units
		want   Promise
	}{
		{"another agent's share", other, 3, ""},
		{"more than the pot", other, 4, Potted},
		{"two for one agent", agent, 3, Potted},
	} {
		l := begin(quota.Hard)
		l.terms.Pot, l.row.Pot = 6, 6
		allowed(l, lease, agent, 3)
		l.Used(l.now(), 1, lease, 2)
		l.wants(t, "")
		allowed(l, other, c.second, c.amount)
		if f := l.Fault(); (f == nil) != (c.want == "") || f != nil && f.Promise != c.want {
			t.Errorf("%s: got %v, want %q", c.name, f, c.want)
		}
	}
}

func TestStatementsSayWhatTheLedgerKnows(t *testing.T) {
	t.Parallel()
	end := begin(quota.Hard).row.ID.Window.End
	for _, c := range []struct {
		name   string
		change func(*ledger.Statement)
		want   Promise
	}{
		{"right", func(*ledger.Statement) {}, ""},
		{"another amount", func(s *ledger.Statement) { s.Billable = 4 }, Stated},
		{"a revision left out", func(s *ledger.Statement) { s.Revision = 2 }, Stated},
		{"before the end", func(s *ledger.Statement) { s.At = end.Add(-time.Second) }, Stated},
		{"not final", func(s *ledger.Statement) { s.FinalAt = time.Time{} }, Stated},
	} {
		l := begin(quota.Hard)
		g := l.grant(lease, 5)
		l.Used(l.now(), 1, lease, 3)
		g.State, g.Taken, g.Back = ledger.Final, 3, 2
		l.write(g)
		l.at = end.Add(time.Second).Sub(epoch)
		l.row.ClosedAt, l.row.FinalAt = end.Add(time.Second), end.Add(time.Second)
		s := ledger.Statement{Account: l.row.ID, Revision: 1, At: end.Add(time.Second), Billable: 3, FinalAt: end.Add(time.Second)}
		c.change(&s)
		l.Commit(l.now(), ledger.Changes{Accounts: []ledger.Account{l.row}, Statements: []ledger.Statement{s}})
		l.Billed(l.now())
		if f := l.Fault(); (f == nil) != (c.want == "") || f != nil && f.Promise != c.want {
			t.Errorf("%s: got %v, want %q", c.name, f, c.want)
		}
	}
}

func TestOperatorsAddAndRelease(t *testing.T) {
	t.Parallel()
	held := func(released ledger.Units) *life {
		l := begin(quota.Hard)
		g := l.grant(lease, 5)
		l.at = 4 * time.Second
		g.State = ledger.Closed
		l.write(g)
		l.wants(t, "")
		g.Uncertain = 4
		l.grants[lease] = g
		l.row.Held, l.row.Uncertain = 1, 4
		l.row.Generation++
		c := ledger.Changes{Accounts: []ledger.Account{l.row}, Grants: []ledger.Grant{g}}
		if released > 0 {
			c.NewGrants = []ledger.Grant{{ID: other, Account: l.row.ID, Kind: ledger.KindRelease, State: ledger.Final, Asked: 4, Amount: released}}
		}
		l.Commit(l.now(), c)
		return l
	}
	held(4).wants(t, "")
	held(3).wants(t, Released)
	held(0).wants(t, Released)
	held(5).wants(t, Released)

	l := begin(quota.Hard)
	l.row.Credit = 3
	l.write(ledger.Grant{ID: other, Account: l.row.ID, Kind: ledger.KindCredit, State: ledger.Final, Amount: 2})
	l.wants(t, Committed)
}

func TestWhatIsOpenIsNotFolded(t *testing.T) {
	t.Parallel()
	for kind, want := range map[quota.Kind]Promise{quota.Period: Kept, quota.RateLimit: ""} {
		l := of(kind)
		g := l.grant(lease, 5)
		l.at = 4 * time.Second
		g.State = ledger.Closed
		l.write(g)
		l.wants(t, "")
		l.Commit(l.now(), ledger.Changes{Folded: []ledger.ID{lease}})
		l.wants(t, want)
	}
}

func TestWorkWithoutALeaseIsRecordedAnewOnceItWasFolded(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ledger.GrantKind]Promise{ledger.KindSlots: "", ledger.KindLease: SameAnswer} {
		l := of(quota.Concurrency)
		g := ledger.Grant{ID: lease, Account: l.row.ID, Kind: kind, State: ledger.Final, Agent: agent, PolicyVersion: 1}
		l.write(g)
		l.Commit(l.now(), ledger.Changes{Folded: []ledger.ID{lease}})
		l.Commit(l.now(), ledger.Changes{NewGrants: []ledger.Grant{g}})
		l.wants(t, want)
	}
}
