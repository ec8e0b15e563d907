package core

// putBack gives a lease what was taken from it a moment ago.
func (c *Core) putBack(now Instant, k *Key, l *Lease, units int64) {
	if !l.bucket.put(units) {
		c.refundLate(now, k, l, units)
	}
}

// refund gives units back that were taken for longer than a moment. They can be taken anew
// from a lease that lives, unless this agent would then hold more than it may: the rest goes
// back to the ledger, as it does on a lease that has ended (3.11).
func (c *Core) refund(now Instant, k *Key, l *Lease, units int64) {
	if !l.isSealed && now >= l.deadline() {
		c.end(now, k, l)
	}
	if l.isSealed {
		c.refundLate(now, k, l, units)
		return
	}
	room := units
	if v := k.view(); v != nil && v.leaseCap >= 0 && !l.emergency {
		room = max(0, min(units, v.leaseCap-k.left(now)))
	}
	l.back += units - room
	if room > 0 {
		l.bucket.put(room)
	}
	c.speak(now, k)
	c.tend(now, k)
}

// refundLate reports units as refunded on a lease that was sealed. What a copy puts back stays
// charged: nobody but the original may say anything of the lease.
func (c *Core) refundLate(now Instant, k *Key, l *Lease, units int64) {
	if l.life != c.life {
		return
	}
	if !k.known() { // the taker was held up for so long that its key was forgotten
		if k = c.admit(now, k.ID(), k.dim()); k == nil {
			return // too many: it stays charged
		}
		defer c.tend(now, k)
	}
	if l.gone { // its last word has one more word after it
		l.gone = false
		k.past -= l.leased()
		k.some().closing = append(k.closing, l)
	}
	l.rest.late += units
	c.speak(now, k)
}
