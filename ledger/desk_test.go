package ledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
)

var (
	exports = quota.Key{Tenant: "acme", Dimension: "report_export"}
	start   = time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	day     = quota.NewWindow(start.Truncate(24*time.Hour), start.Truncate(24*time.Hour).Add(24*time.Hour))
)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

var _ tb = (*testing.T)(nil)

// desk is a control plane of one window: it asks the ledger what a test wants to know.
type desk struct {
	tb
	store   *memory.Store
	now     time.Time
	account ledger.AccountID
	terms   ledger.Terms
	made    uint64
}

// open starts a desk on a day's window: leases live 30 s, and close 10 s after that.
func open(t tb, class quota.Class, limit, budget quota.Units) *desk {
	t.Helper()
	d := &desk{
		tb: t, now: start, account: ledger.AccountID{Key: exports, Window: day},
		terms: ledger.Terms{
			PolicyVersion: 1, Kind: quota.Period, Class: class, Limit: quota.LimitOf(limit),
			Budget: quota.LimitOf(budget), TTL: 30 * time.Second, Grace: 10 * time.Second,
		},
	}
	d.store = memory.New(func() time.Time { return d.now })
	d.store.SetPolicyVersion(1)
	return d
}

// newID makes a UUIDv7 of the desk's time.
func (d *desk) newID() ledger.ID {
	d.made++
	return idAt(d.now, d.made)
}

func idAt(at time.Time, n uint64) ledger.ID {
	var id ledger.ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|n)
	return id
}

func agent(n uint64) ledger.ID { return idAt(start.Add(-time.Hour), n) }

func (d *desk) update(scope ledger.Scope, fn func(*ledger.Book) error) error {
	d.Helper()
	scope.Accounts = append(scope.Accounts, d.account)
	for _, agent := range scope.Agents {
		scope.Holders = append(scope.Holders, ledger.Holder{Account: d.account, Agent: agent})
	}
	return d.store.Update(context.Background(), scope, fn)
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// whole gives an ask all it wants if there is room, and what there is otherwise.
func whole(r ledger.Room) ledger.Units { return r.Want }

func (d *desk) tryAsk(ask ledger.Ask) (ledger.Answer, error) {
	var ans ledger.Answer
	err := d.update(ledger.Scope{Grants: []ledger.ID{ask.ID}, Agents: []ledger.ID{ask.Agent}}, func(b *ledger.Book) error {
		var err error
		ans, err = b.Ask(ask, d.terms, whole)
		return err
	})
	return ans, err
}

func (d *desk) newAsk(a ledger.ID, want, need ledger.Units) ledger.Ask {
	return ledger.Ask{ID: d.newID(), Account: d.account, Agent: a, Region: "eu", Want: want, Need: need}
}

// ask asks for want units, of which one would help.
func (d *desk) ask(a ledger.ID, want ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.tryAsk(d.newAsk(a, want, 1))
	d.must(err)
	return ans
}

// lease is an ask that must be granted in full.
func (d *desk) lease(a ledger.ID, want ledger.Units) ledger.Grant {
	d.Helper()
	ans := d.ask(a, want)
	if ans.Grant.Amount != want {
		d.Fatalf("lease of %d: granted %d (%q)", want, ans.Grant.Amount, ans.Grant.Reason)
	}
	return ans.Grant
}

func (d *desk) tryReport(r ledger.Report) (ledger.Grant, error) {
	var g ledger.Grant
	err := d.update(ledger.Scope{Grants: []ledger.ID{r.ID}}, func(b *ledger.Book) error {
		if _, err := b.Open(r.Account, d.terms); err != nil {
			return err
		}
		var err error
		g, err = b.Report(r)
		return err
	})
	return g, err
}

// report sends cumulative counters of a grant.
func (d *desk) report(g ledger.Grant, taken, refunded, returned ledger.Units, final bool) ledger.Grant {
	d.Helper()
	after, err := d.tryReport(reportOf(g, taken, refunded, returned, final))
	d.must(err)
	return after
}

func reportOf(g ledger.Grant, taken, refunded, returned ledger.Units, final bool) ledger.Report {
	return ledger.Report{
		ID: g.ID, Account: g.Account, Agent: g.Agent,
		Taken: taken, Refunded: refunded, Returned: returned, Final: final,
	}
}

func (d *desk) trySpend(s ledger.Spend) (ledger.Answer, error) {
	var ans ledger.Answer
	err := d.update(ledger.Scope{Grants: []ledger.ID{s.ID}}, func(b *ledger.Book) error {
		var err error
		ans, err = b.Spend(s, d.terms)
		return err
	})
	return ans, err
}

func (d *desk) newSpend(a ledger.ID, cost ledger.Units) ledger.Spend {
	return ledger.Spend{ID: d.newID(), Account: d.account, Agent: a, Region: "eu", Cost: cost}
}

func (d *desk) spend(a ledger.ID, cost ledger.Units) ledger.Answer {
	d.Helper()
	ans, err := d.trySpend(d.newSpend(a, cost))
	d.must(err)
	return ans
}

func (d *desk) cancel(id, a ledger.ID) error {
	return d.update(ledger.Scope{Grants: []ledger.ID{id}}, func(b *ledger.Book) error {
		if _, err := b.Open(d.account, d.terms); err != nil {
			return err
		}
		return b.Cancel(id, d.account, a)
	})
}

// expire lets time pass and closes what is due.
func (d *desk) expire(after time.Duration) {
	d.Helper()
	d.now = d.now.Add(after)
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error { return b.Expire(d.account) }))
}

