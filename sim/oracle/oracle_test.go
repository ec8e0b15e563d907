package oracle

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

var (
	agent = uuid.Must(uuid.FromString("01900000-0000-7000-8000-0000000000aa"))
	lease = uuid.Must(uuid.FromString("01900000-0000-7000-8000-000000000001"))
	other = uuid.Must(uuid.FromString("01900000-0000-7000-8000-000000000002"))
	key   = quota.Key{Tenant: "acme", Dimension: "calls"}
	id    = ledger.AccountID{Key: key, Window: quota.NewWindow(epoch, epoch.Add(time.Minute))}
)

// life tells an oracle what happens to one account. Its ledger adds up as told, right or wrong.
type life struct {
	*Oracle
	at     time.Duration
	terms  ledger.Terms
	grants map[ledger.ID]ledger.Grant
	row    ledger.Account
}

func begin(class quota.Class) *life {
	l := &life{Oracle: New(500), grants: map[ledger.ID]ledger.Grant{}, terms: ledger.Terms{
		PolicyVersion: 1, Kind: quota.Period, Class: class, Limit: quota.LimitOf(10), Budget: quota.LimitOf(5),
		TTL: 2 * time.Second, Grace: time.Second,
	}}
	l.row = ledger.Account{ID: id, Terms: l.terms}
	l.Policy(1, func(quota.Key, quota.Window) (ledger.Terms, bool) { return l.terms, true })
	return l
}

func (l *life) now() Moment { return Moment{At: l.at, Ledger: epoch.Add(l.at)} }

// write commits one grant; the account follows as the ledger's own tallies say.
func (l *life) write(g ledger.Grant) {
	l.grants[g.ID] = g
	l.row.Tally = ledger.Tally{}
	for _, g := range l.grants {
		t := g.Tally()
		l.row.Granted += t.Granted
		l.row.Leased += t.Leased
		l.row.Spent += t.Spent
		l.row.Unleased += t.Unleased
		l.row.Outstanding += t.Outstanding
		l.row.Held += t.Held
		l.row.Uncertain += t.Uncertain
		l.row.Expired += t.Expired
		l.row.Returned += t.Returned
	}
	l.row.Generation++
	if g.Amount > 0 {
		l.row.Committed = max(l.row.Committed, l.row.Settled()+l.row.Outstanding+l.row.Held)
	}
	c := ledger.Changes{Accounts: []ledger.Account{l.row}}
	if _, known := l.Oracle.grants[g.ID]; known {
		c.Grants = []ledger.Grant{g}
	} else {
		c.NewGrants = []ledger.Grant{g}
	}
	l.Commit(l.now(), c)
}

func (l *life) grant(id ledger.ID, amount ledger.Units) ledger.Grant {
	g := l.granted(id, amount)
	l.write(g)
	return g
}

// granted is a lease as the ledger would record it now.
func (l *life) granted(id ledger.ID, amount ledger.Units) ledger.Grant {
	now := l.now().Ledger
	return ledger.Grant{
		ID: id, Account: l.row.ID, Kind: ledger.KindLease, State: ledger.Live, Class: l.terms.Class, Agent: agent,
		Asked: amount, Need: 1, Amount: amount, PolicyVersion: 1, IssuedAt: now, TTL: l.terms.TTL,
		ExpiresAt: now.Add(l.terms.TTL), ClosesAt: now.Add(l.terms.TTL + l.terms.Grace),
	}
}

func (l *life) denied(id ledger.ID, need ledger.Units, reason quota.Reason) {
	l.write(ledger.Grant{ID: id, Account: l.row.ID, Kind: ledger.KindLease, State: ledger.Denied, Class: l.terms.Class,
		Agent: agent, Asked: need, Need: need, Reason: reason, PolicyVersion: 1, IssuedAt: l.now().Ledger})
}

func (l *life) wants(t *testing.T, p Promise) {
	t.Helper()
	f := l.Fault()
	switch {
	case f == nil && p != "":
		t.Errorf("nothing was noticed, want: %s", p)
	case f != nil && f.Promise != p:
		t.Errorf("got %v, want: %s", f, p)
	}
}

func TestAnHonestLife(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	g := l.grant(lease, 5)
	l.Answered(l.now(), Answer{ID: lease, Amount: 5, TTL: 2 * time.Second})
	l.Used(l.now(), 1, lease, 3)
	l.at = time.Second
	l.Sent(l.now(), 1, Report{ID: lease, Taken: 3, Returned: 2, Final: true})
	g.State, g.Taken, g.Back = ledger.Final, 3, 2
	l.write(g)
	l.denied(other, 9, quota.Exhausted)
	l.Rest(l.now())
	l.wants(t, "")
	if s, ok := l.State(id); !ok || s.Total() != 3 || s.Row.Settled() != 3 {
		t.Errorf("state %+v, want 3 used and settled", s)
	}
}

