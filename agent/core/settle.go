package core

import (
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Twice in a window "nothing is left" is about to be overtaken by news that is on its way: right
// after the account was emptied, when its holders were asked for what lies idle with them, and
// where the window ends, which the ledger knows better than this agent. Who is patient waits for
// that news rather than be denied by what was true a moment ago.

// settleTrips is how many round trips that takes: the holders hear that others are in want, the
// ledger what they give back, and this agent that there is something. Each is half a round trip
// after the denial; messages are not all equally fast, hence one half more.
const settleTrips = 2

// settling is until when a denial that was just decided may be overtaken by units that come back.
// An account settles once: asks that are in vain later on say nothing new, only growth does.
func (c *Core) settling(now Instant, k *Key, window int64, reason quota.Reason) Instant {
	if reason != quota.LeasedOut || k.slots != nil {
		return 0
	}
	if was := k.denial.Load(); was != nil && was.window == window && was.reason == reason {
		return was.settles
	}
	return now + settleTrips*c.rtt
}

// edge is from when on a window may have ended, as far as this agent can tell; 0: it does not end,
// or nothing is known of the ledger's clock.
func (c *Core) edge(w *pb.Window) Instant {
	end := c.windowEnd(w)
	if end == never || c.ledgerErr == unknownErr {
		return 0
	}
	return max(1, end-c.clockErr(end))
}

// clockErr is how far off the estimate of the ledger's clock may be at a moment.
func (c *Core) clockErr(at Instant) Instant {
	return c.ledgerErr + max(0, at-c.ledgerOn)/maxDrift
}

// holdsOn is until when a patient caller waits although d denies cost; 0: it does not.
func (k *Key) holdsOn(now Instant, cost int64, d *denial) Instant {
	if now < d.settles {
		return d.settles
	}
	if d.edge == 0 || now < d.edge {
		return 0
	}
	for _, l := range k.others() { // the next window's, which may have begun
		if l.more().start > now && now < l.deadline() && l.left() >= cost {
			return l.more().start
		}
	}
	return 0
}

// answers is the denial that answers a patient caller, if one does.
func (k *Key) answers(now Instant, cost int64) *denial {
	d := k.denies(now, cost)
	if d != nil && k.holdsOn(now, cost, d) > now {
		return nil
	}
	return d
}

// holdOn puts a caller in line whom a denial would answer, were it not about to be overtaken. There
// is nothing to ask for, and the key is looked at again when that moment has passed.
func (c *Core) holdOn(now Instant, k *Key, w *Waiter, d *denial) {
	k.line(w)
	c.wakeBy(k, k.holdsOn(now, w.Cost, d))
}

// takeNow is Take for who has no patience left.
func (k *Key) takeNow(now Instant, cost int64) Taken {
	t := k.Take(now, cost)
	if d := k.denies(now, max(cost, 1)); d != nil && !t.Allowed && !t.Denied && k.slots == nil {
		return k.denied(now, cost, d)
	}
	return t
}
