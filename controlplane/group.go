package controlplane

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// spendAll decides on the items of a request in order, those of one group together, where its
// first item stands.
func (a *attempt) spendAll(r *request) ([]*pb.Decision, error) {
	decisions := make([]*pb.Decision, len(r.spends))
	for i := range r.spends {
		x := &r.spends[i]
		if decisions[i] != nil {
			continue
		}
		if x.group == 0 {
			d, err := a.spend(r, x)
			if err != nil {
				return nil, err
			}
			decisions[i] = d
			continue
		}
		var places []int
		for j := i; j < len(r.spends); j++ {
			if r.spends[j].group == x.group {
				places = append(places, j)
			}
		}
		if err := a.spendGroup(r, places, decisions); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// spendGroup spends the items at some places all or none. One that cannot be decided on names
// its fault, and no record is made of any.
func (a *attempt) spendGroup(r *request, places []int, decisions []*pb.Decision) error {
	items := make([]ledger.Spend, len(places))
	terms := make([]ledger.Terms, len(places))
	for i, p := range places {
		x := &r.spends[p]
		if refused := a.admit(x); refused != nil {
			a.dropGroup(r, places, decisions, p, refused)
			return nil
		}
		items[i], terms[i] = spendOf(r, x), x.at.terms
	}
	answers, err := a.book.SpendAll(items, terms)
	if errors.Is(err, ledger.ErrWindow) {
		return &again{now: a.now}
	}
	if err != nil {
		f := faultOf(err)
		var refused *ledger.ProtocolError
		if f == nil || !errors.As(err, &refused) {
			return fmt.Errorf("decide on a group of %d: %w", len(items), err)
		}
		for i, p := range places {
			if items[i].ID == refused.Grant {
				a.dropGroup(r, places, decisions, p, f)
				return nil
			}
		}
		return fmt.Errorf("decide on a group of %d: %w", len(items), err)
	}
	for i, p := range places {
		decisions[p] = a.decided(&r.spends[p], &answers[i])
	}
	return nil
}

// dropGroup answers a group of which the item at one place is at fault.
func (a *attempt) dropGroup(r *request, places []int, decisions []*pb.Decision, at int, f *pb.Fault) {
	for _, p := range places {
		decisions[p] = &pb.Decision{GrantId: r.spends[p].raw, Reason: string(quota.Cancelled)}
	}
	decisions[at] = &pb.Decision{GrantId: r.spends[at].raw, Fault: a.tell(f)}
}