func TestUseBeyondTheBooks(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	g := l.grant(lease, 5)
	l.Used(l.now(), 1, lease, 3)
	g.State, g.Taken, g.Back = ledger.Final, 2, 3 // the ledger hears of 2
	l.write(g)
	l.wants(t, Accounted)
}

func TestUseBeyondTheLargestLimit(t *testing.T) {
	t.Parallel()
	l := begin(quota.BestEffort)
	l.terms.Budget, l.row.Budget = quota.LimitOf(10), quota.LimitOf(10)
	l.grant(lease, 10)
	l.Used(l.now(), 1, lease, 10)
	l.terms.Limit, l.row.Limit = quota.LimitOf(4), quota.LimitOf(4) // a cut makes nothing worse
	l.Used(l.now(), 1, lease, 0)
	l.wants(t, "")
	l.accounts[id].largest = 9
	l.Used(l.now(), 1, lease, 0)
	l.wants(t, WithinLimit)
}

func TestEveryUnitIsInOnePlace(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	g := l.grant(lease, 5)
	g.State = ledger.Closed
	g.Uncertain = 5 // a hard lease is held, never given back
	l.at = 3 * time.Second
	l.write(g)
	l.wants(t, Released)

	l = begin(quota.Hard)
	g = l.grant(lease, 5)
	l.row.Held++ // in the account and in no grant
	l.Commit(l.now(), ledger.Changes{Accounts: []ledger.Account{l.row}})
	l.wants(t, Conserved)

	l = begin(quota.Hard)
	g = l.grant(lease, 5)
	g.State, g.Taken = ledger.Final, 3 // and the other two?
	l.write(g)
	l.wants(t, Conserved)
}

func TestGrantsWithinTheirRoom(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 6)
	l.wants(t, Exposed)

	l = begin(quota.Hard)
	l.terms.Budget, l.row.Budget = quota.NoLimit, quota.NoLimit
	l.grant(lease, 11)
	l.wants(t, Headroom)

	l = begin(quota.Hard)
	l.terms.Limit = quota.LimitOf(4) // the ledger still goes by 10
	l.grant(lease, 3)
	l.wants(t, InForce)

	l = begin(quota.Hard)
	l.Policy(2, func(quota.Key, quota.Window) (ledger.Terms, bool) { return l.terms, true })
	l.grant(lease, 3)
	l.wants(t, InForce)

	l = begin(quota.Hard)
	l.denied(other, 9, quota.LeasedOut)
	l.wants(t, Reasoned)

	l = begin(quota.Hard)
	l.at = time.Minute
	l.grant(lease, 3)
	l.wants(t, InWindow)
}

func TestTimeAndTrust(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.row.Clock = epoch.Add(time.Second)
	l.grant(lease, 1)
	l.row.Clock = epoch
	l.grant(other, 1)
	l.wants(t, Ratcheted)

	l = begin(quota.Hard)
	g := l.grant(lease, 1)
	l.at = 3 * time.Second
	g.State = ledger.Closed
	l.row.Generation++
	m := l.now()
	m.Suspect = true
	l.Commit(m, ledger.Changes{Grants: []ledger.Grant{g}})
	l.wants(t, Trusted)
}

func TestWhatIsGivenBackIsWithinTheBudget(t *testing.T) {
	t.Parallel()
	held := func(given ledger.Units) *life {
		l := begin(quota.Bounded)
		g := l.grant(lease, 5)
		l.at = 3 * time.Second
		g.State = ledger.Closed
		l.write(g)
		l.terms.Budget, l.row.Budget = quota.LimitOf(3), quota.LimitOf(3)
		g.Uncertain = given
		l.write(g)
		return l
	}
	held(3).wants(t, "")
	held(4).wants(t, Released)
}

func TestASharedSpendMayBeTakenBack(t *testing.T) {
	t.Parallel()
	spend := func(shared bool) *life {
		l := begin(quota.Hard)
		if shared {
			l.Shared(other)
		}
		g := ledger.Grant{ID: other, Account: id, Kind: ledger.KindSpend, State: ledger.Final, Class: quota.Hard, Agent: agent,
			Asked: 2, Need: 2, Amount: 2, Taken: 2, PolicyVersion: 1, IssuedAt: l.now().Ledger}
		l.write(g)
		l.Spent(l.now(), other, 2)
		g.Refunded, g.Back = 2, 2
		l.write(g)
		return l
	}
	spend(true).wants(t, "")
	spend(false).wants(t, SameAnswer)
}

