package core

import (
	"strconv"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Of a cost that is not known beforehand an estimate is taken, and settled later. What was
// less goes back the way it came; what was more is use without a lease. A reservation that
// nobody settles counts as taken in full: it is forgotten when it is too old, or when there are
// too many behind it.
const (
	maxReservations = 100_000
	ReservedFor     = time.Hour
)

// reservation is an estimate that was taken.
type reservation struct {
	id       ID
	key      *Key
	estimate int64
	maximum  bool // the estimate is one: no more was used
	at       Instant
	window   windowID
	lease    *Lease // which the units came from; nil: spend, or without a lease
	spend    *spent

	settled bool
	actual  int64
}

// UnknownIDError refuses an id that this agent never gave, or has forgotten.
type UnknownIDError struct{ quota.FieldError }

// Unwrap says that it is a field which was refused.
func (e *UnknownIDError) Unwrap() error { return &e.FieldError }

// MayExceed reports that a dimension's reservations need not state a maximum.
func (d *Dimension) MayExceed() bool {
	return d.Class != quota.Hard && d.Class != quota.Exact
}

// Reserve makes a reservation of what a caller was just allowed. It is false if there is no
// place to remember it: then it counts as taken.
func (c *Core) Reserve(now Instant, key quota.Key, estimate int64, maximum bool, o Outcome) (ID, bool) {
	k := c.Table.Find(key)
	if dim := c.dimension(key.Dimension); k == nil && dim != nil {
		k = c.admit(now, key, dim)
	}
	if k == nil {
		return ID{}, false
	}
	// The class at the reservation counts, as it does for a lease: who was promised that more
	// may be used must be able to say what was.
	maximum = maximum || !k.MayExceed()
	r := &reservation{id: c.newID(now), key: k, estimate: estimate, maximum: maximum, at: now,
		window: c.window(now, k), lease: k.remembered(&o.Taken), spend: o.spent}
	switch {
	case r.lease != nil:
		r.window = windowOfWire(r.lease.window)
	case r.spend != nil:
		r.window = windowOfWire(r.spend.window)
	case o.lease != nil || o.ownOf != nil:
		return ID{}, false // its lease is over, before the caller could say so
	}
	k.some().busy++
	c.forgetReservations(now)
	c.reserved[r.id] = r
	c.reservedOrder = append(c.reservedOrder, r)
	return r.id, true
}

// ReservedBy is the tenant of a reservation that can be settled; empty if there is none.
func (c *Core) ReservedBy(now Instant, id ID) string {
	c.forgetReservations(now)
	if r, ok := c.reserved[id]; ok {
		return r.key.ID().Tenant
	}
	return ""
}

// forgetReservations lets go of those that are too old or too many.
func (c *Core) forgetReservations(now Instant) {
	n := max(0, len(c.reservedOrder)-maxReservations+1)
	for n < len(c.reservedOrder) && now-c.reservedOrder[n].at >= ReservedFor {
		n++
	}
	c.dropReservations(n)
}

func (c *Core) dropReservations(n int) {
	for _, r := range c.reservedOrder[:n] {
		delete(c.reserved, r.id)
		if !r.settled {
			r.key.busy--
		}
	}
	clear(c.reservedOrder[:n])
	c.reservedOrder = c.reservedOrder[n:] // append moves it to a place of its own size
}

// Settle says what was really used of a reservation, in its window. A repeat changes nothing.
func (c *Core) Settle(now Instant, id ID, actual int64) error {
	c.forgetReservations(now)
	r, ok := c.reserved[id]
	switch {
	case !ok:
		return &UnknownIDError{quota.FieldError{Field: "id", Allowed: "that of a reservation which this agent made, at most " + ReservedFor.String() + " ago"}}
	case actual < 0 || actual > maxCost:
		return &quota.FieldError{Field: "actual", Allowed: "a whole number from 0 to " + strconv.Itoa(maxCost)}
	case r.settled && r.actual != actual:
		return &quota.FieldError{Field: "actual", Allowed: "what the reservation was settled with, " + strconv.FormatInt(r.actual, 10)}
	case r.settled:
		return nil
	case actual > r.estimate && r.maximum:
		return &quota.FieldError{Field: "actual", Allowed: "at most what was reserved as a maximum, " + strconv.FormatInt(r.estimate, 10)}
	}
	r.settled, r.actual = true, actual
	k, rest := r.key, r.estimate-actual
	k.lastUse = now
	switch {
	case rest < 0:
		c.unleased[quota.BaseDimension(k.Dimension())] -= rest
		c.addUnleasedIn(now, k, r.window, -rest)
	case rest == 0:
	case r.lease != nil:
		c.refund(now, k, r.lease, rest)
	case r.spend != nil:
		c.settleSpend(now, r)
	default:
		c.refundUnleased(k, r.window, rest)
	}
	k.busy--
	c.tend(now, k)
	return nil
}

// settleSpend settles what passed the exact lane. The ledger takes a spend back whole, never a
// part of it, so the actual is spent anew and then the estimate is taken back: at no moment is
// less charged than was used. If the actual finds no room beside the estimate, or its window is
// over, the estimate stays charged.
func (c *Core) settleSpend(now Instant, r *reservation) {
	if r.actual == 0 {
		c.takeBack(r.spend.id, r.key)
		return
	}
	r.key.some().spends++
	c.spends = append(c.spends, &spend{id: c.newID(now), key: r.key, cost: r.actual, settles: r})
}

// settledSpend takes in what the ledger said of the actual.
func (c *Core) settledSpend(s *spend, d *pb.Decision) {
	r := s.settles
	s.settles = nil
	s.key.spends--
	switch {
	case d.GetAmount() == 0:
	case windowOfWire(d.GetWindow()) == r.window:
		c.takeBack(r.spend.id, s.key)
	default:
		c.takeBack(s.id, s.key)
	}
}

// takeBack asks for a spend to be refunded.
func (c *Core) takeBack(id ID, k *Key) {
	c.refunds = append(c.refunds, &pb.Cancel{GrantId: id.Bytes(), Key: wireKey(k.ID())})
}

// refundUnleased takes back use without a lease.
func (c *Core) refundUnleased(k *Key, window windowID, units int64) {
	for _, u := range k.unleased {
		if u.window == window {
			u.refunded = min(u.refunded+units, u.taken)
			c.mark(k)
			return
		}
	}
}

func windowOfWire(w *pb.Window) windowID { return windowID{start: w.GetStartUs(), end: w.GetEndUs()} }
