package ledger

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Loaded is what a store read for one transaction, after the locks were held.
type Loaded struct {
	Now           time.Time // the store's clock, read once the locks were held (4.1)
	ClockSuspect  bool      // it differs from the replica's by more than MaxClockSkew
	PolicyVersion int64     // the current one, read in this transaction
	Retention     time.Duration
	Accounts      []Account
	Grants        []Grant
	Participants  map[quota.Key][]Participant // best in the order of agents; read only: the book keeps its changes apart
	Incarnations  []Incarnation
}

// MaxClockSkew is how far the database's and the replica's clock may differ (4.1).
const MaxClockSkew = 5 * time.Second

// Book is the state of some locked accounts, and the rules that change it. It is pure:
// time comes in with Loaded, and nothing leaves except through Changes. A Book is used by
// one goroutine.
type Book struct {
	loaded Loaded

	pages        map[AccountID]*page
	latest       *page // the one that was looked up last: requests come back to it
	grants       map[ID]*entry
	entries      []entry // room for those to come
	holdings     map[holder]holding
	interests    map[quota.Key]*interest
	noted        map[noticed]int
	incarnations map[ID]*Incarnation

	dirtyPages        []*page
	newGrants         []*entry
	dirtyGrants       []*entry
	folded            []ID
	foldedTallies     map[AccountID]Tally
	dirtyIncarnations map[ID]bool
	events            []Event
	limits            []LimitChange
	statements        map[AccountID]Statement
	unamended         map[AccountID]Account // as found, of those whose statement may be amended
	because           map[AccountID]string  // what an operator did
}

// NewBook opens a book over what a store loaded.
func NewBook(l Loaded) *Book {
	b := &Book{
		loaded:            l,
		pages:             make(map[AccountID]*page, len(l.Accounts)),
		grants:            make(map[ID]*entry, 2*len(l.Grants)),
		entries:           make([]entry, 0, len(l.Grants)),
		holdings:          make(map[holder]holding, len(l.Grants)),
		interests:         map[quota.Key]*interest{},
		noted:             map[noticed]int{},
		incarnations:      make(map[ID]*Incarnation, len(l.Incarnations)),
		foldedTallies:     map[AccountID]Tally{},
		dirtyIncarnations: map[ID]bool{},
		statements:        map[AccountID]Statement{},
		unamended:         map[AccountID]Account{},
		because:           map[AccountID]string{},
	}
	pages := make([]page, len(l.Accounts))
	for i := range l.Accounts {
		pages[i] = page{Account: &l.Accounts[i], locked: true}
		b.pages[l.Accounts[i].ID] = &pages[i]
	}
	for i := range l.Grants {
		b.keep(&l.Grants[i])
	}
	for i := range l.Incarnations {
		b.incarnations[l.Incarnations[i].ID] = &l.Incarnations[i]
	}
	return b
}

// Now is the ledger's time in this transaction.
func (b *Book) Now() time.Time { return b.loaded.Now }

// ClockSuspect reports that nothing that depends on time may happen (4.1).
func (b *Book) ClockSuspect() bool { return b.loaded.ClockSuspect }

// PolicyVersion is the version in force, read in this transaction.
func (b *Book) PolicyVersion() int64 { return b.loaded.PolicyVersion }

// Account returns a copy of a locked account, as it is now.
func (b *Book) Account(id AccountID) (Account, bool) {
	a, ok := b.locked(id)
	if !ok {
		return Account{}, false
	}
	now := *a.Account
	b.refill(&now)
	return now, true
}

// Grant returns a copy of a loaded grant.
func (b *Book) Grant(id ID) (Grant, bool) {
	g, ok := b.grants[id]
	if !ok {
		return Grant{}, false
	}
	return *g.Grant, true
}

// AccountOf is the account of a loaded grant.
func (b *Book) AccountOf(id ID) (AccountID, bool) {
	g, ok := b.grants[id]
	if !ok {
		return AccountID{}, false
	}
	return g.Account, true
}

// Locked reports that the book may change an account.
func (b *Book) Locked(id AccountID) bool {
	_, ok := b.locked(id)
	return ok
}

// nowAt is the account's ratcheted clock: the later of this reading and the latest one used.
// A reading that cannot be trusted moves nothing.
func (b *Book) nowAt(a *Account) time.Time {
	if a.Clock.After(b.loaded.Now) || (b.loaded.ClockSuspect && !a.Clock.IsZero()) {
		return a.Clock
	}
	return b.loaded.Now
}

// Open brings an account to the terms of the current policy and returns it. A change of
// terms never refills: what is spent stays spent (R1.14). Terms of another version than the
// policy in force are ErrStalePolicy. A window that has ended keeps the terms it had.
func (b *Book) Open(id AccountID, t Terms) (Account, error) {
	a, ok := b.locked(id)
	if !ok {
		return Account{}, ErrNotLocked
	}
	if err := b.open(a, t); err != nil {
		return Account{}, err
	}
	return *a.Account, nil
}

