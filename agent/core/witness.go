package core

import "github.com/quotalease/quotalease/ledger/quota"

// Part is how one key of a group stands.
type Part struct {
	Key   quota.Key
	Cost  int64
	Lease ID   // it has units of it; nil: it has none
	Spend ID   // its item in the exact lane; nil: it has none there
	Free  bool // it passes without a lease

	Reason quota.Reason // of what passes so
	Slots  []SlotsOf    // of a concurrency limit
}

// SlotsOf is slots of one lease, or, where the ledger never granted that, without one.
type SlotsOf struct {
	Lease ID
	Slots int64
}

// EachPart calls what for every key of the group, in the order in which they are taken. Who
// counts use from outside knows by it whose the units are that leases lack: those of a group that
// waits are taken, and nobody was told so yet.
func (g *Group) EachPart(what func(Part)) {
	for i := range g.parts {
		p := &g.parts[i]
		x := Part{Key: p.key.ID(), Cost: p.cost, Free: p.free}
		if p.lease != nil {
			x.Lease = p.lease.id
		}
		if p.spend != nil {
			x.Spend = p.spend.id
		}
		if x.Free {
			x.Reason = p.taken.Reason
		}
		for _, h := range p.holds {
			x.Slots = append(x.Slots, SlotsOf{Lease: h.lease.id, Slots: h.slots})
		}
		what(x)
	}
}

// Source is what an outcome's units came from: a lease, an item of the exact lane, or, where both
// are nil, neither.
func (o Outcome) Source() (lease, spend ID) {
	lease = o.leaseID()
	if o.spent != nil {
		spend = o.spent.id
	}
	return lease, spend
}
