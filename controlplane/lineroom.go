package controlplane

import (
	"context"
	"math"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// leasedOutWait is when units that other agents hold may be back. Nobody knows.
const leasedOutWait = 500 * time.Millisecond

// room is what is free of all that an operation draws on, as the ledger showed it a moment ago.
// It decides nothing: who is admitted still takes, and is denied if it was wrong.
type room struct {
	terms ledger.LineTerms
	book  *ledger.Book // over copies, and written nowhere
	now   time.Time
	draws []draw
}

type draw struct {
	account ledger.AccountID
	cost    quota.Units
}

// roomFor reads the accounts that a line waits for, without a lock. The fault is one of the line:
// policy does not let callers wait there.
func (l *lines) roomFor(ctx context.Context, s *policy.Snapshot, id ledger.LineID) (*room, *pb.Fault, error) {
	op, known := s.Operation(id.Operation)
	if !known || op.Defer == nil {
		return nil, fault(codeUnknownOperation, "operation", "an operation of the policy with on_deny defer"), nil
	}
	r := &room{terms: ledger.LineTerms{MaxAge: op.Defer.MaxAge, MaxTickets: int(op.Defer.MaxTickets)}, now: l.now()}
	var accounts []ledger.Account
	var places []*place
	for _, t := range op.Takes {
		at := resolve(s, quota.Key{Tenant: id.Tenant, Dimension: t.Dimension}, r.now)
		if at.fault != nil {
			return nil, at.fault, nil
		}
		account, err := l.account(ctx, at.account)
		if err != nil {
			return nil, nil, err
		}
		accounts, places = append(accounts, account), append(places, at)
		r.draws = append(r.draws, draw{at.account, t.Cost})
	}
	r.book = ledger.NewBook(ledger.Loaded{Now: r.now, PolicyVersion: s.Version, Accounts: accounts})
	for _, at := range places {
		// Terms that another replica has newer ones than are left as they are.
		_, _ = r.book.Open(at.account, at.terms)
	}
	return r, nil, nil
}

// account is one as stored, or as it will be made.
func (l *lines) account(ctx context.Context, id ledger.AccountID) (ledger.Account, error) {
	found, err := l.reader.Accounts(ctx, ledger.AccountQuery{Tenant: id.Key.Tenant, Dimension: id.Key.Dimension, At: l.now()})
	if err != nil {
		return ledger.Account{}, outage("read what a line waits for", err)
	}
	for _, a := range found {
		if a.ID == id {
			return a, nil
		}
	}
	return ledger.Account{ID: id}, nil
}

// times is how often the operation fits into what is free.
func (r *room) times() int64 {
	most := int64(math.MaxInt64)
	for _, d := range r.draws {
		a, _ := r.book.Account(d.account)
		most = min(most, int64(max(0, a.Headroom())/d.cost))
	}
	return most
}

// mostTimes is how often the operation can be asked for at once.
func (r *room) mostTimes() int64 {
	most := int64(quota.MaxCost)
	for _, d := range r.draws {
		most = min(most, int64(quota.MaxCost/d.cost))
	}
	return most
}

// whyNot names the dimension that would keep the operation from passing for longest, with the
// reason and the time until that may change; 0: not known.
func (r *room) whyNot(times int64) (quota.Reason, string, time.Duration) {
	var reason quota.Reason
	var dimension string
	longest := time.Duration(-1)
	for _, d := range r.draws {
		why, wait := r.book.Peek(d.account, d.cost*quota.Units(times))
		switch {
		case why == quota.Allowed:
			continue
		case why == quota.LeasedOut:
			wait = leasedOutWait
		case why == quota.Exhausted && wait == 0 && !d.account.Window.Endless():
			wait = max(0, d.account.Window.End.Sub(r.now))
		}
		if wait > longest {
			reason, dimension, longest = why, d.account.Key.Dimension, wait
		}
	}
	return reason, dimension, max(0, longest)
}
