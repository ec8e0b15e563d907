package core

// front is what takers read of a key that is not in the most usual state: one lease, which lies in the
// key itself and has no front. It is replaced as a whole.
//
// # A lease in the key
//
// A key's own lease is a place that one lease after the other is moved into and out of, while takers
// who know nothing of that read it. What they may see is safe at every interleaving:
//
//   - A lease is moved in when it has begun, lives, and is the only one: its deadline and watermark are
//     written while the bucket is sealed, and then what is left. A taker reads the clock, the deadline,
//     and the bucket, in this order. If the deadline that it read was the one before, this lease came
//     after its reading of the clock, and lived then: it lives at the moment that the taker goes by. If
//     its swap of the bucket hits the same number that an earlier lease had left, the units are this
//     lease's, which has begun and lives.
//   - The units of a take are counted on whatever lease the bucket is of: by the bucket itself. Who
//     must know which lease that was (to put units back, to settle them later) takes of no own lease:
//     a key is marked for that once (see keep), and has leases of their own places from then on.
//   - A lease that is moved out or in is sealed in the place that it leaves, once, by a swap that says
//     what was left: no unit is lost, none is there twice. A taker between the two finds nothing, and
//     asks the core, whose turn is over by then.
type front struct {
	leases []*Lease // soonest deadline first
	own    bool     // they are the key's own, if it has one
	tenant string   // a name that is too long for the key
}

// others are the leases that are not the key's own. Any goroutine may ask.
func (k *Key) others() []*Lease {
	if f := k.front.Load(); f != nil {
		return f.leases
	}
	return nil
}

// held are the leases in hand, soonest deadline first.
func (k *Key) held() []*Lease {
	if f := k.front.Load(); f != nil && !f.own {
		return f.leases
	}
	if k.own.amount == 0 {
		return nil
	}
	return []*Lease{&k.own}
}

// hold replaces the leases in hand. They are not the key's own.
func (k *Key) hold(leases []*Lease) {
	f := &front{leases: leases, own: len(leases) == 0}
	switch old := k.front.Load(); {
	case k.name.n == longName:
		f.tenant = old.tenant
	case len(leases) == 0:
		f = nil
	}
	k.front.Store(f)
}

// without takes a lease out of those in hand.
func (k *Key) without(l *Lease) {
	if l == &k.own {
		k.takeOut()
		return
	}
	for i, o := range k.others() {
		if o == l {
			k.hold(append(append([]*Lease(nil), k.others()[:i]...), k.others()[i+1:]...))
			return
		}
	}
}

// moveIn makes the only lease in hand the key's own, if it is plain and nobody remembers it.
func (k *Key) moveIn(now Instant) {
	others := k.others()
	if len(others) != 1 || k.signs.has(kept) {
		return
	}
	l := others[0]
	if l.isSealed || !l.begun || !l.live(now) || l.rest.full != 0 {
		return
	}
	left, _ := l.bucket.seal()
	k.own.become(l)
	k.own.settleDown()
	l.life = movedAway
	k.signs.next()
	k.own.bucket.left.Store(left)
	k.hold(nil)
}

// moveOut gives the key's own lease, if it has one, a place of its own.
func (k *Key) moveOut() {
	if k.own.amount == 0 {
		return
	}
	l := k.takeOut()
	k.hold([]*Lease{l})
}

// takeOut gives the key's own lease a place, in nobody's reach. Its id stays behind until the next one
// is moved in: a caller may ask for it.
func (k *Key) takeOut() *Lease {
	l := &Lease{}
	left, _ := k.own.bucket.seal()
	l.become(&k.own)
	l.own()
	l.bucket.left.Store(left)
	k.own.amount, k.own.window, k.own.rest = 0, nil, nil
	return l
}

// become copies all of a lease but its bucket.
func (l *Lease) become(o *Lease) {
	l.until.Store(o.until.Load())
	l.low.Store(o.low.Load())
	l.amount, l.id, l.window, l.back, l.acked, l.rest, l.life = o.amount, o.id, o.window, o.back, o.acked, o.rest, o.life
	l.isSealed, l.emergency, l.cut, l.renewed, l.begun, l.gone = o.isSealed, o.emergency, o.cut, o.renewed, o.begun, o.gone
}

// movedAway is the life of what is no lease any more.
const movedAway = 1<<16 - 1

// keep sees to it that the key's leases keep their places from now on, for somebody who remembers
// which one units came from. It returns the key.
func (k *Key) keep() *Key {
	if k.signs.set(kept) {
		k.moveOut()
	}
	return k
}

// remembered is the lease that units of a take came from, wherever it is now; nil if that cannot be
// told any more.
func (k *Key) remembered(t *Taken) *Lease {
	id := t.leaseID()
	k.keep()
	if l := t.lease; l != nil && l.life != movedAway {
		return l
	}
	if id.IsNil() {
		return nil
	}
	return k.leaseOf(id)
}

// leaseID is the id of the lease that units of a take came from just now, or nil.
func (t *Taken) leaseID() ID {
	switch {
	case t.lease != nil:
		return t.lease.id
	case t.ownOf != nil && t.serial == t.ownOf.signs.serial():
		return t.ownOf.own.id
	}
	return ID{}
}

// leaseOf finds a lease by its id, wherever it is; nil if it is over.
func (k *Key) leaseOf(id ID) *Lease {
	for _, leases := range [...][]*Lease{k.held(), k.closing, k.allowances()} {
		for _, l := range leases {
			if l.id == id {
				return l
			}
		}
	}
	return nil
}
