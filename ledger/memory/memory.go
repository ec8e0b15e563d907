package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Store is a ledger in memory.
type Store struct {
	now func() time.Time

	mu            sync.Mutex // guards all below; held while fn of Update runs
	policyVersion int64
	retention     time.Duration
	clockSuspect  bool
	onCommit      func() Outcome
	accounts      map[ledger.AccountID]*account
	grants        map[ledger.ID]*record
	loads         int64 // so far
	byID          index // all grants
	due           index // live leases of all accounts, soonest to close first
	ending        index // slots of closed leases of all accounts, soonest to end first
	participants  map[quota.Key]*interest
	incarnations  map[ledger.ID]ledger.Incarnation
	events        []ledger.Event // by rising id
	lastEvent     int64
	unstated      map[ledger.AccountID]time.Time // when time has something to write in a statement
	lines         map[ledger.LineID][]ledger.Ticket
}

var (
	_ ledger.Store   = (*Store)(nil)
	_ ledger.Reader  = (*Store)(nil)
	_ ledger.Keeper  = (*Store)(nil)
	_ ledger.Billing = (*Store)(nil)
	_ ledger.Lines   = (*Store)(nil)
)

// New returns an empty ledger that takes its time from now. Its policy version is 0 and its
// retention 30 days until they are set.
func New(now func() time.Time) *Store {
	return &Store{
		now:          now,
		retention:    30 * 24 * time.Hour,
		accounts:     map[ledger.AccountID]*account{},
		grants:       map[ledger.ID]*record{},
		byID:         index{order: byID},
		due:          index{order: soonestClosed},
		ending:       index{order: soonestEnded},
		participants: map[quota.Key]*interest{},
		incarnations: map[ledger.ID]ledger.Incarnation{},
		unstated:     map[ledger.AccountID]time.Time{},
		lines:        map[ledger.LineID][]ledger.Ticket{},
	}
}

// SetPolicyVersion sets the version that is in force from the next transaction on.
func (s *Store) SetPolicyVersion(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policyVersion = version
}

// SetRetention sets how long ids are remembered.
func (s *Store) SetRetention(retention time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retention = retention
}

// SetClockSuspect says whether the store's clock and the replica's disagree.
func (s *Store) SetClockSuspect(suspect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clockSuspect = suspect
}

// Update implements ledger.Store. The mutex is held while fn runs: fn must not use the store.
func (s *Store) Update(ctx context.Context, scope ledger.Scope, fn func(*ledger.Book) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err := s.attempt(scope, fn); done || err != nil {
			return err
		}
	}
}

// attempt runs fn once and commits. It reports false when the batch has to be submitted again.
func (s *Store) attempt(scope ledger.Scope, fn func(*ledger.Book) error) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	book := ledger.NewBook(s.load(scope))
	if err := fn(book); err != nil {
		return true, err
	}
	switch s.outcome() {
	case Conflict:
		return false, nil
	case Broken:
		return true, ErrBroken
	case Unknown:
		return false, s.apply(scope, book.Changes())
	default:
		return true, s.apply(scope, book.Changes())
	}
}

// apply writes the changes of one transaction, all or nothing.
func (s *Store) apply(scope ledger.Scope, c ledger.Changes) error {
	for _, g := range c.NewGrants {
		if _, ok := s.grants[g.ID]; ok {
			return fmt.Errorf("insert grant %s: the id exists and was not in the scope", g.ID)
		}
	}
	for _, id := range scope.Accounts {
		s.make(id)
	}
	for _, a := range c.Accounts {
		s.accounts[a.ID].row = a
	}
	for _, g := range c.NewGrants {
		s.put(g)
	}
	for _, g := range c.Grants {
		s.put(g)
	}
	for _, id := range c.Folded {
		s.drop(id)
	}
	for id, t := range c.FoldedTally {
		a := s.accounts[id]
		a.folded = plus(a.folded, t)
	}
	for _, p := range c.Participants {
		of, ok := s.participants[p.Key]
		if !ok {
			of = &interest{}
			s.participants[p.Key] = of
		}
		of.put(p)
	}
	s.bill(c)
	for _, inc := range c.Incarnations {
		s.incarnations[inc.ID] = cloned(inc)
	}
	for _, e := range c.Events {
		s.lastEvent++
		e.ID = s.lastEvent
		s.events = append(s.events, e)
	}
	return nil
}

func (s *Store) make(id ledger.AccountID) {
	if _, ok := s.accounts[id]; !ok {
		s.accounts[id] = newAccount(id)
	}
}

// put writes a grant and moves it to its new places in the indexes.
func (s *Store) put(g ledger.Grant) {
	a := s.accounts[g.Account]
	r, ok := s.grants[g.ID]
	if ok {
		r.leave()
	} else {
		r = newRecord()
		s.grants[g.ID], a.all[g.ID] = r, r
	}
	r.grant, r.tally = g, g.Tally()
	if !ok {
		s.byID.add(r) // once: an id never changes
	}
	a.add(r)
	if g.State == ledger.Live {
		r.join(&s.due)
	}
	if r.ends() {
		r.join(&s.ending)
	}
}

func (s *Store) drop(id ledger.ID) {
	r := s.grants[id]
	r.leave()
	delete(s.accounts[r.grant.Account].all, id)
	s.byID.remove(r)
	delete(s.grants, id)
}

func cloned(inc ledger.Incarnation) ledger.Incarnation {
	inc.Issued = slices.Clone(inc.Issued)
	return inc
}

// plus adds what was folded. It cannot overflow: the account's counters hold the same sums.
func plus(x, y ledger.Tally) ledger.Tally {
	return ledger.Tally{
		Granted: x.Granted + y.Granted, Leased: x.Leased + y.Leased, Spent: x.Spent + y.Spent,
		Unleased: x.Unleased + y.Unleased, Outstanding: x.Outstanding + y.Outstanding,
		Held: x.Held + y.Held, Uncertain: x.Uncertain + y.Uncertain, Expired: x.Expired + y.Expired,
		Revoked: x.Revoked + y.Revoked, Returned: x.Returned + y.Returned,
		Emergency: x.Emergency + y.Emergency, Extended: x.Extended + y.Extended,
	}
}
