package ledgertest

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// past moves the room to a window that ended an hour ago, in which use was reported only later.
func (r *room) past(tenant string, used ledger.Units) {
	r.Helper()
	now := time.Now()
	r.account = ledger.AccountID{
		Key:    quota.Key{Tenant: tenant, Dimension: "calls"},
		Window: quota.NewWindow(now.Add(-2*time.Hour), now.Add(-time.Hour)),
	}
	r.open()
	r.unleased(r.id(), used)
}

// unleased reports use without a lease; agent is its record's id too.
func (r *room) unleased(agent ledger.ID, used ledger.Units) {
	r.Helper()
	r.must(r.report(ledger.Report{ID: agent, Account: r.account, Agent: agent, Taken: used, Unleased: true}))
}

// closeWindow reports whether anything was written.
func (r *room) closeWindow() (wrote bool) {
	r.Helper()
	r.must(r.update(ledger.Scope{}, func(b *ledger.Book) (err error) {
		wrote, err = b.CloseWindow(r.account)
		return err
	}))
	return wrote
}

func (r *room) revisions() []ledger.Statement {
	r.Helper()
	q := ledger.StatementQuery{Tenant: r.account.Key.Tenant, Dimension: r.account.Key.Dimension, Revisions: true}
	list, err := r.Store.Statements(r.Context(), q)
	r.must(err)
	return list
}

func (r *room) unstated() []ledger.AccountID {
	r.Helper()
	list, err := r.Store.Unstated(r.Context(), 100)
	r.must(err)
	return list
}

func (r *room) newAdjustment(units ledger.Units, why string) ledger.Adjustment {
	r.Helper()
	return ledger.Adjustment{ID: r.id(), Account: r.account, Units: units, Who: "mina", Why: why}
}

func (r *room) tryAdjust(x ledger.Adjustment, rule func(*ledger.Book, ledger.Adjustment) (ledger.Answer, error)) (ledger.Answer, error) {
	var ans ledger.Answer
	err := r.update(ledger.Scope{Grants: []ledger.ID{x.ID}, Held: true}, func(b *ledger.Book) (err error) {
		ans, err = rule(b, x)
		return err
	})
	return ans, err
}

func (r *room) credit(units ledger.Units) {
	r.Helper()
	_, err := r.tryAdjust(r.newAdjustment(units, "goodwill"), (*ledger.Book).Credit)
	r.must(err)
}

func statedAmendedFinal(r *room) {
	r.past("acme", 12)
	if due := r.unstated(); !slices.Equal(due, []ledger.AccountID{r.account}) {
		r.Fatalf("windows to close: %v, want %v", due, r.account)
	}
	if !r.closeWindow() || r.closeWindow() {
		r.Error("the window is to be closed once")
	}
	if due := r.unstated(); len(due) != 0 {
		r.Errorf("windows to close after all are: %v", due)
	}
	agent := r.id()
	r.unleased(agent, 5)
	r.unleased(agent, 5) // a repeat amends nothing
	r.credit(100)
	list := r.revisions()
	want := []struct {
		billable, limit ledger.Units
		note            string
	}{
		{12, 1_000, "window closed; final"}, {17, 1_000, "late report; after final"},
		{17, 1_100, "credit of 100, mina: goodwill; after final"},
	}
	if len(list) != len(want) {
		r.Fatalf("%d revisions, want %d: %+v", len(list), len(want), list)
	}
	a := r.state(r.account)
	for i, s := range list {
		if s.Revision != int64(i+1) || s.Billable != want[i].billable || s.Limit != quota.LimitOf(want[i].limit) || s.Note != want[i].note {
			r.Errorf("revision %d is %+v, want %+v", i+1, s, want[i])
		}
		if s.ClosedAt != a.ClosedAt || s.FinalAt != a.FinalAt || s.FinalAt.IsZero() || s.Opening != quota.LimitOf(1_000) {
			r.Errorf("revision %d says closed %s, final %s, opening %v; the account %+v", i+1, s.ClosedAt, s.FinalAt, s.Opening, a)
		}
	}
	r.verify()
}