// apply brings a new policy with changed terms into force and opens the account to it.
func (d *desk) apply(change func(*ledger.Terms)) {
	d.Helper()
	change(&d.terms)
	d.terms.PolicyVersion++
	d.store.SetPolicyVersion(d.terms.PolicyVersion)
	d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Open(d.account, d.terms)
		return err
	}))
}

func (d *desk) state() ledger.Account {
	d.Helper()
	return d.stateOf(d.account)
}

func (d *desk) stateOf(id ledger.AccountID) ledger.Account {
	d.Helper()
	var found ledger.Account
	list, err := d.store.Accounts(context.Background(), ledger.AccountQuery{At: id.Window.Start, Tenant: id.Key.Tenant, Dimension: id.Key.Dimension})
	d.must(err)
	for _, a := range list {
		if a.ID == id {
			found = a
		}
	}
	return found
}

func (d *desk) grant(id ledger.ID) ledger.Grant {
	d.Helper()
	list, err := d.store.Grants(context.Background(), ledger.GrantQuery{ID: id})
	d.must(err)
	if len(list) != 1 {
		d.Fatalf("grant %s: %d records, want 1", id, len(list))
	}
	return list[0]
}

func (d *desk) records() []ledger.Grant {
	d.Helper()
	list, err := d.store.Grants(context.Background(), ledger.GrantQuery{})
	d.must(err)
	return list
}

func (d *desk) events(kind ledger.EventKind) []ledger.Event {
	d.Helper()
	list, err := d.store.Events(context.Background(), 0, 0)
	d.must(err)
	var of []ledger.Event
	for _, e := range list {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	return of
}

// verify demands that every counter is the sum of the grants.
func (d *desk) verify() {
	d.Helper()
	_, err := d.store.Verify(context.Background(),
		func(diff ledger.Difference) { d.Errorf("the ledger does not add up: %s", diff) }, func(int, int) {})
	d.must(err)
}

// books is S, O, H, U and A in one line, as tables of worked numbers state them.
type books struct{ S, O, H, U, A ledger.Units }

func (d *desk) want(want books) {
	d.Helper()
	a := d.state()
	if got := (books{a.Settled(), a.Outstanding, a.Held, a.Uncertain, a.Headroom()}); got != want {
		d.Errorf("account has %+v, want %+v", got, want)
	}
	d.verify()
}

func (d *desk) wantCode(err error, code ledger.Code) {
	d.Helper()
	var p *ledger.ProtocolError
	if !errors.As(err, &p) || p.Code != code {
		d.Errorf("got %v, want a protocol error %q", err, code)
	}
}

func (d *desk) wantReason(ans ledger.Answer, reason quota.Reason) {
	d.Helper()
	if ans.Approved() || ans.Grant.Reason != reason {
		d.Errorf("got %d units and reason %q, want a denial with %q", ans.Grant.Amount, ans.Grant.Reason, reason)
	}
}

// fold forgets what has been settled for longer than age.
func (d *desk) fold(age time.Duration) (folded int) {
	d.Helper()
	before := d.now.Add(-age)
	d.must(d.update(ledger.Scope{FoldOld: before}, func(b *ledger.Book) error {
		var err error
		folded, err = b.Fold(d.account, before)
		return err
	}))
	return folded
}
