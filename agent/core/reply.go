package core

import (
	"math"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// decided takes in the ledger's answer to an ask. An answer to an ask that is not in flight
// is ignored (3.10).
func (c *Core) decided(now Instant, k *Key, d *pb.Decision) {
	a, id := k.ask, uuid.FromBytesOrNil(d.GetGrantId())
	if n := k.next; n != nil && n.id == id {
		k.some().next = nil
		c.decidedNext(now, k, n, d)
		return
	}
	if c.decidedAllowance(now, k, id, d) || a == nil || a.id != id {
		return
	}
	k.some().ask = nil
	if f := d.GetFault(); f != nil {
		c.refused(now, k, f)
		c.warmed(k)
		return
	}
	if d.GetAmount() > 0 {
		c.install(now, k, a, d)
		c.warmed(k)
		return
	}
	switch reason := quota.Reason(d.GetReason()); reason {
	case quota.ExactLane:
		c.toExactLane(now, k)
	case quota.Exhausted, quota.LeasedOut, quota.TooLarge:
		c.deny(now, k, a.need, reason, d)
	default: // cancelled or stale: the next ask is another one
		return
	}
	c.warmed(k)
}

// refused drops an ask that the ledger did not take, and does not repeat it at once.
func (c *Core) refused(now Instant, k *Key, f *pb.Fault) {
	c.faults[f.GetCode()]++
	k.pause(now+c.Jitter(100*time.Millisecond), false)
	switch f.GetCode() {
	case string(quota.UnknownTenant):
		k.denial.Store(&denial{cost: 1, reason: quota.UnknownTenant, until: now + c.Jitter(5*time.Second), generation: math.MaxInt64})
	case "unknown_dimension":
		waiters := k.some().waiters
		k.waiters = nil
		for _, w := range waiters {
			c.finish(now, w, Outcome{Bad: &quota.FieldError{Field: "dimension", Allowed: "one that policy defines"}})
		}
	}
}

// install puts a granted lease to use. It ends a ttl after its ask was first sent, however
// late the answer came: the ledger's clock began later, so this agent stops first. One for the
// next window begins when the answer came plus what the ledger said was left, and a little
// for a clock that runs fast: by then the ledger's clock is there too (4.2).
func (c *Core) install(now Instant, k *Key, a *ask, d *pb.Decision) {
	if k.slots != nil {
		c.installSlots(now, k, a, d)
		return
	}
	l := &Lease{
		id: a.id, window: c.shared.window(d.GetWindow()), amount: d.GetAmount(), begun: true, life: c.life, rest: &leaseRest{},
	}
	l.until.Store(int64(a.firstSent + micros(d.GetTtlUs())))
	if wait := micros(d.GetStartsInUs()); wait > 0 {
		l.rest.start, l.begun = now+wait+wait/maxDrift, false
	}
	if drip := micros(d.GetDripUs()); drip > 0 || d.GetDelayUs() > 0 {
		l.rest.from = now + micros(d.GetDelayUs())
		l.rest.full = l.rest.from + max(drip, 1)
	}
	l.cut = micros(d.GetTtlUs()) < k.dim().TTL
	l.bucket.left.Store(l.amount)
	over := d.GetState() != pb.GrantState_GRANT_STATE_LIVE || d.GetRevoked()
	if over || len(k.parked) > 0 && l.begun || l.deadline()-max(now, l.more().start) < c.rtt || c.stopping {
		c.returnWhole(now, k, l)
		return
	}
	bridge := min(k.demand.over(2*c.rtt), l.amount/2)
	low := max(int64(float64(l.amount)*float64(k.dim().lowPPM)/1e6), bridge)
	l.low.Store(min(low, l.amount-1))
	k.moveOut()
	leases := append(slices.Clone(k.held()), l)
	slices.SortStableFunc(leases, func(x, y *Lease) int { return int(min(max(x.deadline()-y.deadline(), -1), 1)) })
	k.hold(leases)
	if !l.begun {
		return
	}
	if was := k.denial.Load(); was != nil && !was.drained {
		k.denial.Store(nil) // that there is no more behind this lease may be news of today
	}
	k.soon()
	k.signs.clear(lowSent)
	if d.GetLast() {
		c.drain(now, k, d.GetWindow(), d.GetGeneration())
	}
}

// returnWhole sends back a lease that came too late to be of use.
func (c *Core) returnWhole(now Instant, k *Key, l *Lease) {
	l.seal()
	k.some().closing = append(k.closing, l)
	c.speak(now, k)
	if !l.begun {
		return
	}
	k.pause(now+c.Jitter(2*c.rtt), false)
	if l.cut && l.deadline()-now < c.rtt { // no longer life is to be had before the next window
		k.some().nextAsk = now + max(0, l.deadline()-now)
	}
}

// toExactLane serves a key's waiting callers one by one, for about a ttl: exposure, not the
// quota, forbids a lease (3.5). A key that holds units keeps spending those, also if their
// window begins here a moment later than at the ledger.
func (c *Core) toExactLane(now Instant, k *Key) {
	waits := slices.ContainsFunc(k.held(), func(l *Lease) bool { return l.more().start > now })
	if k.left(now) == 0 && !waits {
		c.enterLane(now, k)
	} else {
		k.pause(now+c.Jitter(k.dim().TTL/8), true)
	}
	c.lineToLane(now, k)
}

// newerThan reports that v, which came later, was said earlier: of an older window, or of an
// older generation of the same one.
func (old *view) newerThan(v *view) bool {
	if old == nil {
		return false
	}
	was, is := old.window.GetStartUs(), v.window.GetStartUs()
	return is < was || is == was && v.generation < old.generation
}

// learn takes in what the ledger says of a key.
func (c *Core) learn(now Instant, st *pb.KeyState) {
	k := c.Table.Find(quota.Key{Tenant: st.GetKey().GetTenant(), Dimension: st.GetKey().GetDimension()})
	if k == nil {
		return
	}
	k.refresh = false
	if f := st.GetFault(); f != nil {
		c.refused(now, k, f)
		return
	}
	v := &view{terms: c.termsOf(now, k, st), headroom: st.GetHeadroom(), leaseCap: st.GetLeaseCap(), generation: st.GetGeneration()}
	old := k.view()
	if old.newerThan(v) {
		v = old // a newer answer overtook this one
	} else {
		k.learned = now
		k.see(v)
		if k.slots == nil {
			c.hearCap(now, k, v.leaseCap)
		}
		c.renewed(k, v)
		c.sure(now, k, v)
	}
	for _, w := range k.waiters {
		if w.Cost == 0 {
			t := k.answer(now, k.left(now))
			t.Reason = quota.Reason(st.GetReason())
			t.Allowed, t.Denied = t.Reason == quota.Allowed, t.Reason != quota.Allowed
			switch wait := micros(st.GetRetryInUs()); {
			case wait > 0:
				t.RetryIn = wait
			case t.Reason == quota.Exhausted:
				t.RetryIn = t.Reset
			}
			c.finish(now, w, Outcome{Taken: t})
		}
	}
	if len(k.waiters) > 0 {
		k.waiters = slices.DeleteFunc(k.waiters, func(w *Waiter) bool { return w.over })
	}
}

// termsOf is what the ledger says of a key that it says of others, too.
func (c *Core) termsOf(now Instant, k *Key, st *pb.KeyState) *terms {
	t := terms{
		dim: k.dim(), told: true, limit: st.GetLimit(), version: st.GetPolicyVersion(),
		reason: quota.Reason(st.GetReason()), window: c.shared.window(st.GetWindow()),
	}
	if end := st.GetWindow().GetEndUs(); end > 0 {
		t.length = micros(end - st.GetWindow().GetStartUs())
		t.windowEnd = max(now+1, c.instant(end))
	}
	if next := st.GetNext(); next.GetEndUs() > 0 {
		t.next, t.nextEnd = c.shared.window(next), c.instant(next.GetEndUs())
		t.nextLength = micros(next.GetEndUs() - next.GetStartUs())
	}
	return c.shared.of(t)
}

// Notice takes in what the control plane pushed. Nothing depends on its arrival.
func (c *Core) Notice(now Instant, n *pb.Notice) {
	if n.GetKey() == nil {
		if n.GetPolicyVersion() > c.version {
			c.syncAt = min(c.syncAt, now+c.Jitter(100*time.Millisecond))
		}
		return
	}
	k := c.Table.Find(quota.Key{Tenant: n.GetKey().GetTenant(), Dimension: n.GetKey().GetDimension()})
	if k == nil {
		return
	}
	if id := uuid.FromBytesOrNil(n.GetRevokedGrant()); !id.IsNil() {
		for _, l := range k.held() {
			if l.id == id {
				c.end(now, k, l)
			}
		}
		if k.slots != nil {
			k.slots.revoke(id)
		}
	}
	// An account of another window grows for reasons that do not concern this one.
	if w := c.present(now, k, n.GetWindow()); w != nil {
		switch {
		case n.GetDrained():
			c.drain(now, k, w, n.GetGeneration())
		case n.GetWanted():
			c.share(now, k)
		default:
			h := &k.some().heard
			if h.window != w.GetStartUs() {
				*h = heard{window: w.GetStartUs()}
			}
			h.generation = max(h.generation, n.GetGeneration())
			c.grew(k, w.GetStartUs(), n.GetGeneration())
		}
	}
	c.tend(now, k)
}

// present returns the window that a notice is about if that is the one in force, else nil. One
// without a window means that.
func (c *Core) present(now Instant, k *Key, w *pb.Window) *pb.Window {
	v := k.view()
	switch {
	case v == nil && w == nil:
		return &pb.Window{}
	case v == nil:
		return w
	case w == nil || w.GetStartUs() == v.window.GetStartUs():
		return v.window
	case v.windowEnd > 0 && w.GetStartUs() > v.window.GetStartUs() && c.instant(w.GetStartUs()) <= now:
		return w // it began, and the ledger was not asked since
	}
	return nil
}

// share gives back what lies idle here while others are in need: everything beyond what will
// be used in about two round trips. For a while this key then asks for callers in wait only,
// or what it gave would be the next thing that it wants.
func (c *Core) share(now Instant, k *Key) {
	if k.slots != nil {
		c.shareSlots(now, k)
		return
	}
	k.demand.sample(now, k.total(), k.dim().TTL)
	var keep int64
	if k.usedLately(now) {
		keep = k.demand.over(2*c.rtt) + k.usual()
	}
	k.keepOnly(now, keep)
	k.some().modest = now + k.dim().TTL/8
	c.speak(now, k)
}

// Restore begins with the terms of an earlier start, until the control plane tells those of now.
// It reports whether they could be read.
func (c *Core) Restore(now Instant, wire *pb.Catalogue) bool {
	c.adopt(now, wire)
	c.told = 0
	return c.dims != nil
}

// adopt makes a newer catalogue current. Keys of dimensions that are gone give up what they
// hold.
func (c *Core) adopt(now Instant, wire *pb.Catalogue) {
	dims, err := readCatalogue(wire)
	if err != nil {
		c.faults["catalogue"]++
		return
	}
	descriptors, err := readDescriptors(wire, dims)
	if err != nil {
		c.faults["catalogue"]++
		return
	}
	c.dims, c.version, c.told = dims, wire.GetPolicyVersion(), wire.GetPolicyVersion()
	ops := readOperations(wire)
	c.operations.Store(&ops)
	c.descriptors.Store(descriptors)
	for _, k := range slices.Collect(c.each) {
		if dim := c.dimension(k.Dimension()); dim != nil && dim.Kind == k.dim().Kind {
			c.follow(k, dim)
			continue
		}
		if k.slots != nil {
			k.slots.end()
			c.tend(now, k)
		}
		for _, l := range k.held() {
			c.end(now, k, l)
		}
	}
}

// reincarnate starts anew: the ledger saw this agent's past in another process's hands. What
// this copy spent and had not reported is use without a lease (3.15); its leases are the
// original's.
func (c *Core) reincarnate(now Instant) {
	c.incarnation, c.token = c.newID(now), nil
	c.life = (c.life + 1) % movedAway
	c.cancels, c.refunds, c.refunded = nil, nil, 0 // the original's to make
	c.dropReservations(len(c.reservedOrder))       // and to settle
	unbegun := c.unbegun()
	for _, k := range slices.Collect(c.each) {
		k.some()
		k.ask, k.next = nil, nil
		for _, l := range slices.Concat(k.closing, k.held(), k.allowances()) {
			l.seal()
			if unreported := l.taken() - l.reported().use(); unreported > 0 {
				c.addUnleasedIn(now, k, windowID{l.window.GetStartUs(), l.window.GetEndUs()}, unreported)
			}
			c.drop(k, l)
		}
		k.extend = nil
		for _, u := range k.unleased {
			owed := max(0, u.taken-u.refunded-u.acked+u.ackedBack)
			*u = unleased{id: c.newID(now), window: u.window, taken: owed, step: u.step}
		}
		k.unleased = slices.DeleteFunc(k.unleased, func(u *unleased) bool { return u.taken == 0 })
		if k.slots != nil {
			c.loseSlots(now, k)
		}
		c.tend(now, k)
	}
	for _, g := range unbegun {
		c.attempt(now, g, false)
	}
	c.syncAt = now
}
