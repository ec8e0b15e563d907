package ledgertest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func madeOnFirstUse(r *room) {
	twice := []ledger.AccountID{r.account, endless("globex"), r.account}
	r.must(r.Store.Update(r.Context(), ledger.Scope{Accounts: twice}, func(b *ledger.Book) error {
		for _, id := range twice {
			if a, ok := b.Account(id); !ok || a != (ledger.Account{ID: id}) {
				r.Errorf("a new account is %+v (%v), want an empty one", a, ok)
			}
		}
		if _, ok := b.Account(endless("initech")); ok {
			r.Error("an account outside the scope is in the book")
		}
		return nil
	}))
	list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{})
	r.must(err)
	if len(list) != 2 {
		r.Errorf("%d accounts, want 2", len(list))
	}
}

func readBack(r *room) {
	g := r.lease(r.id(), 20)
	listed := r.state(r.account)
	var now time.Time
	r.must(r.update(ledger.Scope{Grants: []ledger.ID{g.ID, g.ID, r.id()}}, func(b *ledger.Book) error {
		now = b.Now()
		if got, ok := b.Grant(g.ID); !ok || got != g {
			r.Errorf("the grant is %+v (%v), want %+v", got, ok, g)
		}
		if got, ok := b.Account(r.account); !ok || got != listed {
			r.Errorf("the book's account is %+v, the list's %+v", got, listed)
		}
		if b.PolicyVersion() != 1 || b.ClockSuspect() {
			r.Errorf("policy version %d, clock suspect %v", b.PolicyVersion(), b.ClockSuspect())
		}
		return nil
	}))
	if now != quota.At(now) || now.Before(g.IssuedAt) {
		r.Errorf("the ledger's time is %s, after a grant at %s", now, g.IssuedAt)
	}
}

// everyFieldComesBack writes records in which each field is set, and compares what the rules
// wrote with what the store returns.
func everyFieldComesBack(r *room) {
	now := time.Now()
	r.account = ledger.AccountID{
		Key:    quota.Key{Tenant: "ação/東京 'x\" %_\\", Dimension: "calls"},
		Window: quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour)),
	}
	agent := r.id()
	r.terms.TTL, r.terms.Grace = time.Millisecond, time.Millisecond
	r.writeIncarnation(agent)
	revoked, held := r.newAsk(agent, 200), r.newAsk(agent, 300)
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		for _, ask := range []ledger.Ask{revoked, held} {
			if _, err := b.Ask(ask, r.terms, whole); err != nil {
				return err
			}
		}
		_, err := b.Revoke(revoked.ID, "a note")
		return err
	})
	r.untilDue(1)
	r.write(ledger.Scope{}, func(b *ledger.Book) error { return b.Expire(r.account) })
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Spend(r.newSpend(agent, 900), r.terms) // moves held units
		return err
	})
	r.write(ledger.Scope{Grants: []ledger.ID{held.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: held.ID, Account: r.account, Agent: agent, Taken: 60, Refunded: 3, Returned: 5})
		return err
	})
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: r.id(), Account: r.account, Agent: agent, Taken: 77, Unleased: true})
		return err
	})
	r.writeAdjustments()
	r.writeRaise(agent)
	r.writeStatement(agent)
	r.writeEmergency(agent)
	r.writeSlots(agent)
	r.writeAhead(agent)
	r.writeRate(agent)
	r.everyFieldWasSet()
	r.verify()
}

// writeIncarnation is a first Sync whose answer was lost once, and the second.
func (r *room) writeIncarnation(agent ledger.ID) {
	r.Helper()
	hello := ledger.Hello{Incarnation: agent, Name: `node "ñ" \, {a,b} (c) 'd' NULL`, Region: "NULL", PolicyVersion: 1}
	scope := ledger.Scope{Agents: []ledger.ID{agent}}
	wrote := r.write(scope, func(b *ledger.Book) error {
		b.Admit(hello, r.id())
		b.Admit(hello, r.id())
		return nil
	})
	hello.Token = wrote.Incarnations[0].Issued[1]
	r.write(scope, func(b *ledger.Book) error {
		b.Admit(hello, r.id())
		return nil
	})
}

