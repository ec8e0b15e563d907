package core

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Low tells the core that a taker passed the watermark of a key's newest lease.
func (c *Core) Low(now Instant, k *Key) {
	k.lastUse = now
	c.tend(now, k)
}

// Tick lets time pass: leases end, renewals fall due, what is idle or too old is forgotten.
func (c *Core) Tick(now Instant) {
	c.forgetReservations(now)
	c.forgetPermits(now)
	for {
		k, ok := c.due(now)
		if !ok {
			return
		}
		c.tend(now, k)
	}
}

// NextTick is when Tick has something to do.
func (c *Core) NextTick() (Instant, bool) {
	at, ok := c.nextWake()
	if lapse := c.nextLapse(); lapse < never && (!ok || lapse < at) {
		return lapse, true
	}
	return at, ok
}

// tend brings one key up to date: it is called after every event that concerns the key.
func (c *Core) tend(now Instant, k *Key) {
	if !k.known() {
		return
	}
	if k.slots != nil {
		c.tendSlots(now, k)
		return
	}
	k.noteUse(now)
	for _, l := range k.held() {
		switch {
		case now >= l.deadline() || c.stopping:
			c.end(now, k, l)
		case now >= l.more().start && !l.begun:
			l.begun = true
			k.soon()
			k.signs.clear(lowSent)
		}
	}
	c.serve(now, k)
	allow := c.considerAllowance(now, k)
	if c.stopping {
		c.withdraw(k, &k.ask)
		c.withdraw(k, &k.next)
		return
	}
	c.renew(now, k)
	c.considerAsk(now, k)
	again := min(allow, c.considerNext(now, k))
	if c.forgettable(now, k) {
		c.forget(k)
		return
	}
	c.schedule(now, k, again)
	k.moveIn(now)
	k.settleDown()
}

// serve lets waiting callers try again, first come first served; a smaller cost behind one
// that does not fit may still pass.
func (c *Core) serve(now Instant, k *Key) {
	var still []*Waiter
	var groups []*Group // that may go on to their other keys
	for _, w := range k.waiters {
		if w.over {
			continue
		}
		if w.group != nil {
			if k.could(now, w.Cost) {
				w.over, w.group.waiter = true, nil
				groups = append(groups, w.group)
			} else {
				still = append(still, w)
			}
			continue
		}
		if t := k.Take(now, w.Cost); t.Allowed || t.Denied {
			c.finish(now, w, Outcome{Taken: t})
			continue
		}
		still = append(still, w)
	}
	if len(k.waiters) > 0 {
		k.waiters = still
	}
	if len(still) == 0 {
		k.signs.clear(queued)
	}
	for _, g := range groups {
		c.attempt(now, g, false)
	}
}

// usedLately reports that the key is in use, so that running out would be felt.
func (k *Key) usedLately(now Instant) bool {
	return len(k.waiters) > 0 || now-k.lastUse < k.dim().TTL
}

// noteUse keeps lastUse current from the counters, since takers leave no other trace.
func (k *Key) noteUse(now Instant) {
	total := k.total()
	if k.signs.has(refused) || total != k.lastTotal {
		k.lastTotal, k.lastUse = total, now
		k.signs.clear(refused)
	}
}

// margin is how long before its deadline a lease in use is replaced: time for two round trips,
// at most a quarter of its life.
func (c *Core) margin(k *Key) time.Duration {
	return min(max(2*c.rtt, 20*time.Millisecond), k.dim().TTL/4)
}

// renew hands back most of a lease that nears its end, so that the ask for its successor is
// not refused for what this one still holds; what is kept bridges the round trip.
func (c *Core) renew(now Instant, k *Key) {
	newest := k.newest(now)
	if newest == nil || newest.renewed || newest.cut || k.ask != nil || now < newest.deadline()-c.margin(k) || c.inLane(now, k) {
		return
	}
	if !k.usedLately(now) || k.denial.Load().covers(now, 1) {
		return
	}
	newest.renewed = true
	k.demand.sample(now, k.total(), k.dim().TTL)
	keep := k.demand.over(2*c.rtt) + 1
	k.keepOnly(now, keep)
}

