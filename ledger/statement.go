package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Statement is one revision of a window's usage statement. Revisions are added, never changed:
// what was billed can be told from what is known now.
type Statement struct {
	Account     AccountID
	Revision    int64 // 1 is written when the ledger has closed the window's last leases
	At          time.Time
	Billable    Units // S: confirmed use, and nothing else
	Held        Units // charged against the limit, never billed
	Uncertain   Units
	Outstanding Units
	Emergency   Units // authorised for an outage, not known as used or unspent
	Overshoot   Units
	OverLimit   Units
	Limit       quota.Limit // in force at the end, credits included
	Credit      Units
	Note        string // why there is a revision

	// Of the account, for those who read one statement.
	Opening  quota.Limit // the limit that the window opened with; later ones are LimitChanges
	OpenedAt time.Time
	ClosedAt time.Time // of revision 1
	FinalAt  time.Time // zero: this revision was not final
}

// Final reports that nothing of the window was open any more, or that it was too late to wait.
func (s *Statement) Final() bool { return !s.FinalAt.IsZero() }

// LimitChange is a limit that a window had after the one that it opened with.
type LimitChange struct {
	Account       AccountID
	At            time.Time
	Limit         quota.Limit // in force from then on, credits included
	PolicyVersion int64
	Note          string
}

// Billing is what statements are read from, and the list of those that time makes due.
type Billing interface {
	// Unstated lists accounts whose window ended and has no statement yet, once the grace of
	// its last leases is over, and those whose statement time makes final; at most limit.
	Unstated(ctx context.Context, limit int) ([]AccountID, error)
	// Statements lists statements in the order of CompareAccounts and revisions.
	Statements(ctx context.Context, q StatementQuery) ([]Statement, error)
	// LimitHistory lists the limits that accounts had after those they opened with, in the
	// order of CompareAccounts, oldest first.
	LimitHistory(ctx context.Context, accounts []AccountID) ([]LimitChange, error)
}

// StatementQuery selects statements; zero fields select all. From and To go by the start of a
// window, From included and To not, so that each window is in one of two ranges that meet.
type StatementQuery struct {
	Tenant    string
	Dimension string
	From      time.Time
	To        time.Time
	FinalOnly bool // windows whose latest revision is final
	Revisions bool // every revision, not the latest alone
	After     AccountID
	Limit     int // accounts, all of whose revisions come; 0: 1000
}

// CloseWindow writes the first statement of a window that has ended, once the grace of its last
// leases is over and they are closed, and makes a later one final when its time has come. It
// reports whether it wrote anything. While the clocks disagree nothing is written (4.1).
func (b *Book) CloseWindow(id AccountID) (bool, error) {
	a, err := b.opened(id)
	if err != nil || b.loaded.ClockSuspect || id.Window.Endless() {
		return false, err
	}
	if now := b.nowAt(a.Account); now.Before(id.Window.End.Add(a.Grace)) || !a.FinalAt.IsZero() {
		return false, nil
	}
	if err := b.expire(a); err != nil {
		return false, err
	}
	if !a.ClosedAt.IsZero() && !b.conclusive(a.Account) {
		return false, nil
	}
	before := *a.Account
	b.opening(a.Account, before)
	if a.ClosedAt.IsZero() {
		a.ClosedAt = b.nowAt(a.Account)
	}
	b.touched(a, before)
	return true, nil
}

// FinalBy is when the statement of a closed window is final whatever is open; zero: it is
// already, or never.
func (a *Account) FinalBy() time.Time {
	if a.ClosedAt.IsZero() || !a.FinalAt.IsZero() || a.FinalAfter == 0 {
		return time.Time{}
	}
	return a.ID.Window.End.Add(a.FinalAfter)
}

// unconfirmedEmergency is the part of E that no report accounts for.
func (a *Account) unconfirmedEmergency() Units { return a.Emergency - a.Extended }

// conclusive reports that the account's statement is final from now on.
func (b *Book) conclusive(a *Account) bool {
	open := a.Outstanding != 0 || a.Held != 0 || a.Uncertain != 0 || a.unconfirmedEmergency() != 0
	by := a.FinalBy()
	return !open || !b.loaded.ClockSuspect && !by.IsZero() && !b.nowAt(a).Before(by)
}

// amend adds a revision to the statement of a closed window when what it says has changed. It
// compares with what the transaction found, so that all that one transaction changes is one
// revision.
func (b *Book) amend(a *Account, before Account) {
	if a.ClosedAt.IsZero() {
		return
	}
	found, ok := b.unamended[a.ID]
	if !ok {
		found = before
		b.unamended[a.ID] = found
	}
	delete(b.statements, a.ID)
	a.Revision, a.FinalAt = found.Revision, found.FinalAt
	was, is := found.statement(), a.statement()
	first, final := found.ClosedAt.IsZero(), a.FinalAt.IsZero() && b.conclusive(a)
	if was == is && !first && !final {
		return
	}
	is.Note = b.why(a, found, was == is)
	switch {
	case final:
		a.FinalAt = b.nowAt(a)
		is.Note += "; final"
	case !a.FinalAt.IsZero():
		is.Note += "; after final"
	}
	a.Revision++
	is.Revision, is.FinalAt, is.At = a.Revision, a.FinalAt, b.nowAt(a)
	b.statements[a.ID] = is
}

// statement is what the account says now, without the revision's own fields.
func (a *Account) statement() Statement {
	return Statement{
		Account: a.ID, Billable: a.Settled(), Held: a.Held, Uncertain: a.Uncertain, Outstanding: a.Outstanding,
		Emergency: a.unconfirmedEmergency(), Overshoot: a.Overshoot, OverLimit: a.OverLimit(), Limit: a.InForce(),
		Credit: a.Credit, Opening: a.Opening, OpenedAt: a.OpenedAt, ClosedAt: a.ClosedAt,
	}
}

// why says for people what made a revision. same: the numbers are what they were.
func (b *Book) why(a *Account, found Account, same bool) string {
	said, explained := b.because[a.ID]
	switch {
	case explained:
		return said
	case found.ClosedAt.IsZero():
		return "window closed"
	case same:
		return fmt.Sprintf("open for %s after the window", a.FinalAfter)
	case a.Held+a.Uncertain > found.Held+found.Uncertain && a.Settled() == found.Settled():
		return "leases closed"
	}
	return "late report"
}

// explain keeps the reason of a change for the statement that it amends.
func (b *Book) explain(a *Account, reason string) {
	if said, ok := b.because[a.ID]; ok {
		reason = said + "; " + reason
	}
	b.because[a.ID] = reason
}

// opening notes the limit that a window opened with. An account that an older version opened
// opened with what it had before.
func (b *Book) opening(a *Account, before Account) {
	if !a.OpenedAt.IsZero() {
		return
	}
	a.Opening, a.OpenedAt = a.InForce(), b.nowAt(a)
	if before.Kind != 0 {
		a.Opening = before.InForce()
		if !a.ID.Window.Endless() {
			a.OpenedAt = a.ID.Window.Start
		}
	}
}

// limited notes that the limit in force has changed.
func (b *Book) limited(a *Account, note string) {
	b.limits = append(b.limits, LimitChange{
		Account: a.ID, At: b.nowAt(a), Limit: a.InForce(), PolicyVersion: a.PolicyVersion, Note: note,
	})
}