// writeRaise raises the limit, and lets headroom grow while somebody waits for it.
func (r *room) writeRaise(agent ledger.ID) {
	r.Helper()
	r.terms.PolicyVersion = 2
	r.SetPolicyVersion(2)
	r.terms.Limit = quota.LimitOf(5_000)
	live := r.newAsk(agent, 11)
	r.terms.TTL = time.Minute
	denied := func(b *ledger.Book) error {
		_, err := b.Spend(r.newSpend(agent, 4_999), r.terms) // somebody waits
		return err
	}
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		if _, err := b.Ask(live, r.terms, whole); err != nil {
			return err
		}
		return denied(b)
	})
	r.write(ledger.Scope{Grants: []ledger.ID{live.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: live.ID, Account: r.account, Agent: agent, Taken: 4})
		return err
	})
	r.write(ledger.Scope{}, denied)
}

// write runs fn and holds what the store returns to what fn changed.
func (r *room) write(scope ledger.Scope, fn func(*ledger.Book) error) (wrote ledger.Changes) {
	r.Helper()
	r.must(r.update(scope, func(b *ledger.Book) error {
		err := fn(b)
		wrote = b.Changes()
		return err
	}))
	r.compare(wrote)
	return wrote
}

// compare holds what the store returns to what the rules said it should write.
func (r *room) compare(c ledger.Changes) {
	r.Helper()
	for _, a := range c.Accounts {
		if got := r.state(a.ID); got != a {
			r.Errorf("account\n%+v\nwas written as\n%+v", got, a)
		}
	}
	for _, g := range append(c.NewGrants, c.Grants...) {
		if got := r.grant(g.ID); got != g {
			r.Errorf("grant\n%+v\nwas written as\n%+v", got, g)
		}
	}
	list, err := r.Store.Incarnations(r.Context(), time.Time{})
	r.must(err)
	for _, inc := range c.Incarnations {
		if !slices.ContainsFunc(list, func(got ledger.Incarnation) bool { return reflect.DeepEqual(got, inc) }) {
			r.Errorf("incarnations\n%+v\nlack\n%+v", list, inc)
		}
	}
	r.compareBilling(c)
	events, err := r.Store.Events(r.Context(), 0, 0)
	r.must(err)
	if len(events) < len(c.Events) {
		r.Fatalf("%d events, at least %d were written", len(events), len(c.Events))
	}
	for i, got := range events[len(events)-len(c.Events):] {
		got.ID = 0
		if got != c.Events[i] {
			r.Errorf("event\n%+v\nwas written as\n%+v", got, c.Events[i])
		}
	}
}

// everyFieldWasSet fails if a field of the records was never other than zero: then the case
// above would not notice that a store drops it.
func (r *room) everyFieldWasSet(others ...ledger.AccountID) {
	r.Helper()
	set := map[string]bool{}
	note := func(v any) {
		val := reflect.ValueOf(v)
		for _, f := range reflect.VisibleFields(val.Type()) {
			name := val.Type().Name() + "." + f.Name
			set[name] = set[name] || !val.FieldByIndex(f.Index).IsZero()
		}
	}
	accounts, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{})
	r.must(err)
	for _, a := range accounts {
		note(a)
	}
	grants, err := r.Store.Grants(r.Context(), ledger.GrantQuery{})
	r.must(err)
	for _, g := range grants {
		note(g)
	}
	list, err := r.Store.Incarnations(r.Context(), time.Time{})
	r.must(err)
	note(list[0])
	events, err := r.Store.Events(r.Context(), 0, 0)
	r.must(err)
	for _, e := range events {
		note(e)
	}
	for name, ok := range set {
		if !ok {
			r.Errorf("%s is zero in every record", name)
		}
	}
}

func endlessAndUnlimited(r *room) {
	r.terms.Limit, r.terms.Budget = quota.NoLimit, quota.NoLimit
	r.lease(r.id(), 1_000_000_000_000)
	r.spend(r.newSpend(r.id(), 5))
	a := r.state(r.account)
	if !a.ID.Window.Endless() || !a.Limit.Unlimited || !a.Budget.Unlimited || !a.Largest.Unlimited {
		r.Errorf("account %+v, want it endless and unlimited", a)
	}
	r.want(units{S: 5, O: 1_000_000_000_000})
	r.terms.PolicyVersion = 2
	r.SetPolicyVersion(2)
	r.terms.Limit, r.terms.Budget = quota.LimitOf(0), quota.LimitOf(0)
	r.wantReason(r.spend(r.newSpend(r.id(), 1)), quota.Exhausted)
	if a := r.state(r.account); a.Limit != (quota.Limit{}) || a.Budget != (quota.Limit{}) || !a.Largest.Unlimited {
		r.Errorf("account %+v, want the limit 0 after none", a)
	}
}

