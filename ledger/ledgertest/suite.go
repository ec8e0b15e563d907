package ledgertest

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Subject is a fresh, empty store under test, with the levers that the suite pulls. Its clock
// is its own.
type Subject struct {
	Store interface {
		ledger.Store
		ledger.Reader
		ledger.Keeper
		ledger.Billing
		ledger.Lines
	}
	SetPolicyVersion func(version int64)
	// Tamper adds 1 to the account's held counter, behind the rules' back.
	Tamper func(id ledger.AccountID)
}

// Run holds a store to what ledger.Store, ledger.Reader, ledger.Keeper, ledger.Billing and ledger.Lines
// promise. open makes a subject that remembers ids for the retention.
func Run(t *testing.T, open func(t *testing.T, retention time.Duration) Subject) {
	t.Helper()
	for _, c := range []struct {
		name      string
		run       func(*room)
		retention time.Duration // 0: longer than the case takes
	}{
		{"an account is made on first use", madeOnFirstUse, 0},
		{"what is written is read back", readBack, 0},
		{"every field comes back", everyFieldComesBack, 0},
		{"M3 keys that look alike", keysThatLookAlike, 0},
		{"endless and unlimited", endlessAndUnlimited, 0},
		{"an error changes nothing", anErrorChangesNothing, 0},
		{"a caller that has gone changes nothing", aGoneCallerChangesNothing, 0},
		{"D1 lost reply", lostReply, 0},
		{"a denial is recorded and repeated", denialIsRepeated, 0},
		{"an id is known whatever its account", idIsKnownEverywhere, 0},
		{"D3 reports merge by maximum", reportsMerge, 0},
		{"A1 hostile reports", hostileReports, 0},
		{"a foreign grant is refused", foreignGrant, 0},
		{"cancel before ask", cancelBeforeAsk, 0},
		{"revoke and recall", revokeAndRecall, 0},
		{"a spend is one item, a refund one refund", spendAndRefund, 0},
		{"a stale policy decides nothing", stalePolicy, 0},
		{"another window than the present one", otherWindow, 0},
		{"what an agent holds is loaded", agentsLeases, 0},
		{"what each pair holds is loaded", leasesOfPairs, 0},
		{"N is counted over windows", participants, 0},
		{"D2 tokens", tokens, 0},
		{"leases fall due, soonest first", dueOrder, 0},
		{"concurrent sweepers close each lease once", sweepers, 0},
		{"a transaction closes and moves a batch at most", batches, 0},
		{"slots: renewed, closed, ended", slotsEnd, 0},
		{"slots in use are not folded", slotsStay, shortRetention},
		{"an emergency allowance is one an agent, from the pot", emergencyPot, 0},
		{"fold keeps the sums", foldKeepsSums, shortRetention},
		{"old, settled grants are foldable", foldableAccounts, 0},
		{"the walk to what is foldable goes page by page", foldablePages, 0},
		{"folded grants are gone from the walk", foldedIsGone, shortRetention},
		{"prune", prune, 0},
		{"accounts without an end go when they know nothing", pruneEndless, 0},
		{"accounts are paged and selected", accountPages, 0},
		{"grants are paged and selected", grantPages, 0},
		{"events are paged", eventPages, 0},
		{"what agents hold is summed up", holdings, 0},
		{"verify finds a difference", verifyFinds, 0},
		{"R2.16 a window is stated, amended and final", statedAmendedFinal, 0},
		{"R2.16 a statement with held units is final in time", finalInTime, 0},
		{"statements are paged and selected", statementPages, 0},
		{"limits come back in order", limitHistory, 0},
		{"an adjustment is made once", adjustedOnce, 0},
		{"a release frees a batch at most", releaseBatch, 0},
		{"a rate is one bucket", oneBucket, 0},
		{"A8 a bucket fills as time goes by", bucketFills, 0},
		{"closed leases of a rate are folded", rateIsFolded, shortRetention},
		{"an ask for the next window", nextWindow, 0},
		{"R1.10 a group is spent all or none", allOrNone, 0},
		{"what others want is loaded", demands, 0},
		{"R4.5 a line keeps its order", lineKeepsOrder, 0},
		{"a step that is refused changes no line", lineErrors, 0},
		{"callers join and leave at once", lineAtOnce, 0},
		{"R4.5 tickets lapse", lineLapses, 0},
		{"R4.5 who waits is listed", lineListed, 0},
		{"P1 two orders of locks", twoOrders, 0},
		{"P2 first grants at once", firstGrants, 0},
		{"P2 five, never four", fiveNeverFour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, cmp.Or(c.retention, longRetention))
			s.SetPolicyVersion(1)
			c.run(&room{T: t, Subject: s, account: endless("acme"), terms: ledger.Terms{
				PolicyVersion: 1, Kind: quota.Period, Class: quota.Bounded, Limit: quota.LimitOf(1_000),
				Budget: quota.LimitOf(500), TTL: time.Minute, Grace: 5 * time.Second,
			}})
		})
	}
}