// keepOnly gives back what is in hand of this window beyond keep, the leases that end last
// first.
func (k *Key) keepOnly(now Instant, keep int64) {
	for _, l := range k.held() {
		if l.live(now) {
			l.giveBack(keep)
			keep = max(0, keep-l.left())
		}
	}
}

// fetch asks for what a group will need of a key once it need not wait for another.
func (c *Core) fetch(now Instant, p *part) {
	k, cost := p.key, p.cost
	switch {
	case k.ask != nil || len(k.parked) > 0 || now < k.nextAsk || c.stopping:
	case k.denies(now, cost) != nil || k.could(now, cost) || c.comes(now, k, cost) || c.exactLane(now, k, cost):
	default:
		k.needHint, k.lastUse = cost, now
		k.demand.sample(now, k.total(), k.dim().TTL)
		k.some().ask = &ask{id: c.newID(now), need: cost, want: c.want(now, k, cost, k.left(now))}
		c.mark(k)
	}
}

// considerAsk starts an ask if the key needs units and none is on its way.
func (c *Core) considerAsk(now Instant, k *Key) {
	if c.nextIsDue(now, k) {
		c.withdraw(k, &k.ask)
		return
	}
	if k.ask != nil {
		if now-k.ask.firstSent < k.dim().TTL/2 || !k.ask.sent {
			return
		}
		c.withdraw(k, &k.ask) // too old to bring a lease worth having: replaced in the same Sync
	}
	if len(k.parked) > 0 {
		return // a lease now would be in their way
	}
	need, wanted := c.need(now, k)
	if !wanted {
		if !k.denial.Load().covers(now, 1) && k.ask == nil {
			k.signs.clear(lowSent)
		}
		return
	}
	denied := k.denial.Load().covers(now, need)
	if k.awaited() {
		denied = k.denies(now, need) != nil
	}
	if denied || now < k.nextAsk && !k.ranOut(now) {
		return
	}
	if c.inLane(now, k) {
		c.lineToLane(now, k)
		return
	}
	k.demand.sample(now, k.total(), k.dim().TTL)
	want := c.want(now, k, need, k.left(now))
	if !k.awaited() && (now < k.modest || k.scarce(now, want)) {
		return
	}
	k.some().ask = &ask{id: c.newID(now), need: need, want: want}
	c.mark(k)
}

// awaited reports that a caller waits for units.
func (k *Key) awaited() bool {
	return slices.ContainsFunc(k.waiters, func(w *Waiter) bool { return w.Cost > 0 })
}

// need is the smallest lease that would help, and whether one is needed at all.
func (c *Core) need(now Instant, k *Key) (int64, bool) {
	var smallest int64
	for _, w := range k.waiters {
		if w.Cost > 0 && (smallest == 0 || w.Cost < smallest) && !c.comes(now, k, w.Cost) {
			smallest = w.Cost
		}
	}
	if smallest > 0 {
		return smallest, true
	}
	newest := k.newest(now)
	if newest == nil || !k.usedLately(now) {
		return 0, false
	}
	return k.usual(), newest.renewed || k.left(now) <= newest.low.Load()
}

// comes reports that a lease in hand is about to cover cost: it drips, or its window is about
// to begin.
func (c *Core) comes(now Instant, k *Key, cost int64) bool {
	for _, l := range k.held() {
		drips, begins := l.live(now) && l.more().full > now, l.more().start > now && l.more().start-now <= c.rtt
		if (drips || begins) && l.left() >= cost {
			return true
		}
	}
	return false
}

// ranOut reports that a pause which exposure forced is over: what it was too much beside is used up,
// and callers wait.
func (k *Key) ranOut(now Instant) bool { return k.full && k.awaited() && k.left(now) == 0 }

