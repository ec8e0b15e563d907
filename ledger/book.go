package ledger

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
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
	Participants  map[quota.Key][]Participant // read only: the book keeps its changes apart
	Incarnations  []Incarnation
}

// MaxClockSkew is how far the database's and the replica's clock may differ (4.1).
const MaxClockSkew = 5 * time.Second

// Book is the state of some locked accounts, and the rules that change it. It is pure:
// time comes in with Loaded, and nothing leaves except through Changes. A Book is used by
// one goroutine.
type Book struct {
	loaded Loaded

	accounts     map[AccountID]*Account
	grants       map[ID]*Grant
	ofAccount    map[AccountID][]*Grant           // the same grants, by account, in the order loaded or made
	interested   map[quota.Key][]Participant      // in each key, as loaded: the store's own, never changed
	seen         map[quota.Key]map[ID]Participant // those that this book changed
	incarnations map[ID]*Incarnation
	expired      map[AccountID]bool // due leases of the account were closed in this book

	dirtyAccounts     map[AccountID]bool
	dirtyGrants       map[ID]bool
	newGrants         map[ID]bool
	folded            map[ID]bool
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
		accounts:          make(map[AccountID]*Account, len(l.Accounts)),
		grants:            make(map[ID]*Grant, len(l.Grants)),
		ofAccount:         make(map[AccountID][]*Grant, len(l.Accounts)),
		interested:        l.Participants,
		seen:              map[quota.Key]map[ID]Participant{},
		incarnations:      make(map[ID]*Incarnation, len(l.Incarnations)),
		expired:           map[AccountID]bool{},
		dirtyAccounts:     map[AccountID]bool{},
		dirtyGrants:       map[ID]bool{},
		newGrants:         map[ID]bool{},
		folded:            map[ID]bool{},
		foldedTallies:     map[AccountID]Tally{},
		dirtyIncarnations: map[ID]bool{},
		statements:        map[AccountID]Statement{},
		unamended:         map[AccountID]Account{},
		because:           map[AccountID]string{},
	}
	for i := range l.Accounts {
		b.accounts[l.Accounts[i].ID] = &l.Accounts[i]
	}
	for i := range l.Grants {
		b.keep(&l.Grants[i])
	}
	for i := range l.Incarnations {
		b.incarnations[l.Incarnations[i].ID] = &l.Incarnations[i]
	}
	return b
}

func (b *Book) keep(g *Grant) {
	b.grants[g.ID] = g
	b.ofAccount[g.Account] = append(b.ofAccount[g.Account], g)
}

// Now is the ledger's time in this transaction.
func (b *Book) Now() time.Time { return b.loaded.Now }

// ClockSuspect reports that nothing that depends on time may happen (4.1).
func (b *Book) ClockSuspect() bool { return b.loaded.ClockSuspect }

// PolicyVersion is the version in force, read in this transaction.
func (b *Book) PolicyVersion() int64 { return b.loaded.PolicyVersion }

// Account returns a copy of a locked account, as it is now.
func (b *Book) Account(id AccountID) (Account, bool) {
	a, ok := b.accounts[id]
	if !ok {
		return Account{}, false
	}
	now := *a
	b.refill(&now)
	return now, true
}

