package controlplane

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func (a *attempt) report(x *report) (*pb.ReportResult, error) {
	result := &pb.ReportResult{GrantId: x.raw}
	if x.fault != nil {
		result.Fault = a.tell(x.fault)
		return result, nil
	}
	id, known := a.book.AccountOf(x.ID)
	switch {
	case known && id != x.Account:
		result.Fault = a.tell(fault(ledger.CodeForeign, "grant_id", "a grant of this agent and account"))
		return result, nil
	case known:
		if err := a.locked(id); err != nil {
			return nil, err
		}
	case x.at.fault != nil:
		result.Fault = a.tell(x.at.fault)
		return result, nil
	default:
		if err := a.openFresh(x.at); err != nil {
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
	for i := range ids {
		x := &ids[i]
		if x.fault != nil {
			a.tell(x.fault)
			continue
		}
		account, known := a.book.AccountOf(x.id)
		if known {
			if err := a.locked(account); err != nil {
				return err
			}
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
func (a *attempt) admit(x *ask) *pb.Fault {
	if x.fault != nil {
		return x.fault
	}
	if x.at.fault == nil {
		return nil
	}
	if _, known := a.book.AccountOf(x.id); known {
		return nil
	}
	return x.at.fault
}

func (a *attempt) ask(r *request, x *ask) (*pb.Decision, error) {
	if refused := a.admit(x); refused != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(refused)}, nil
	}
	account := x.at.account
	account.Key = x.key
	ans, err := a.book.Ask(ledger.Ask{ID: x.id, Account: account, Agent: r.hello.Incarnation,
		Region: r.hello.Region, Want: x.want, Need: x.need, Waiting: x.waiting, Emergency: x.emergency}, x.at.terms, x.at.size)
	if errors.Is(err, ledger.ErrWindow) && account.Window != a.place(x.key).account.Window {
		err = &ledger.ProtocolError{Code: ledger.CodeInvalid, Grant: x.id, Field: "window", Allowed: allowedWindow}
	}
	return a.settle(x, &ans, err)
}

func (a *attempt) spend(r *request, x *ask) (*pb.Decision, error) {
	if refused := a.admit(x); refused != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(refused)}, nil
	}
	ans, err := a.book.Spend(spendOf(r, x), x.at.terms)
	return a.settle(x, &ans, err)
}

func spendOf(r *request, x *ask) ledger.Spend {
	account := x.at.account
	account.Key = x.key
	return ledger.Spend{ID: x.id, Account: account, Agent: r.hello.Incarnation,
		Region: r.hello.Region, Cost: x.want, NotAfter: x.notAfter}
}

// settle turns the ledger's answer into a decision.
func (a *attempt) settle(x *ask, got *ledger.Answer, err error) (*pb.Decision, error) {
	switch {
	case errors.Is(err, ledger.ErrWindow):
		return nil, &again{now: a.now}
	case err != nil:
		if f := a.fault(err); f != nil {
			return &pb.Decision{GrantId: x.raw, Fault: f}, nil
		}
		return nil, fmt.Errorf("decide on %s for %s: %w", x.id, x.key, err)
	}
	return a.decided(x, got), nil
}

func (a *attempt) decided(x *ask, got *ledger.Answer) *pb.Decision {
	a.counts.decided(got)
	d := a.message(&got.Grant, x.at)
	d.RetryInUs, d.Last = upToMicros(got.RetryIn), got.Last
	return d
}

// message tells a record. Those of one window share the message of it.
func (a *attempt) message(g *ledger.Grant, at *place) *pb.Decision {
	d := decisionMessage(g, a.now)
	if d.Window = at.window; g.Account.Window != at.account.Window || at.window == nil {
		d.Window = windowMessage(g.Account.Window)
	}
	return d
}