// A store remembers ids for longer than a case takes, except where forgetting is the case:
// there the time is short enough to wait for, and long enough to record an id in on a machine
// that is busy.
const (
	longRetention  = 24 * time.Hour
	shortRetention = 5 * time.Second
)

// patience is how long a condition is waited for that only time brings about.
const patience = 30 * time.Second

func endless(tenant string) ledger.AccountID {
	return ledger.AccountID{Key: quota.Key{Tenant: tenant, Dimension: "calls"}}
}

// room is one case's view of its subject: an account, and the terms it is used under.
type room struct {
	*testing.T
	Subject
	account ledger.AccountID
	terms   ledger.Terms
}

func (r *room) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *room) id() ledger.ID {
	r.Helper()
	id, err := uuid.NewV7()
	r.must(err)
	return id
}

// update runs fn over the room's account.
func (r *room) update(scope ledger.Scope, fn func(*ledger.Book) error) error {
	scope.Accounts = append(scope.Accounts, r.account)
	for _, agent := range scope.Agents {
		scope.Holders = append(scope.Holders, ledger.Holder{Account: r.account, Agent: agent})
	}
	return r.Store.Update(r.Context(), scope, fn)
}

// open brings the account to the room's terms.
func (r *room) open() {
	r.Helper()
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Open(r.account, r.terms)
		return err
	}))
}

func whole(r ledger.Room) ledger.Units { return r.Want }

func (r *room) newAsk(agent ledger.ID, want ledger.Units) ledger.Ask {
	r.Helper()
	return ledger.Ask{ID: r.id(), Account: r.account, Agent: agent, Region: "eu", Want: want, Need: want}
}

func (r *room) tryAsk(asks ...ledger.Ask) ([]ledger.Answer, error) {
	scope := ledger.Scope{}
	for _, ask := range asks {
		scope.Grants = append(scope.Grants, ask.ID)
		scope.Agents = append(scope.Agents, ask.Agent)
	}
	var answers []ledger.Answer
	err := r.update(scope, func(b *ledger.Book) error {
		answers = nil // fn may run more than once
		for _, ask := range asks {
			ans, err := b.Ask(ask, r.terms, whole)
			if err != nil {
				return err
			}
			answers = append(answers, ans)
		}
		return nil
	})
	return answers, err
}

func (r *room) ask(ask ledger.Ask) ledger.Answer {
	r.Helper()
	answers, err := r.tryAsk(ask)
	r.must(err)
	return answers[0]
}

func (r *room) lease(agent ledger.ID, want ledger.Units) ledger.Grant {
	r.Helper()
	g := r.ask(r.newAsk(agent, want)).Grant
	if g.Amount != want {
		r.Fatalf("granted %d of %d: %s", g.Amount, want, g.Reason)
	}
	return g
}