// Grant returns a copy of a loaded grant.
func (b *Book) Grant(id ID) (Grant, bool) {
	g, ok := b.grants[id]
	if !ok {
		return Grant{}, false
	}
	return *g, true
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
	a, ok := b.accounts[id]
	if !ok {
		return Account{}, ErrNotLocked
	}
	if t.PolicyVersion != b.loaded.PolicyVersion || t.PolicyVersion < a.PolicyVersion {
		return Account{}, ErrStalePolicy
	}
	if a.Terms == t {
		return *a, nil
	}
	b.refill(a)
	before, fresh := *a, a.Kind == 0
	if !fresh && !a.ID.Window.Endless() && !b.nowAt(a).Before(a.ID.Window.End) {
		return *a, nil // the terms of a window that has ended are history
	}
	a.Terms = t
	a.reconfigure(before.Terms)
	b.refill(a)
	a.enlarge()
	b.opening(a, before)
	b.touched(a, before)
	if !fresh && (before.Limit != t.Limit || before.Rate != t.Rate) {
		if before.Limit != t.Limit && !id.Window.Endless() {
			b.limited(a, "policy")
		}
		b.record(Event{
			Kind: EventLimit, Account: id, Units: t.Limit.Units, Generation: a.Generation, Note: limitNote(before.Terms, t),
		})
	}
	return *a, nil
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
func (b *Book) replace(a *Account, after Grant) error {
	var was Tally
	var old Grant
	known, ok := b.grants[after.ID]
	if ok {
		old, was = *known, known.Tally()
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
	after.UpdatedAt = b.nowAt(a)
	if ok {
		*known = after
		b.dirtyGrants[after.ID] = true
	} else {
		b.keep(&after)
		b.newGrants[after.ID] = true
	}
	return nil
}

// change replaces a grant whose account follows: nothing else of the account changed.
func (b *Book) change(a *Account, after Grant) error {
	b.refill(a)
	before := *a
	if err := b.replace(a, after); err != nil {
		return err
	}
	b.touched(a, before)
	return nil
}

// enter puts a decision in the book. What it took beyond the headroom moves from H to U.
func (b *Book) enter(a *Account, before Account, g Grant) (Answer, error) {
	could := b.spendable(&before)
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
	return b.answer(b.grants[g.ID], a), nil
}

// touched closes a change of an account: it ratchets the clock, bumps the generation when
// headroom or exposure grew, and records overshoot the moment it shows.
func (b *Book) touched(a *Account, before Account) {
	if !b.loaded.ClockSuspect {
		a.Clock = b.nowAt(a)
	}
	b.dirtyAccounts[a.ID] = true
	if a.Headroom() > before.Headroom() || a.Exposure() > before.Exposure() || a.fasterThan(before.Terms) {
		a.Generation++
		if a.Waiting && a.growthHelps() {
			a.Waiting = false
			b.record(Event{Kind: EventGrew, Account: a.ID, Generation: a.Generation})
		}
	}
	b.freed(a, before)
	a.forgetEnded()
	if o := a.RealisedOvershoot(); o > a.Overshoot {
		a.Overshoot = o
		b.record(Event{Kind: EventOvershoot, Account: a.ID, Units: o})
	}
	b.amend(a, before)
}

// commit notes what a grant or a spend promised (3.8).
func (a *Account) commit() {
	if a.Kind != quota.RateLimit {
		a.Committed = max(a.Committed, a.charged())
	}
}

// Events are those recorded so far.
func (b *Book) Events() []Event { return b.events }

// Changes is what a store has to write.
type Changes struct {
	Accounts     []Account
	NewGrants    []Grant
	Grants       []Grant // changed ones
	Folded       []ID    // settled grants to delete, their tallies now in FoldedTally
	FoldedTally  map[AccountID]Tally
	Participants []Participant
	Incarnations []Incarnation
	Events       []Event
	Limits       []LimitChange // in the order in which they happened
	Statements   []Statement   // at most one revision an account
}

// Changes returns what the rules changed, in a stable order.
func (b *Book) Changes() Changes {
	var c Changes
	for id := range b.dirtyAccounts {
		c.Accounts = append(c.Accounts, *b.accounts[id])
	}
	slices.SortFunc(c.Accounts, func(x, y Account) int { return CompareAccounts(x.ID, y.ID) })
	for id := range b.newGrants {
		c.NewGrants = append(c.NewGrants, *b.grants[id])
	}
	for id := range b.dirtyGrants {
		if !b.newGrants[id] {
			c.Grants = append(c.Grants, *b.grants[id])
		}
	}
	byID := func(x, y Grant) int { return CompareIDs(x.ID, y.ID) }
	slices.SortFunc(c.NewGrants, byID)
	slices.SortFunc(c.Grants, byID)
	for id := range b.folded {
		c.Folded = append(c.Folded, id)
	}
	slices.SortFunc(c.Folded, CompareIDs)
	c.FoldedTally = b.foldedTallies
	for _, seen := range b.seen {
		c.Participants = slices.AppendSeq(c.Participants, maps.Values(seen))
	}
	slices.SortFunc(c.Participants, func(x, y Participant) int {
		return cmp.Or(compareKeys(x.Key, y.Key), CompareIDs(x.Agent, y.Agent))
	})
	for id := range b.dirtyIncarnations {
		c.Incarnations = append(c.Incarnations, *b.incarnations[id])
	}
	slices.SortFunc(c.Incarnations, func(x, y Incarnation) int { return CompareIDs(x.ID, y.ID) })
	c.Events = b.events
	c.Limits = b.limits
	c.Statements = slices.SortedFunc(maps.Values(b.statements), func(x, y Statement) int {
		return CompareAccounts(x.Account, y.Account)
	})
	return c
}

// CompareIDs orders ids as the stores do, byte by byte: those of UUIDv7 by their time.
func CompareIDs(x, y ID) int { return bytes.Compare(x[:], y[:]) }

func compareKeys(x, y quota.Key) int {
	return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Dimension, y.Dimension))
}

// CompareAccounts is the one order in which accounts are locked.
func CompareAccounts(x, y AccountID) int {
	return cmp.Or(compareKeys(x.Key, y.Key), x.Window.Start.Compare(y.Window.Start), x.Window.End.Compare(y.Window.End))
}