func finalInTime(r *room) {
	r.brief()
	r.terms.FinalAfter = 2 * time.Second
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(4*time.Second))
	r.lease(r.id(), 20)
	r.lease(r.id(), 5)
	r.untilDue(1)
	r.expire()
	_, err := r.tryAdjust(r.newAdjustment(5, "test"), (*ledger.Book).ReleaseHeld)
	r.must(err)
	if due := r.unstated(); len(due) != 0 {
		r.Errorf("windows to close before any has ended: %v", due)
	}
	step := func() {
		r.until("a statement to write", func() bool { return len(r.unstated()) == 1 })
		if wrote := r.write(ledger.Scope{}, func(b *ledger.Book) error {
			_, err := b.CloseWindow(r.account)
			return err
		}); len(wrote.Statements) != 1 {
			r.Errorf("wrote %+v, want one revision", wrote.Statements)
		}
	}
	step()
	step()
	list := r.revisions()
	if len(list) != 2 || list[0].Held != 20 || list[0].Uncertain != 5 || list[0].Final() ||
		list[1].Held != 20 || !list[1].Final() || list[1].Billable != 0 {
		r.Errorf("revisions %+v: want held units, billed to nobody, then the same final", list)
	}
	if by := r.account.Window.End.Add(2 * time.Second); list[1].FinalAt.Before(by) || len(r.unstated()) != 0 {
		r.Errorf("final at %s, want it from %s on; then due: %v", list[1].FinalAt, by, r.unstated())
	}
	r.want(units{H: 20, U: 5})
}

func statementPages(r *room) {
	var all []ledger.AccountID
	for i, tenant := range []string{"alpha", "beta", "Zeta"} {
		r.past(tenant, 5)
		r.account.Key.Dimension = []string{"calls", "bytes"}[i%2]
		r.open()
		r.closeWindow()
		r.unleased(r.id(), 1)
		all = append(all, r.account)
	}
	r.past("open", 5) // never closed
	slices.SortFunc(all, ledger.CompareAccounts)
	list := func(q ledger.StatementQuery) (ids []ledger.AccountID) {
		statements, err := r.Store.Statements(r.Context(), q)
		r.must(err)
		for _, s := range statements {
			ids = append(ids, s.Account)
		}
		return ids
	}
	var paged []ledger.AccountID
	q := ledger.StatementQuery{Limit: 2}
	for range all {
		page := list(q)
		if len(page) == 0 {
			break
		}
		paged, q.After = append(paged, page...), page[len(page)-1]
	}
	if !slices.Equal(paged, all) {
		r.Errorf("in pages of 2: %v, want %v", paged, all)
	}
	if got := list(ledger.StatementQuery{Revisions: true, Limit: 1}); !slices.Equal(got, []ledger.AccountID{all[0], all[0]}) {
		r.Errorf("both revisions of the first account: %v", got)
	}
	starts := func(yes func(time.Time) bool) func(ledger.AccountID) bool {
		return func(id ledger.AccountID) bool { return yes(id.Window.Start) }
	}
	middle := slices.SortedFunc(slices.Values(all), func(x, y ledger.AccountID) int { return x.Window.Start.Compare(y.Window.Start) })[1].Window.Start
	for name, c := range map[string]struct {
		q    ledger.StatementQuery
		want func(ledger.AccountID) bool
	}{
		"tenant":     {ledger.StatementQuery{Tenant: "beta"}, func(id ledger.AccountID) bool { return id.Key.Tenant == "beta" }},
		"dimension":  {ledger.StatementQuery{Dimension: "calls"}, func(id ledger.AccountID) bool { return id.Key.Dimension == "calls" }},
		"from":       {ledger.StatementQuery{From: middle}, starts(func(t time.Time) bool { return !t.Before(middle) })},
		"to":         {ledger.StatementQuery{To: middle}, starts(func(t time.Time) bool { return t.Before(middle) })},
		"final only": {ledger.StatementQuery{FinalOnly: true}, func(ledger.AccountID) bool { return true }},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(id ledger.AccountID) bool { return !c.want(id) })
		if got := list(c.q); !slices.Equal(got, want) {
			r.Errorf("selected by %s: %v\nwant %v", name, got, want)
		}
	}
}

func limitHistory(r *room) {
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	r.open()
	r.credit(50)
	for version, limit := range []quota.Limit{quota.LimitOf(500), quota.LimitOf(500), quota.NoLimit} {
		r.terms.PolicyVersion, r.terms.Limit = int64(version+2), limit
		r.SetPolicyVersion(r.terms.PolicyVersion)
		r.open()
	}
	list, err := r.Store.LimitHistory(r.Context(), []ledger.AccountID{r.account, r.account})
	r.must(err)
	want := []ledger.LimitChange{
		{Limit: quota.LimitOf(1_050), PolicyVersion: 1, Note: "credit of 50, mina: goodwill"},
		{Limit: quota.LimitOf(550), PolicyVersion: 2, Note: "policy"},
		{Limit: quota.NoLimit, PolicyVersion: 4, Note: "policy"},
	}
	a := r.state(r.account)
	if a.Opening != quota.LimitOf(1_000) || a.OpenedAt.IsZero() {
		r.Errorf("opened with %v at %s", a.Opening, a.OpenedAt)
	}
	from := a.OpenedAt
	for i, l := range list {
		if l.At.Before(from) || l.Account != r.account {
			r.Errorf("change %+v after %s", l, from)
		}
		from, list[i].At, list[i].Account = l.At, time.Time{}, ledger.AccountID{}
	}
	if !slices.Equal(list, want) {
		r.Errorf("limits\n%+v\nwant\n%+v", list, want)
	}
	if list, err := r.Store.LimitHistory(r.Context(), nil); err != nil || len(list) != 0 {
		r.Errorf("the limits of no account: %v, %v", list, err)
	}
}

