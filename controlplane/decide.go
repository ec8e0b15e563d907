package controlplane

import (
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// answer is what an attempt says to one request. Nothing of it counts before the commit.
type answer struct {
	sync  *pb.SyncReply
	spend *pb.SpendReply
	err   error
}

// later makes an answer one of a moment after its decision: the commit took so long, and a lease
// for the next window would begin as much too late. The replica read its own clock after the
// ledger's, so the ledger's is at least there by now.
func (a *answer) later(since time.Duration) {
	passed := since.Microseconds()
	if a.spend != nil {
		a.spend.LedgerNowUs += passed
	}
	if a.sync == nil {
		return
	}
	a.sync.LedgerNowUs += passed
	for _, d := range a.sync.Decisions {
		d.StartsInUs = max(0, d.StartsInUs-passed)
	}
}

// attempt decides requests over one locked book. It depends on the book and the plan alone:
// a store may run it more than once.
type attempt struct {
	*plan
	book    *ledger.Book
	now     time.Time
	read    time.Time // the replica's clock, right after the ledger's was read
	answers []answer
	counts  counts
	states  map[stateOf]*pb.KeyState
}

func decide(p *plan, b *ledger.Book, requests []*request) (*attempt, error) {
	a := &attempt{plan: p, book: b, now: b.Now(), answers: make([]answer, len(requests)),
		counts: newCounts(), states: map[stateOf]*pb.KeyState{}}
	if b.PolicyVersion() != p.snapshot.Version {
		return nil, &again{stale: true}
	}
	if err := a.checkWindows(); err != nil {
		return nil, err
	}
	if err := a.openAll(); err != nil {
		return nil, err
	}
	if lacking := a.unlocked(requests); len(lacking) > 0 {
		return nil, &again{accounts: lacking}
	}
	for i, r := range requests {
		answered, err := a.answer(r)
		if errors.Is(err, ledger.ErrClock) {
			answered, err = answer{err: outage("decide", err)}, nil
		}
		if err == nil {
			a.answers[i] = answered
			continue
		}
		if _, retry := asAgain(err); retry {
			return nil, err
		}
		return nil, &again{failed: r, cause: err}
	}
	for i, r := range requests {
		a.tellKeys(r, a.answers[i])
	}
	a.counts.events = b.Events()
	return a, nil
}

// checkWindows compares every key's window with the ledger's clock, ratcheted per account.
// While the clocks disagree no window changes: nothing is decided in it either (4.1).
func (a *attempt) checkWindows() error {
	if a.book.ClockSuspect() {
		return nil
	}
	later := map[quota.Key]time.Time{}
	wrong := false
	for _, at := range a.order {
		if at.fault != nil {
			continue
		}
		account, locked := a.book.Account(at.account)
		if !locked {
			continue // named by a report only to find its own window
		}
		now := a.now
		if account.Clock.After(now) {
			now = account.Clock
			later[at.key] = now
		}
		wrong = wrong || !at.account.Window.Contains(now)
	}
	if !wrong {
		return nil
	}
	return &again{now: a.now, later: later}
}

// openAll brings the current accounts to the policy in force. A cut that leaves no headroom
// recalls what is out in the same transaction.
func (a *attempt) openAll() error {
	for _, at := range a.order {
		if at.fault != nil {
			continue
		}
		before, locked := a.book.Account(at.account)
		if !locked {
			continue
		}
		if err := openAndRecall(a.book, before, at.terms, a.live); err != nil {
			return err
		}
	}
	return nil
}

// openAndRecall opens an account and recalls its leases if new terms cut its headroom below
// zero. Without its live leases at hand it asks for them.
func openAndRecall(b *ledger.Book, before ledger.Account, t ledger.Terms, live bool) error {
	after, err := b.Open(before.ID, t)
	if err != nil {
		return fmt.Errorf("open %s: %w", before.ID, err)
	}
	cut := before.Kind != 0 && before.Terms != after.Terms && after.Headroom() < 0 && after.Headroom() < before.Headroom()
	if !cut || after.Outstanding == 0 && after.Kind != quota.Concurrency { // slots come back from use
		return nil
	}
	if !live {
		return &again{live: true}
	}
	note := fmt.Sprintf("policy version %d lowered the limit", t.PolicyVersion)
	if _, err := b.Recall(before.ID, note); err != nil {
		return fmt.Errorf("recall leases of %s: %w", before.ID, err)
	}
	return nil
}

func (a *attempt) answer(r *request) (answer, error) {
	if r.isSync {
		return a.answerSync(r)
	}
	return a.answerSpend(r)
}

// answerSync takes the parts of a Sync in their one order: token, reports, cancels, renewals,
// asks. The reports of a copy count, its renewals and asks do not (3.15).
func (a *attempt) answerSync(r *request) (answer, error) {
	admitted := a.book.Admit(r.hello, r.token)
	reply := &pb.SyncReply{Token: r.token.Bytes(), NewIncarnation: !admitted, LedgerNowUs: micros(a.now)}
	if !admitted {
		reply.Token = nil
		a.counts.copies++
	}
	reply.Results = make([]*pb.ReportResult, 0, len(r.reports))
	reply.Decisions = make([]*pb.Decision, 0, len(r.asks))
	for i := range r.reports {
		result, err := a.report(&r.reports[i])
		if err != nil {
			return answer{}, err
		}
		reply.Results = append(reply.Results, result)
	}
	if admitted {
		if err := a.withdraw(r, r.cancels); err != nil {
			return answer{}, err
		}
		if len(r.renewals)+len(r.asks) > 0 && a.book.ClockSuspect() {
			return answer{}, ledger.ErrClock
		}
		for i := range r.renewals {
			d, err := a.renew(&r.renewals[i])
			if err != nil {
				return answer{}, err
			}
			reply.Renewals = append(reply.Renewals, d)
		}
		for i := range r.asks {
			d, err := a.ask(r, &r.asks[i])
			if err != nil {
				return answer{}, err
			}
			reply.Decisions = append(reply.Decisions, d)
		}
	}
	if r.hello.PolicyVersion != a.snapshot.Version {
		reply.Catalogue = catalogue(a.snapshot)
	}
	return answer{sync: reply}, nil
}

// answerSpend takes refunds first: what comes back may be spent again.
func (a *attempt) answerSpend(r *request) (answer, error) {
	if err := a.withdraw(r, r.refunds); err != nil {
		return answer{}, err
	}
	if len(r.spends) > 0 && a.book.ClockSuspect() {
		return answer{}, ledger.ErrClock
	}
	decisions, err := a.spendAll(r)
	if err != nil {
		return answer{}, err
	}
	return answer{spend: &pb.SpendReply{LedgerNowUs: micros(a.now), Decisions: decisions}}, nil
}

// unlocked lists the accounts outside the scope of records that requests report on or take back:
// those of windows that are over, and of keys that policy no longer admits. They are found all at
// once: one attempt for each would leave an agent that owes many unanswered for ever.
func (a *attempt) unlocked(requests []*request) (lacking []ledger.AccountID) {
	seen := map[ledger.AccountID]bool{}
	note := func(id ledger.ID) {
		account, known := a.book.AccountOf(id)
		if known && !a.book.Locked(account) && !seen[account] {
			seen[account] = true
			lacking = append(lacking, account)
		}
	}
	for _, r := range requests {
		for i := range r.reports {
			note(r.reports[i].ID)
		}
		for _, list := range [][]ask{r.cancels, r.refunds} {
			for i := range list {
				note(list[i].id)
			}
		}
	}
	return lacking
}

// locked asks for another attempt if an account is outside the scope.
func (a *attempt) locked(id ledger.AccountID) error {
	if !a.book.Locked(id) {
		return &again{accounts: []ledger.AccountID{id}}
	}
	return nil
}

// fault counts and returns what is wrong with one item, or nil if the error is not the item's.
func (a *attempt) fault(err error) *pb.Fault {
	f := faultOf(err)
	if f != nil {
		a.counts.faults[f.Code]++
	}
	return f
}

func (a *attempt) tell(f *pb.Fault) *pb.Fault {
	a.counts.faults[f.Code]++
	return f
}

// tellKeys adds what the ledger knows of every key that a request named, as it is when all
// requests of the batch are decided.
func (a *attempt) tellKeys(r *request, to answer) {
	for i := range r.keys {
		n := &r.keys[i]
		var s *pb.KeyState
		if n.fault != nil {
			s = &pb.KeyState{Key: keyMessage(n.key), Fault: n.fault}
		} else {
			s = a.state(n.at, r.hello)
		}
		if to.sync != nil {
			to.sync.Keys = append(to.sync.Keys, s)
		}
		if to.spend != nil {
			to.spend.Keys = append(to.spend.Keys, s)
		}
	}
}

// stateOf is whose view of a key a state is: agents of different regions may hold differently
// much, all others are told the same.
type stateOf struct {
	at     *place
	region string
}

func (a *attempt) state(at *place, to ledger.Hello) *pb.KeyState {
	view := stateOf{at: at}
	if len(at.lease.Regions) > 0 {
		view.region = to.Region
	}
	if known, ok := a.states[view]; ok {
		return known
	}
	s := &pb.KeyState{Key: keyMessage(at.key)}
	a.states[view] = s
	if at.fault != nil {
		s.Fault = at.fault
		return s
	}
	account, _ := a.book.Account(at.account)
	s.Window = at.window
	if next := windowAfter(at.dimension, at.account.Window); !next.Endless() {
		s.Next = windowMessage(next)
	}
	s.Generation = account.Generation
	s.Limit = limitNumber(account.InForce())
	s.Headroom = int64(max(0, account.Headroom()))
	s.LeaseCap = int64(keyCap(at.terms, a.leaseCap(at, to), at.lease.Max))
	s.PolicyVersion = at.terms.PolicyVersion
	reason, wait := a.book.Peek(at.account, 1)
	s.Reason, s.RetryInUs = string(reason), upToMicros(wait)
	return s
}

// leaseCap is L for one agent.
func (a *attempt) leaseCap(at *place, to ledger.Hello) quota.Limit {
	key := at.account.Key
	others := a.book.Others(key, to.Incarnation, at.terms)
	return leaseCap(at.terms.Budget, at.lease.Regions, to.Region, a.book.Agents(key, at.terms), others)
}
