package controlplane

import (
	"fmt"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// renewal is a renewal of a lease of slots on its way through a transaction.
type renewal struct {
	ledger.Renewal
	at    *place // where its key stands, as the attempt knows; nil if it is at fault
	raw   []byte
	fault *pb.Fault
}

func readRenewal(x *pb.Renewal, agent ledger.ID) renewal {
	a := readAsk(x.GetGrantId(), x.GetKey())
	return renewal{raw: a.raw, fault: a.fault, Renewal: ledger.Renewal{
		ID: a.id, Account: ledger.AccountID{Key: a.key}, Agent: agent,
		Seq: x.GetSeq(), InUse: quota.Units(x.GetInUse()), Returned: quota.Units(x.GetReturned()),
	}}
}

// renew answers one renewal. The amount is what is left to the agent: of a lease that idle slots
// were recalled from, what is in use. Only an answer whose seq is the renewal's own has prolonged
// the lease; one with a higher seq tells how it stands after what came later.
func (a *attempt) renew(x *renewal) (*pb.Decision, error) {
	if x.fault != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(x.fault)}, nil
	}
	if x.at.fault != nil {
		return &pb.Decision{GrantId: x.raw, Fault: a.tell(x.at.fault)}, nil
	}
	if id, known := a.book.AccountOf(x.ID); known {
		if err := a.locked(id); err != nil {
			return nil, err
		}
	}
	got, err := a.book.Renew(x.Renewal, x.at.terms)
	if err != nil {
		if f := a.fault(err); f != nil {
			return &pb.Decision{GrantId: x.raw, Fault: f}, nil
		}
		return nil, fmt.Errorf("renew %s for %s: %w", x.ID, x.Account.Key, err)
	}
	a.counts.reports++
	d := a.message(&got.Grant, x.at)
	d.Amount = int64(got.Grant.Kept())
	return d, nil
}
