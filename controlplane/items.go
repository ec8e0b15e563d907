package controlplane

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func (a *attempt) report(x report) (*pb.ReportResult, error) {
	result := &pb.ReportResult{GrantId: x.raw}
	if x.fault != nil {
		result.Fault = a.tell(x.fault)
		return result, nil
	}
	g, known := a.book.Grant(x.ID)
	at := a.reported(x.Account)
	switch {
	case known && g.Account != x.Account:
		result.Fault = a.tell(fault(ledger.CodeForeign, "grant_id", "a grant of this agent and account"))
		return result, nil
	case known:
		if err := a.locked(g.Account); err != nil {
			return nil, err
		}
	case at.fault != nil:
		result.Fault = a.tell(at.fault)
		return result, nil
	default:
		if err := a.openFresh(at); err != nil {
			return nil, err
		}
	}
	merged, err := a.book.Report(x.Report)
	if err != nil {
		if result.Fault = a.fault(err); result.Fault == nil {
			return nil, fmt.Errorf("merge report on %s: %w", x.ID, err)
		}
		return result, nil
	}
	a.counts.reports++
	result.State, result.Revoked = stateMessage(merged.State), !merged.RevokedAt.IsZero()
	return result, nil
}

// openFresh gives an account that nobody opened yet the terms of its window. A past window
// that was in use keeps the terms that it ended with.
func (a *attempt) openFresh(at *place) error {
	account, ok := a.book.Account(at.account)
	if !ok {
		return ledger.ErrNotLocked
	}
	if account.Kind != 0 {
		return nil
	}
	_, err := a.book.Open(at.account, at.terms)
	return err
}

// withdraw takes asks and spends back. There are no answers to that: what is wrong with one is
// counted.
func (a *attempt) withdraw(r *request, ids []ask) error {
	for _, x := range ids {
		if x.fault != nil {
			a.tell(x.fault)
			continue
		}
		account := ledger.AccountID{}
		if g, known := a.book.Grant(x.id); known {
			if err := a.locked(g.Account); err != nil {
				return err
			}
			account = g.Account
		} else if at := a.place(x.key); at.fault != nil {
			a.tell(at.fault)
			continue
		} else {
			account = at.account
		}
		if err := a.book.Cancel(x.id, account, r.hello.Incarnation); err != nil && a.fault(err) == nil {
			return fmt.Errorf("cancel %s: %w", x.id, err)
		}
	}
	return nil
}

// admit says what keeps a new ask or spend from being decided. A repeat needs no policy: it
// gets its record.
func (a *attempt) admit(x ask) (*place, *pb.Fault) {
	if x.fault != nil {
		return nil, x.fault
	}
	at := a.asked(x)
	if _, known := a.book.Grant(x.id); known {
		return at, nil
	}
	return at, at.fault
}

func (a *attempt) ask(r *request, x ask) (*pb.Decision, error) {
	at, refused := a.admit(x)
	if refused != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(refused)}, nil
	}
	account := at.account
	account.Key = x.key
	return a.settle(x, func() (ledger.Answer, error) {
		ans, err := a.book.Ask(ledger.Ask{ID: x.id, Account: account, Agent: r.hello.Incarnation,
			Region: r.hello.Region, Want: x.want, Need: x.need, Waiting: x.waiting, Emergency: x.emergency}, at.terms, SizeLease(at.lease))
		if errors.Is(err, ledger.ErrWindow) && account.Window != a.place(x.key).account.Window {
			return ans, &ledger.ProtocolError{Code: ledger.CodeInvalid, Grant: x.id, Field: "window", Allowed: allowedWindow}
		}
		return ans, err
	})
}

func (a *attempt) spend(r *request, x ask) (*pb.Decision, error) {
	at, refused := a.admit(x)
	if refused != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(refused)}, nil
	}
	return a.settle(x, func() (ledger.Answer, error) {
		return a.book.Spend(spendOf(r, x, at), at.terms)
	})
}

func spendOf(r *request, x ask, at *place) ledger.Spend {
	account := at.account
	account.Key = x.key
	return ledger.Spend{ID: x.id, Account: account, Agent: r.hello.Incarnation,
		Region: r.hello.Region, Cost: x.want, NotAfter: x.notAfter}
}

// settle turns the ledger's answer into a decision.
func (a *attempt) settle(x ask, ask func() (ledger.Answer, error)) (*pb.Decision, error) {
	got, err := ask()
	switch {
	case errors.Is(err, ledger.ErrWindow):
		return nil, &again{now: a.now}
	case err != nil:
		if f := a.fault(err); f != nil {
			return &pb.Decision{GrantId: x.raw, Fault: f}, nil
		}
		return nil, fmt.Errorf("decide on %s for %s: %w", x.id, x.key, err)
	}
	return a.decided(got), nil
}

func (a *attempt) decided(got ledger.Answer) *pb.Decision {
	a.counts.decided(got)
	d := decisionMessage(got.Grant, a.now)
	d.RetryInUs, d.Last = upToMicros(got.RetryIn), got.Last
	return d
}