func TestHardNeverGoesOnWithoutALease(t *testing.T) {
	t.Parallel()
	for class, want := range map[quota.Class]Promise{
		quota.Exact: UnleasedOnly, quota.Hard: UnleasedOnly, quota.Bounded: "", quota.BestEffort: "",
	} {
		l := begin(class)
		l.Unleased(l.now(), agent, id, class, 1)
		l.wants(t, want)
	}
}

func TestAnswersStay(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 5)
	l.Answered(l.now(), Answer{ID: lease, Amount: 4, TTL: 2 * time.Second})
	l.wants(t, SameAnswer)

	l = begin(quota.Hard)
	l.denied(other, 11, quota.TooLarge)
	l.Used(l.now(), 1, other, 1)
	l.wants(t, Backed)

	l = begin(quota.Hard)
	l.denied(other, 11, quota.TooLarge)
	g := l.grants[other]
	g.State, g.Amount = ledger.Live, 3
	l.write(g)
	l.wants(t, SameAnswer)
}

func TestALeaseHasAnEnd(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 5)
	l.at = 2*time.Second + 900*time.Microsecond // 450 ppm of a slow clock
	l.Used(l.now(), 1, lease, 1)
	l.wants(t, "")
	l.at = 2*time.Second + 2*time.Millisecond
	l.Used(l.now(), 1, lease, 1)
	l.wants(t, Stops)

	l = begin(quota.Hard)
	g := l.grant(lease, 5)
	l.at = 2500 * time.Millisecond
	g.State = ledger.Closed
	l.write(g)
	l.wants(t, Closes)

	l = begin(quota.Hard)
	l.grant(lease, 5)
	l.Sent(l.now(), 1, Report{ID: lease, Returned: 5, Final: true})
	l.Used(l.now(), 1, lease, 1)
	l.wants(t, Sealed)
}

func TestReportsSayWhatWasTaken(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 5)
	l.Used(l.now(), 1, lease, 2)
	l.Sent(l.now(), 1, Report{ID: lease, Taken: 2, Returned: 1})
	l.wants(t, "")
	l.Sent(l.now(), 1, Report{ID: lease, Taken: 2})
	l.wants(t, Cumulative)

	l = begin(quota.Hard)
	l.grant(lease, 5)
	l.Used(l.now(), 1, lease, 2)
	l.Sent(l.now(), 1, Report{ID: lease, Taken: 1})
	l.wants(t, Cumulative)
}

func TestACopySpendsWhatTheLeaseHadLeft(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 5)
	l.Used(l.now(), 1, lease, 2)
	l.Copied(agent, 1, 2)
	l.Used(l.now(), 1, lease, 3)
	l.Used(l.now(), 2, lease, 3)
	l.wants(t, "")
	l.Used(l.now(), 2, lease, 1)
	l.wants(t, Backed)
}

func TestRestIsComplete(t *testing.T) {
	t.Parallel()
	l := begin(quota.Hard)
	l.grant(lease, 5)
	l.Rest(l.now())
	l.wants(t, Rests)

	rest := func(lost bool) *life {
		l := begin(quota.Hard)
		g := l.grant(lease, 5)
		l.at = 3 * time.Second
		g.State = ledger.Closed
		l.write(g)
		if lost {
			l.Lost(agent)
		}
		l.Rest(l.now())
		return l
	}
	l = begin(quota.Hard)
	l.Refused(lease) // nobody waits for what comes of it
	g := l.grant(lease, 5)
	l.at = 3 * time.Second
	g.State = ledger.Closed
	l.write(g)
	l.Rest(l.now())
	l.wants(t, "")
	rest(true).wants(t, "")
	rest(false).wants(t, Settled)
}

func TestALeaseOfTheNextWindowWaitsForIt(t *testing.T) {
	t.Parallel()
	ahead := func() *life { // granted a second before its window begins
		l := begin(quota.Hard)
		l.at = -time.Second
		g := l.granted(lease, 5)
		g.StartsAt = epoch
		l.write(g)
		return l
	}

	l := ahead()
	l.at = -10 * time.Millisecond
	l.Used(l.now(), 1, lease, 1)
	l.wants(t, InWindow)

	l = ahead()
	l.at = 0
	l.Used(l.now(), 1, lease, 1)
	l.wants(t, "")

	// The ledger's clock was 100 ms ahead when it was told again, and is right again.
	for at, want := range map[time.Duration]Promise{-99 * time.Millisecond: "", -110 * time.Millisecond: InWindow} {
		l = ahead()
		l.at = -500 * time.Millisecond
		m := l.now()
		m.Ledger = m.Ledger.Add(100 * time.Millisecond)
		l.Answered(m, Answer{ID: lease, Amount: 5, TTL: l.terms.TTL, Generation: l.grants[lease].Generation})
		l.at = at
		l.Used(l.now(), 1, lease, 1)
		l.wants(t, want)
	}
}
