package ledgertest

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// jobs turns the room into one of a concurrency key of 20 slots whose runs take at most hold.
func (r *room) jobs(hold time.Duration) {
	r.account = ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "batch_jobs"}}
	r.terms.Kind, r.terms.Class, r.terms.MaxHold = quota.Concurrency, quota.Hard, hold
	r.terms.Limit, r.terms.Budget = quota.LimitOf(20), quota.LimitOf(20)
}

func (r *room) renew(x ledger.Renewal) ledger.Answer {
	r.Helper()
	var ans ledger.Answer
	r.must(r.update(ledger.Scope{Grants: []ledger.ID{x.ID}}, func(b *ledger.Book) error {
		var err error
		ans, err = b.Renew(x, r.terms)
		return err
	}))
	return ans
}

func slotsEnd(r *room) {
	r.jobs(3 * time.Second) // long enough to be seen between the close and the end
	lasting := r.lease(r.id(), 3)
	first := ledger.Renewal{ID: lasting.ID, Account: r.account, Agent: lasting.Agent, Seq: 1, InUse: 2}
	renewed := r.renew(first)
	again := r.renew(first)
	if !again.Repeated || again.Grant != renewed.Grant || renewed.Grant != r.grant(lasting.ID) {
		r.Errorf("renewed\n%+v\nrepeated\n%+v\nrecorded\n%+v", renewed.Grant, again.Grant, r.grant(lasting.ID))
	}
	if !renewed.Grant.ExpiresAt.After(lasting.ExpiresAt) {
		r.Errorf("expires %s after the renewal, %s before", renewed.Grant.ExpiresAt, lasting.ExpiresAt)
	}
	r.want(units{S: 2, O: 1})
	r.brief()
	lost := r.lease(r.id(), 5)
	r.untilDue(1)
	r.expire()
	r.want(units{S: 2, O: 1, H: 5})
	if due := r.untilDue(1); !slices.Equal(due, []ledger.AccountID{r.account}) {
		r.Errorf("due to end: %v, want %s", due, r.account)
	}
	r.expire()
	r.want(units{S: 2, O: 1})
	if due, err := r.Store.Due(r.Context(), 10); err != nil || len(due) != 0 {
		r.Errorf("due after all has ended: %v, %v", due, err)
	}
	if got := r.grant(lost.ID); got.State != ledger.Final || got.EndsAt.Sub(got.ClosesAt) != r.terms.MaxHold {
		r.Errorf("the lost lease is %+v", got)
	}
}

// slotsStay: use that goes on without a lease is settled in no counter but S, and stays until
// time ends it.
func slotsStay(r *room) {
	r.jobs(time.Hour)
	r.open()
	running := ledger.Report{ID: r.id(), Account: r.account, Agent: r.id(), Unleased: true, Seq: 1, InUse: 4}
	r.must(r.report(running))
	over := ledger.Report{ID: r.id(), Account: r.account, Agent: r.id(), Unleased: true, Seq: 1, InUse: 0}
	r.must(r.report(over))
	folded := 0
	r.until("what is over folded", func() bool {
		before := time.Now()
		r.must(r.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) error {
			n, err := b.Fold(r.account, before)
			folded += n
			return err
		}))
		return folded > 0
	})
	if accounts, _ := r.foldable(r.moment(), ledger.ID{}, 0); folded != 1 || len(accounts) != 0 {
		r.Errorf("%d folded, %v to fold: want the one that is over and none", folded, accounts)
	}
	r.want(units{S: 4})
	running.Seq, running.InUse = 2, 0
	r.must(r.report(running))
	r.want(units{})
}

func emergencyPot(r *room) {
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	r.terms.Pot = 100
	ask := r.newAsk(r.id(), 60)
	ask.Emergency = true
	first := r.ask(ask)
	if first.Grant.Amount != 60 || first.Grant.Kind != ledger.KindEmergency || first.Grant.ExpiresAt != r.account.Window.End {
		r.Errorf("granted %+v, want 60 until the window ends", first.Grant)
	}
	second := ask
	second.ID = r.id()
	r.wantReason(r.ask(second), quota.LeasedOut)
	other := r.newAsk(r.id(), 41)
	other.Emergency = true
	r.wantReason(r.ask(other), quota.Exhausted)
	r.want(units{})
	r.must(r.report(reportOf(first.Grant, 10, 0, 50, true)))
	r.want(units{S: 10})
	if a := r.state(r.account); a.Emergency != 10 || a.Extended != 10 || a.Granted != 0 {
		r.Errorf("E %d, spent of it %d, granted %d: want 10, 10, 0", a.Emergency, a.Extended, a.Granted)
	}
}

// writeEmergency takes an allowance for an outage and reports on it.
func (r *room) writeEmergency(agent ledger.ID) {
	r.Helper()
	r.terms.Pot = 33
	ask := r.newAsk(agent, 5)
	ask.Emergency = true
	r.write(ledger.Scope{Agents: []ledger.ID{agent}}, func(b *ledger.Book) error {
		_, err := b.Ask(ask, r.terms, whole)
		return err
	})
	r.write(ledger.Scope{Grants: []ledger.ID{ask.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: ask.ID, Account: r.account, Agent: agent, Taken: 4})
		return err
	})
}

// writeSlots leases slots, renews them and reports on them, in an account of their own.
func (r *room) writeSlots(agent ledger.ID) ledger.AccountID {
	r.Helper()
	s := *r
	s.jobs(time.Hour)
	ask := s.newAsk(agent, 7)
	ask.Need = 3
	s.write(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Ask(ask, s.terms, whole)
		return err
	})
	s.write(ledger.Scope{Grants: []ledger.ID{ask.ID}}, func(b *ledger.Book) error {
		_, err := b.Renew(ledger.Renewal{ID: ask.ID, Account: s.account, Agent: agent, Seq: 1, InUse: 5, Returned: 1}, s.terms)
		return err
	})
	s.write(ledger.Scope{Grants: []ledger.ID{ask.ID}}, func(b *ledger.Book) error {
		_, err := b.Report(ledger.Report{ID: ask.ID, Account: s.account, Agent: agent, Seq: 2, InUse: 4, Returned: 2})
		return err
	})
	return s.account
}