// withdraw takes back an ask, if there is one.
func (c *Core) withdraw(k *Key, which **ask) {
	a := *which
	if a == nil {
		return
	}
	if a.sent {
		c.cancels = append(c.cancels, &pb.Cancel{GrantId: a.id.Bytes(), Key: wireKey(k.ID())})
	}
	*which = nil
}

// forgettable reports that a key holds nothing, owes nothing and was not used for a ttl. With
// it goes a denial that it remembers: should the key come back, it starts from the ledger.
func (c *Core) forgettable(now Instant, k *Key) bool {
	return k.idle() && !k.refresh && now-k.lastUse >= k.dim().TTL
}

// schedule sets when the key must be looked at again.
func (c *Core) schedule(now Instant, k *Key, again Instant) {
	at := now + k.dim().TTL
	sooner := func(t Instant) {
		if t > now && t < at {
			at = t
		}
	}
	sooner(again)
	for _, l := range k.held() {
		sooner(l.more().start)
		sooner(l.deadline())
		for _, w := range k.waiters {
			if at, ok := l.releases(w.Cost); ok {
				sooner(at)
			}
		}
		if !l.renewed {
			sooner(l.deadline() - c.margin(k))
		}
	}
	for _, a := range []*ask{k.ask, k.next} {
		if a != nil && a.sent {
			sooner(a.firstSent + k.dim().TTL/2)
		}
	}
	if d := k.denial.Load(); d != nil {
		sooner(d.until)
		sooner(d.settles)
	}
	sooner(k.nextAsk)
	sooner(k.lastUse + k.dim().TTL)
	c.wakeAt(k, at)
}

// Stop begins the graceful stop: nothing is taken any more, every lease is sealed, and the
// Syncs that follow report and return everything. Callers in wait are told at once.
func (c *Core) Stop(now Instant) {
	c.stopping = true
	c.retryAt = min(c.retryAt, now)
	for _, w := range c.early {
		c.finish(now, w, Outcome{Unavailable: true})
	}
	c.early = nil
	for _, g := range slices.Clone(c.earlyGroups) {
		c.finishAll(now, g, Outcome{Unavailable: true})
	}
	for _, s := range append(slices.Clone(c.spends), c.spending...) {
		switch {
		case s.waiter != nil:
			c.finish(now, s.waiter, Outcome{Unavailable: true})
			c.abandon(s)
		case s.group != nil:
			c.finishAll(now, s.group, Outcome{Unavailable: true})
		}
	}
	for _, k := range slices.Collect(c.each) {
		for _, w := range slices.Concat(k.waiters, k.parked) {
			c.finish(now, w, Outcome{Unavailable: true})
		}
		r := k.some()
		r.waiters, r.parked = nil, nil
		c.tend(now, k)
	}
}

// Owes reports that something is still unreported or unreturned.
func (c *Core) Owes() bool {
	if len(c.cancels) > 0 || len(c.refunds) > 0 || len(c.spends) > 0 || c.spendOut {
		return true
	}
	for k := range c.each {
		if len(k.closing) > 0 || k.owesUnleased() || len(k.held()) > 0 || !k.extend.empty() || k.slots != nil && !k.slots.empty() {
			return true
		}
	}
	return false
}

// addUnleased counts use without a lease, in the window that the ledger's time is in.
func (c *Core) addUnleased(now Instant, k *Key, cost int64) {
	c.unleased[quota.BaseDimension(k.Dimension())] += cost
	c.addUnleasedIn(now, k, c.window(now, k), cost)
}

// window is the key's window at the ledger's time.
func (c *Core) window(now Instant, k *Key) windowID {
	w := k.dim().Calendar.WindowAt(c.LedgerTime(now))
	return windowID{start: unixMicros(w.Start), end: unixMicros(w.End)}
}

// unixMicros writes an instant as the wire does: 0 for none.
func unixMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (c *Core) addUnleasedIn(now Instant, k *Key, window windowID, cost int64) {
	c.mark(k)
	for _, u := range k.unleased {
		if u.window == window {
			u.taken += cost
			return
		}
	}
	k.some().unleased = append(k.unleased, &unleased{id: c.newID(now), window: window, taken: cost})
}
