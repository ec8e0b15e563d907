package core

import (
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// A key in use has its lease for the next window before that begins, so that the boundary is
// no stall: it asks at a moment of its own in the lead interval, at most half a ttl long, so
// that it is no stampede either, and a Sync that goes out before that moment takes the ask
// along. Of many keys it takes those whose moment is near: all of them in the first Sync would
// be the stampede again.

const (
	fewAlong  = 16 // of so few keys all asks are taken along, and the others
	nearShare = 8  // when their moment is no further than this part of the lead
)

// lead is what a key has planned for the next window.
type lead struct {
	window int64   // start of the window that the plan is for
	at     Instant // when it is asked for, unless a Sync went out before
}

// coming returns the window after the present one and when that begins. It is known once the
// ledger named it; from there on the calendar tells.
func (c *Core) coming(now Instant, k *Key) (w *pb.Window, at Instant, length time.Duration) {
	v := k.view()
	if v == nil || v.next == nil || v.windowEnd == 0 || c.ledgerErr == unknownErr {
		return nil, 0, 0
	}
	if v.windowEnd > now {
		return v.next, v.windowEnd, v.length
	}
	calendar := k.dim().Calendar
	present := calendar.WindowAt(c.LedgerTime(now))
	next := calendar.Next(present)
	w = &pb.Window{StartUs: unixMicros(next.Start), EndUs: unixMicros(next.End)}
	return w, c.instant(w.StartUs), next.Start.Sub(present.Start)
}

// considerNext plans or makes the ask for the next window. It returns when to look again.
func (c *Core) considerNext(now Instant, k *Key) Instant {
	if a := k.next; a != nil && a.sent && now-a.firstSent >= k.dim().TTL/2 {
		c.withdraw(k, &k.next)
	}
	w, begins, length := c.coming(now, k)
	if w == nil || begins <= now || !c.leases(now, k) {
		return never
	}
	if k.lead.window > w.GetStartUs() {
		return begins // the estimate of the clock went back over the boundary: that one was asked for
	}
	if k.lead.window < w.GetStartUs() {
		k.lead, k.led = lead{window: w.GetStartUs(), at: begins - c.drawLead(k, length)}, false
	}
	opens := begins - c.longestLead(k, length)
	switch {
	case k.led || k.next != nil:
		return begins
	case now < opens:
		return opens
	case !k.usedLately(now):
		return begins
	case now < k.lead.at:
		if !k.leading {
			k.leading = true
			c.leading = append(c.leading, k)
		}
		return k.lead.at
	}
	c.askNext(now, k, w)
	return begins
}

// nextIsDue reports that the ask for what was the next window is still on its way, and that this
// window has begun: its answer is what callers of now wait for.
func (c *Core) nextIsDue(now Instant, k *Key) bool {
	n := k.next
	return n != nil && c.instant(n.window.GetStartUs()) <= now && (!n.sent || now-n.firstSent < k.dim().TTL/2)
}

// leases reports that a key may have leases at all.
func (c *Core) leases(now Instant, k *Key) bool {
	v := k.view()
	return !c.inLane(now, k) && (v == nil || v.leaseCap != 0)
}

// longestLead is half a ttl, or the whole window if that is shorter, less what the estimate of
// the ledger's clock may be off: an ask that comes too soon is refused.
func (c *Core) longestLead(k *Key, length time.Duration) time.Duration {
	most := min(k.dim().TTL/2, length)
	return max(0, most-2*c.ledgerErr-most/maxDrift-time.Millisecond)
}

// drawLead picks how long before the boundary the ask is sent: evenly over the interval, but
// soon enough for its answer to be there.
func (c *Core) drawLead(k *Key, length time.Duration) time.Duration {
	most := c.longestLead(k, length)
	least := min(most, c.margin(k))
	return least + time.Duration(c.rng.Int64N(int64(most-least)+1))
}

// askNext starts the ask for the next window.
func (c *Core) askNext(now Instant, k *Key, w *pb.Window) {
	k.demand.sample(now, k.total(), k.dim().TTL)
	need := k.usual()
	k.some().next = &ask{id: c.newID(now), window: w, need: need, want: c.want(now, k, need, 0)}
	c.mark(k)
}

// takeAlong puts the asks for the next window that wait for a Sync into the one that is about
// to go out.
func (c *Core) takeAlong(now Instant) {
	leading := c.leading
	c.leading = nil
	for _, k := range leading {
		k.leading = false
		w, begins, length := c.coming(now, k)
		if !k.known() || w == nil || begins <= now {
			continue // the window that it waited to ask for has begun without it
		}
		longest := c.longestLead(k, length)
		planned := k.lead.window == w.GetStartUs() && !k.led && k.next == nil
		switch {
		case now < begins-longest || !planned || !c.leases(now, k) || !k.usedLately(now):
		case len(leading) > fewAlong && k.lead.at-now > longest/nearShare:
			k.leading = true
			c.leading = append(c.leading, k)
		default:
			c.askNext(now, k, w)
		}
	}
}

// decidedNext takes in the answer to an ask for the next window. Whatever it is, that window
// is not asked for again before it has begun; only an ask that the ledger refused as one that
// came too soon is repeated, each time when half of the way is gone.
func (c *Core) decidedNext(now Instant, k *Key, a *ask, d *pb.Decision) {
	k.led = true
	if d.GetFault() != nil {
		c.faults[d.GetFault().GetCode()]++
		if begins := c.instant(a.window.GetStartUs()); begins-now > 2*c.margin(k) && k.lead.window == a.window.GetStartUs() {
			k.led, k.lead.at = false, now+(begins-now)/2
		}
		return
	}
	if d.GetAmount() > 0 {
		c.install(now, k, a, d)
	}
}
