package controlplane

import (
	"errors"
	"slices"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// place is where a key stands at the time of a plan: its terms and a window, mostly the current.
type place struct {
	account   ledger.AccountID
	terms     ledger.Terms
	lease     policy.Lease // as it is now
	size      ledger.Sizer // of such leases
	dimension *policy.Dimension
	fault     *pb.Fault // policy does not admit the key: nothing is recorded for it

	key    quota.Key
	window *pb.Window // of the account, as answers tell it
	scoped bool       // the account is in the scope
}

// plan is one attempt at a transaction over a policy snapshot: where every key stands, and
// what has to be locked. What an attempt finds out too late (again) goes into the next one.
type plan struct {
	snapshot  *policy.Snapshot
	now       time.Time // the ledger's, as estimated or as last read
	retention time.Duration
	places    map[quota.Key]*place
	order     []*place                    // the same, as they were named
	latest    *place                      // the one that was looked up last: the items of a request share it
	windows   map[ledger.AccountID]*place // that are not the current ones
	later     map[quota.Key]time.Time     // keys whose account has a clock ahead of now
	accounts  map[ledger.AccountID]bool   // of records found by id
	live      bool                        // load live leases, for a recall
}

func newPlan(s *policy.Snapshot, now time.Time, retention time.Duration) *plan {
	return &plan{
		snapshot: s, now: now, retention: retention, places: map[quota.Key]*place{}, windows: map[ledger.AccountID]*place{},
		later: map[quota.Key]time.Time{}, accounts: map[ledger.AccountID]bool{},
	}
}

// again says what an attempt lacked. It is an error only so that the store rolls back.
type again struct {
	stale    bool      // the snapshot is not the version in force
	now      time.Time // the ledger's, where windows were wrong
	later    map[quota.Key]time.Time
	accounts []ledger.AccountID
	live     bool
	failed   *request // the rules broke on this request, with cause
	cause    error
}

func (*again) Error() string { return "transaction needs another attempt" }

// learn takes in what an attempt found out.
func (p *plan) learn(a *again) {
	if !a.now.IsZero() {
		p.now, p.places, p.order, p.latest = a.now, map[quota.Key]*place{}, nil, nil
		p.windows = map[ledger.AccountID]*place{}
	}
	for key, at := range a.later {
		p.later[key] = at
	}
	for _, id := range a.accounts {
		p.accounts[id] = true
	}
	p.live = p.live || a.live
}

// place resolves a key once an attempt.
func (p *plan) place(key quota.Key) *place {
	if p.latest != nil && p.latest.key == key {
		return p.latest
	}
	if known, ok := p.places[key]; ok {
		p.latest = known
		return known
	}
	at := p.now
	if later, ok := p.later[key]; ok && later.After(at) {
		at = later
	}
	found := resolve(p.snapshot, key, at)
	p.places[key], p.latest = found, found
	p.order = append(p.order, found)
	return found
}

// resolve finds a key's terms in the window that contains a moment.
func resolve(s *policy.Snapshot, key quota.Key, at time.Time) *place {
	dim, ok := s.Dimension(key.Dimension)
	if !ok {
		return &place{key: key, fault: faultOf(policy.ErrUnknownDimension)}
	}
	return resolveIn(s, dim, ledger.AccountID{Key: key, Window: windowAt(dim, at)}, at)
}

// windowAt is a dimension's window at a moment. Rates and slots are limited at every moment
// alike: theirs has no end.
func windowAt(dim *policy.Dimension, at time.Time) quota.Window {
	if dim.Kind != quota.Period {
		return quota.Window{}
	}
	return dim.Period.WindowAt(at)
}

// windowAfter is the window after one; the endless one if there is none.
func windowAfter(dim *policy.Dimension, w quota.Window) quota.Window {
	if w.Endless() {
		return w
	}
	return dim.Period.Next(w)
}

// resolveIn finds a key's terms in one window. What counts at its start holds for all of it; a
// key whose window never ends follows the moment.
func resolveIn(s *policy.Snapshot, dim *policy.Dimension, account ledger.AccountID, at time.Time) *place {
	moment := account.Window.Start
	if account.Window.Endless() {
		moment = at
	}
	t, match, err := s.Resolve(account.Key, moment)
	if err != nil {
		return &place{key: account.Key, fault: faultOf(err)}
	}
	lease := dim.LeaseAt(match.Plan, at)
	return &place{
		key: account.Key, account: account, window: windowMessage(account.Window), dimension: dim, lease: lease, size: SizeLease(lease),
		terms: ledger.Terms{PolicyVersion: t.PolicyVersion, Kind: t.Kind, Class: t.Class, Limit: t.Limit,
			Budget: t.Budget, Rate: t.Rate, MaxHold: t.MaxHold, Pot: t.Outage.Budget, FinalAfter: dim.FinalAfter,
			TTL: lease.TTL, Grace: lease.Grace},
	}
}

// asked resolves the window that an ask names: the current one, which is what no window means
// too, or the next. Whether it is early enough for that is the ledger's to say.
func (p *plan) asked(x *ask) *place {
	current := p.place(x.key)
	if current.fault != nil || x.window == (quota.Window{}) || x.window == current.account.Window {
		return current
	}
	next := windowAfter(current.dimension, current.account.Window)
	if x.window != next {
		return &place{fault: fault(ledger.CodeInvalid, "window", allowedWindow)}
	}
	return p.in(current.dimension, ledger.AccountID{Key: x.key, Window: next})
}

// in resolves a window that is not the current one once an attempt.
func (p *plan) in(dim *policy.Dimension, account ledger.AccountID) *place {
	found, ok := p.windows[account]
	if !ok {
		found = resolveIn(p.snapshot, dim, account, p.now)
		p.windows[account] = found
	}
	return found
}

// allowedWindow is what an ask may name.
const allowedWindow = "the current window of the key's calendar or, from half a ttl before it begins, the next"

// reported resolves the window that a report names. A window that the calendar does not have,
// that lies further ahead than the next one or further back than the ledger's memory is no
// reason to make an account: use in it counts only if its grant is known.
func (p *plan) reported(account ledger.AccountID) *place {
	current := p.place(account.Key)
	if current.fault != nil || account.Window == current.account.Window {
		return current
	}
	dim, w := current.dimension, account.Window
	tooFar := w.Start.After(windowAfter(dim, current.account.Window).Start)
	tooOld := !w.Endless() && w.End.Before(p.now.Add(-p.retention))
	if w.Endless() || tooFar || tooOld || windowAt(dim, w.Start) != w {
		return &place{fault: fault(ledger.CodeInvalid, "window", "a past, the current or the next window of the key's calendar")}
	}
	return p.in(dim, account)
}

// scope names what the requests of an attempt touch, and tells their items where they stand. Keys
// that policy does not admit are left out: an account is never made for them. Its lists are
// sorted: equal requests make equal transactions.
func (p *plan) scope(requests []*request) ledger.Scope {
	s := scoper{plan: p}
	s.Live = p.live
	for _, at := range p.order {
		at.scoped = false
	}
	for _, at := range p.windows {
		at.scoped = false
	}
	for id := range p.accounts {
		s.Accounts = append(s.Accounts, id)
	}
	s.Grants = make([]ledger.ID, 0, 2*len(requests))
	s.Agents = make([]ledger.ID, 0, len(requests))
	for _, r := range requests {
		s.add(r)
	}
	slices.SortFunc(s.Accounts, ledger.CompareAccounts)
	s.Accounts = slices.Compact(s.Accounts)
	s.Grants, s.Agents = distinct(s.Grants), distinct(s.Agents)
	return s.Scope
}

// scoper gathers a scope.
type scoper struct {
	*plan
	ledger.Scope
}

func (s *scoper) account(at *place) *place {
	if at.fault == nil && !at.scoped {
		at.scoped = true
		s.Accounts = append(s.Accounts, at.account)
		s.Seen = max(s.Seen, at.terms.CountedFor())
	}
	return at
}

func (s *scoper) add(r *request) {
	if r.isSync {
		s.Agents = append(s.Agents, r.hello.Incarnation)
	}
	for i := range r.keys {
		if n := &r.keys[i]; n.fault == nil {
			n.at = s.account(s.place(n.key))
		}
	}
	for i := range r.reports {
		if x := &r.reports[i]; x.fault == nil {
			s.Grants = append(s.Grants, x.ID)
			x.at = s.account(s.reported(x.Account))
		}
	}
	for i := range r.renewals {
		if x := &r.renewals[i]; x.fault == nil {
			s.Grants = append(s.Grants, x.ID)
			x.at = s.account(s.place(x.Account.Key))
		}
	}
	for _, list := range [][]ask{r.cancels, r.asks, r.spends, r.refunds} {
		for i := range list {
			if x := &list[i]; x.fault == nil {
				s.Grants = append(s.Grants, x.id)
				s.account(s.place(x.key))
				x.at = s.account(s.asked(x))
			}
		}
	}
	for i := range r.asks { // what an agent holds counts against what it asks for
		if x := &r.asks[i]; x.fault == nil && x.at.fault == nil {
			s.Holders = append(s.Holders, ledger.Holder{Account: x.at.account, Agent: r.hello.Incarnation})
		}
	}
}

// distinct sorts ids and drops repeats.
func distinct(ids []ledger.ID) []ledger.ID {
	slices.SortFunc(ids, ledger.CompareIDs)
	return slices.Compact(ids)
}

// asAgain unwraps what a store returned of fn's error.
func asAgain(err error) (*again, bool) {
	var a *again
	if errors.As(err, &a) {
		return a, true
	}
	if errors.Is(err, ledger.ErrStalePolicy) {
		return &again{stale: true}, true
	}
	return nil, false
}
