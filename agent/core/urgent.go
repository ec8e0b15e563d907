package core

import "slices"

// What an agent has to say is of two kinds. Urgent is what someone waits for: an ask, units
// that others could use, use without a lease. Everything else (a lease that was spent to the
// last unit, or one of a window that is over) frees nothing, and goes with whatever Sync is
// sent next, at the latest before the ledger would close the lease.

// speak puts a key in the line that what it has to say belongs into.
func (c *Core) speak(now Instant, k *Key) {
	if k.ask != nil && !k.ask.sent || k.next != nil && !k.next.sent || k.refresh || k.owesUnleased() {
		c.mark(k)
		return
	}
	by := never
	for _, l := range slices.Concat(k.closing, k.held()) {
		switch {
		case c.frees(now, l), l.isSealed && (c.stopping || len(k.parked) > 0):
			c.mark(k)
			return
		case l.isSealed:
			by = min(by, c.reportBy(k, l))
		}
	}
	if by < never {
		c.postpone(k, by)
	}
}

// frees reports that the next report of a lease brings back units that others could use.
func (c *Core) frees(now Instant, l *Lease) bool {
	r := l.now()
	known := l.reported()
	return r.returned+r.refunded > known.returned+known.refunded && now < c.windowEnd(l.window)
}

// reportBy is when a final report has to be sent: half the grace before the ledger closes the
// lease, or sooner if a message takes that long.
func (c *Core) reportBy(k *Key, l *Lease) Instant {
	grace := k.dim().grace
	return l.deadline() + grace - max(grace/2, 4*c.rtt)
}

// postpone puts a key in line for the next Sync that goes out, at the latest at by.
func (c *Core) postpone(k *Key, by Instant) {
	if k.dirty || !k.known() {
		return
	}
	c.lazyAt = min(c.lazyAt, by)
	if !k.deferred {
		k.deferred = true
		c.lazy = append(c.lazy, k)
	}
}

// A Sync is a transaction of the ledger, and the next one waits for its answer: what nobody waits for
// fills it up to mostNews keys, so that whoever comes meanwhile does not wait for the news of all
// keys, and has room for leastNews however many are urgent.
const (
	mostNews  = 128
	leastNews = 32
)

// gather brings what can wait into the Sync that is about to go out, as far as there is room.
func (c *Core) gather(now Instant) {
	room := max(leastNews, mostNews-len(c.dirty))
	room -= c.say(room)
	c.takeAlong(now)
	for _, k := range c.lazy {
		k.deferred = false
	}
	c.news = append(c.news, c.lazy...)
	c.lazy, c.lazyAt = nil, never
	c.say(room)
}

// say puts some of the news into the Sync that is about to go out, and returns of how many keys.
func (c *Core) say(most int) int {
	n := min(len(c.news), most)
	for _, k := range c.news[:n] {
		c.mark(k)
	}
	clear(c.news[:n]) // or the array would keep keys that are forgotten
	if c.news = c.news[n:]; len(c.news) == 0 {
		c.news = nil
	}
	return n
}

// sealSpent ends leases with nothing left, so that the report that is due anyway is their last.
func (c *Core) sealSpent(k *Key) {
	for _, l := range k.held() {
		if l.left() == 0 {
			c.retire(k, l)
		}
	}
}

// retire seals a lease and moves it to those whose last word is to be said.
func (c *Core) retire(k *Key, l *Lease) {
	l.seal()
	if l == &k.own {
		l = k.takeOut()
	} else {
		k.without(l)
	}
	if l.emergency {
		k.extend.lose(l)
	}
	k.some().closing = append(k.closing, l)
}

// end seals a lease and sees to its final report.
func (c *Core) end(now Instant, k *Key, l *Lease) {
	c.retire(k, l)
	c.speak(now, k)
}