func (b *Book) open(a *page, t Terms) error {
	if t.PolicyVersion != b.loaded.PolicyVersion || t.PolicyVersion < a.PolicyVersion {
		return ErrStalePolicy
	}
	if a.Terms == t {
		return nil
	}
	b.refill(a.Account)
	before, fresh := *a.Account, a.Kind == 0
	if !fresh && !a.ID.Window.Endless() && !b.nowAt(a.Account).Before(a.ID.Window.End) {
		return nil // the terms of a window that has ended are history
	}
	a.Terms = t
	a.reconfigure(before.Terms)
	b.refill(a.Account)
	a.enlarge()
	b.opening(a.Account, before)
	b.touched(a, before)
	if !fresh && (before.Limit != t.Limit || before.Rate != t.Rate) {
		if before.Limit != t.Limit && !a.ID.Window.Endless() {
			b.limited(a.Account, "policy")
		}
		b.record(Event{
			Kind: EventLimit, Account: a.ID, Units: t.Limit.Units, Generation: a.Generation, Note: limitNote(before.Terms, t),
		})
	}
	return nil
}

func limitNote(from, to Terms) string { return limitWord(from) + " -> " + limitWord(to) }

func limitWord(t Terms) string {
	word := formatUnits(t.Limit.Units)
	if t.Limit.Unlimited {
		word = "unlimited"
	}
	if t.Kind == quota.RateLimit && !t.Limit.Unlimited {
		word += " at " + formatUnits(t.Rate.Units) + " per " + t.Rate.Per.String()
	}
	return word
}

// replace puts a changed grant in the book and moves the account's counters by the
// difference of the two tallies. It is the only place where counters change.
func (b *Book) replace(a *page, after Grant) error {
	var was Tally
	var old Grant
	known, ok := b.grants[after.ID]
	if ok {
		old, was = *known.Grant, known.Tally()
	}
	without, err := a.Tally.plus(was, -1)
	if err != nil {
		return refuse(CodeOverflow, after.ID, "amount", "sums within int64")
	}
	sum, err := without.plus(after.Tally(), 1)
	if err != nil {
		return refuse(CodeOverflow, after.ID, "amount", "sums within int64")
	}
	if err := a.meter(&old, &after); err != nil {
		return refuse(CodeOverflow, after.ID, "amount", "sums within int64")
	}
	a.Tally = sum
	after.UpdatedAt = b.nowAt(a.Account)
	if !ok {
		made := after
		g := b.keep(&made)
		g.fresh = true
		b.newGrants = append(b.newGrants, g)
		return nil
	}
	*known.Grant = after
	b.sum(a, &old, &after)
	if !known.fresh && !known.changed {
		known.changed = true
		b.dirtyGrants = append(b.dirtyGrants, known)
	}
	return nil
}

// change replaces a grant whose account follows: nothing else of the account changed.
func (b *Book) change(a *page, after Grant) error {
	b.refill(a.Account)
	before := *a.Account
	if err := b.replace(a, after); err != nil {
		return err
	}
	b.touched(a, before)
	return nil
}

// enter puts a decision in the book. What it took beyond the headroom moves from H to U.
func (b *Book) enter(a *page, before Account, g Grant) (Answer, error) {
	could := before.Headroom() + before.movable(a.atHand, true)
	if err := b.replace(a, g); err != nil {
		return Answer{}, err
	}
	if g.Amount > 0 && g.Kind != KindEmergency {
		if err := b.makeRoom(a); err != nil {
			return Answer{}, err
		}
		a.commit()
	}
	b.touched(a, before)
	if g.Amount > 0 && could > 0 {
		b.drained(a)
	}
	return b.answer(b.grants[g.ID].Grant, a), nil
}

// touched closes a change of an account: it ratchets the clock, bumps the generation when
// headroom or exposure grew, and records overshoot the moment it shows.
func (b *Book) touched(a *page, before Account) {
	if !b.loaded.ClockSuspect {
		a.Clock = b.nowAt(a.Account)
	}
	b.write(a)
	if a.Headroom() > before.Headroom() || a.Exposure() > before.Exposure() || a.fasterThan(before.Terms) {
		a.Generation++
		if a.Waiting && a.growthHelps() {
			a.Waiting = false
			b.record(Event{Kind: EventGrew, Account: a.ID, Generation: a.Generation})
		}
	}
	b.freed(a.Account, before)
	a.forgetEnded()
	if o := a.RealisedOvershoot(); o > a.Overshoot {
		a.Overshoot = o
		b.record(Event{Kind: EventOvershoot, Account: a.ID, Units: o})
	}
	b.amend(a.Account, before)
}

// commit notes what a grant or a spend promised (3.8).
func (a *Account) commit() {
	if a.Kind != quota.RateLimit {
		a.Committed = max(a.Committed, a.charged())
	}
}

// Events are those recorded so far.
func (b *Book) Events() []Event { return b.events }

// CompareIDs orders ids as the stores do, byte by byte: those of UUIDv7 by their time.
func CompareIDs(x, y ID) int {
	order := binary.BigEndian
	if c := cmp.Compare(order.Uint64(x[:8]), order.Uint64(y[:8])); c != 0 {
		return c
	}
	return cmp.Compare(order.Uint64(x[8:]), order.Uint64(y[8:]))
}

func compareKeys(x, y quota.Key) int {
	return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Dimension, y.Dimension))
}

// CompareAccounts is the one order in which accounts are locked.
func CompareAccounts(x, y AccountID) int {
	return cmp.Or(compareKeys(x.Key, y.Key), x.Window.Start.Compare(y.Window.Start), x.Window.End.Compare(y.Window.End))
}