func (r *room) report(rep ledger.Report) error {
	return r.update(ledger.Scope{Grants: []ledger.ID{rep.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(rep)
		return err
	})
}

func reportOf(g ledger.Grant, taken, refunded, returned ledger.Units, final bool) ledger.Report {
	return ledger.Report{
		ID: g.ID, Account: g.Account, Agent: g.Agent,
		Taken: taken, Refunded: refunded, Returned: returned, Final: final,
	}
}

func (r *room) newSpend(agent ledger.ID, cost ledger.Units) ledger.Spend {
	r.Helper()
	return ledger.Spend{ID: r.id(), Account: r.account, Agent: agent, Region: "eu", Cost: cost}
}

func (r *room) trySpend(ctx context.Context, s ledger.Spend) (ledger.Answer, error) {
	var ans ledger.Answer
	scope := ledger.Scope{Accounts: []ledger.AccountID{s.Account}, Grants: []ledger.ID{s.ID}}
	err := r.Store.Update(ctx, scope, func(b *ledger.Book) error {
		var err error
		ans, err = b.Spend(s, r.terms)
		return err
	})
	return ans, err
}

func (r *room) spend(s ledger.Spend) ledger.Answer {
	r.Helper()
	ans, err := r.trySpend(r.Context(), s)
	r.must(err)
	return ans
}

func (r *room) cancel(id, agent ledger.ID) error {
	return r.update(ledger.Scope{Grants: []ledger.ID{id}}, func(b *ledger.Book) error {
		return b.Cancel(id, r.account, agent)
	})
}

func (r *room) expire() {
	r.Helper()
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error { return b.Expire(r.account) }))
}

// state is the account as the store lists it.
func (r *room) state(id ledger.AccountID) ledger.Account {
	r.Helper()
	list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{Tenant: id.Key.Tenant, Dimension: id.Key.Dimension})
	r.must(err)
	for _, a := range list {
		if a.ID == id {
			return a
		}
	}
	r.Fatalf("no account %s", id)
	return ledger.Account{}
}

func (r *room) grant(id ledger.ID) ledger.Grant {
	r.Helper()
	list, err := r.Store.Grants(r.Context(), ledger.GrantQuery{ID: id})
	r.must(err)
	if len(list) != 1 {
		r.Fatalf("%d records of grant %s", len(list), id)
	}
	return list[0]
}

func (r *room) count(q ledger.GrantQuery) int {
	r.Helper()
	list, err := r.Store.Grants(r.Context(), q)
	r.must(err)
	return len(list)
}

// units is what tables of worked numbers name.
type units struct{ S, O, H, U ledger.Units }

// want holds the account to its numbers, and the whole ledger to the sums of its grants.
func (r *room) want(want units) {
	r.Helper()
	a := r.state(r.account)
	if got := (units{a.Settled(), a.Outstanding, a.Held, a.Uncertain}); got != want {
		r.Errorf("account has %+v, want %+v", got, want)
	}
	r.verify()
}

func (r *room) verify() {
	r.Helper()
	_, err := r.Store.Verify(r.Context(), func(d ledger.Difference) { r.Error(d) }, func(int, int) {})
	r.must(err)
}

// until waits for what only time brings about.
func (r *room) until(what string, done func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			r.Fatalf("waited %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// untilDue waits until n accounts hold leases to close.
func (r *room) untilDue(n int) []ledger.AccountID {
	r.Helper()
	var due []ledger.AccountID
	r.until("leases due", func() bool {
		var err error
		due, err = r.Store.Due(r.Context(), 100)
		r.must(err)
		return len(due) == n
	})
	return due
}

// together runs act n times at once and waits for all.
func (r *room) together(n int, act func(i int) error) {
	r.Helper()
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			if err := act(i); err != nil {
				r.Error(err)
			}
		})
	}
	close(begin)
	all.Wait()
}