func adjustedOnce(r *room) {
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	x := r.newAdjustment(50, "goodwill")
	if _, err := r.tryAdjust(x, (*ledger.Book).Credit); err != ledger.ErrNotOpened {
		r.Errorf("a credit for what was never opened: %v", err)
	}
	r.open()
	for i := range 2 {
		ans, err := r.tryAdjust(x, (*ledger.Book).Credit)
		r.must(err)
		if ans.Repeated != (i == 1) || ans.Grant.Amount != 50 || ans.Account.Credit != 50 || ans.Account.InForce() != quota.LimitOf(1_050) {
			r.Errorf("time %d: %+v", i+1, ans)
		}
	}
	other := x
	other.Units = 51
	_, err := r.tryAdjust(other, (*ledger.Book).Credit)
	r.wantCode(err, ledger.CodeTerms)
	_, err = r.tryAdjust(x, (*ledger.Book).ReleaseHeld)
	r.wantCode(err, ledger.CodeTerms)
	if n := r.count(ledger.GrantQuery{}); n != 1 {
		r.Errorf("%d records, want 1", n)
	}
	r.want(units{})
}

func releaseBatch(r *room) {
	r.brief()
	r.terms.Class = quota.Hard
	var asks []ledger.Ask
	for range ledger.HeldBatch + 10 {
		asks = append(asks, r.newAsk(r.id(), 1))
	}
	_, err := r.tryAsk(asks...)
	r.must(err)
	r.until("all leases closed", func() bool {
		r.expire()
		return r.state(r.account).Outstanding == 0
	})
	ans, err := r.tryAdjust(r.newAdjustment(quota.MaxUnits, "their agents are gone"), (*ledger.Book).ReleaseHeld)
	r.must(err)
	const all = ledger.HeldBatch + 10
	if ans.Grant.Amount != all || ans.Account.Released != all {
		r.Errorf("released %d, the account says %d: want %d", ans.Grant.Amount, ans.Account.Released, all)
	}
	r.want(units{U: all})
}

// writeAdjustments gives a credit and frees held units.
func (r *room) writeAdjustments() {
	r.Helper()
	for _, rule := range []func(*ledger.Book, ledger.Adjustment) (ledger.Answer, error){(*ledger.Book).Credit, (*ledger.Book).ReleaseHeld} {
		r.write(ledger.Scope{Held: true}, func(b *ledger.Book) error {
			_, err := rule(b, r.newAdjustment(3, "a note"))
			return err
		})
	}
}

// writeStatement closes a window that ended long ago and amends what it states.
func (r *room) writeStatement(agent ledger.ID) {
	r.Helper()
	at := r.account
	defer func() { r.account = at }()
	r.terms.FinalAfter = 24 * time.Hour
	r.past("past", 5_000)
	r.unleased(r.id(), 5_000) // beyond the limit
	r.credit(7)
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.CloseWindow(r.account)
		return err
	})
	r.write(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: r.id(), Account: r.account, Agent: agent, Taken: 4, Unleased: true})
		return err
	})
}

// compareBilling holds the stored statements and limits to what the rules said.
func (r *room) compareBilling(c ledger.Changes) {
	r.Helper()
	statements, err := r.Store.Statements(r.Context(), ledger.StatementQuery{Revisions: true})
	r.must(err)
	for _, s := range c.Statements {
		if !slices.Contains(statements, s) {
			r.Errorf("statements\n%+v\nlack\n%+v", statements, s)
		}
	}
	for _, l := range c.Limits {
		limits, err := r.Store.LimitHistory(r.Context(), []ledger.AccountID{l.Account})
		r.must(err)
		if !slices.Contains(limits, l) {
			r.Errorf("limits\n%+v\nlack\n%+v", limits, l)
		}
	}
}