func anErrorChangesNothing(r *room) {
	g := r.lease(r.id(), 20)
	before := r.state(r.account)
	fresh, agent, broken := endless("globex"), r.id(), errors.New("broken")
	scope := ledger.Scope{
		Accounts: []ledger.AccountID{r.account, fresh}, Grants: []ledger.ID{g.ID}, Agents: []ledger.ID{agent},
	}
	err := r.Store.Update(r.Context(), scope, func(b *ledger.Book) error {
		b.Admit(ledger.Hello{Incarnation: agent, Name: "x", Region: "eu"}, r.id())
		if _, err := b.Report(reportOf(g, 20, 0, 0, true)); err != nil {
			return err
		}
		s := r.newSpend(agent, 5)
		s.Account = fresh
		if _, err := b.Spend(s, r.terms); err != nil {
			return err
		}
		return broken
	})
	if err != broken {
		r.Errorf("the error comes back as %v, want it as it was", err)
	}
	if r.state(r.account) != before || r.grant(g.ID) != g {
		r.Error("the account or its grant changed")
	}
	list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{Tenant: "globex"})
	r.must(err)
	incs, err := r.Store.Incarnations(r.Context(), time.Time{})
	r.must(err)
	if len(list) != 0 || len(incs) != 0 || r.count(ledger.GrantQuery{}) != 1 {
		r.Errorf("made %d accounts and %d incarnations, %d grants in all", len(list), len(incs), r.count(ledger.GrantQuery{}))
	}
}

func aGoneCallerChangesNothing(r *room) {
	gone, cancel := context.WithCancel(r.Context())
	cancel()
	if _, err := r.trySpend(gone, r.newSpend(r.id(), 5)); !errors.Is(err, context.Canceled) {
		r.Errorf("got %v, want context.Canceled", err)
	}
	if n := r.count(ledger.GrantQuery{}); n != 0 {
		r.Errorf("%d records, want none", n)
	}
}

func verifyFinds(r *room) {
	r.lease(r.id(), 20)
	healthy := r.account
	r.account = endless("globex")
	r.lease(r.id(), 20)
	r.verify()
	r.Tamper(r.account)
	var found []ledger.Difference
	progressed := 0
	v, err := r.Store.Verify(r.Context(), func(d ledger.Difference) { found = append(found, d) },
		func(accounts, grants int) { progressed = max(progressed, accounts) })
	r.must(err)
	want := ledger.Difference{Account: r.account, Counter: "held", Recorded: 1}
	if len(found) != 1 || found[0] != want {
		r.Errorf("found %v, want %v and nothing of %s", found, want, healthy)
	}
	if v != (ledger.Verified{Accounts: 2, Grants: 2, Differences: 1}) || progressed != 2 {
		r.Errorf("verified %+v, progress up to %d accounts", v, progressed)
	}
}

func twoOrders(r *room) {
	x, y := endless("alpha"), endless("beta")
	r.together(2*20, func(i int) error {
		pair := []ledger.AccountID{x, y}
		if i%2 == 1 {
			pair = []ledger.AccountID{y, x}
		}
		return r.Store.Update(r.Context(), ledger.Scope{Accounts: pair}, func(b *ledger.Book) error {
			for _, id := range pair {
				s := r.newSpend(r.id(), 1)
				s.Account = id
				if _, err := b.Spend(s, r.terms); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for _, r.account = range []ledger.AccountID{x, y} {
		r.want(units{S: 40})
	}
}

func firstGrants(r *room) {
	r.together(100, func(int) error {
		_, err := r.tryAsk(r.newAsk(r.id(), 3))
		return err
	})
	r.want(units{O: 300})
	list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{})
	r.must(err)
	if n := r.count(ledger.GrantQuery{}); len(list) != 1 || n != 100 {
		r.Errorf("%d accounts and %d grants, want 1 and 100", len(list), n)
	}
}

func fiveNeverFour(r *room) {
	for round := range 10 {
		r.account = endless("round " + string(rune('a'+round)))
		r.spend(r.newSpend(r.id(), 3))
		r.together(2, func(int) error {
			_, err := r.trySpend(r.Context(), r.newSpend(r.id(), 1))
			return err
		})
		r.want(units{S: 5})
	}
}
