package core

import pb "github.com/quotalease/quotalease/proto/quotalease/v1"

// The parts of a core's print. Where one part points to another that has no id, the other is
// written in its place: what stands twice does no harm.

func printWindow(p Printer, w *pb.Window) { numbersOf(p, w.GetStartUs(), w.GetEndUs()) }

func (l *Lease) print(p Printer) {
	if l == nil {
		p.Number(-1)
		return
	}
	p.ID(l.id.Bytes())
	printWindow(p, l.window)
	r := l.more()
	numbersOf(p, l.amount, l.low.Load(), l.bucket.left.Load(), l.back, r.late)
	numbersOf(p, int64(l.deadline()), int64(r.from), int64(r.full))
	p.At(r.start)
	if !l.begun {
		p.Number(int64(r.start))
	}
	numbersOf(p, asNumber(l.isSealed), asNumber(l.emergency), asNumber(l.cut), asNumber(l.renewed), asNumber(l.begun))
	numbersOf(p, asNumber(l.gone), int64(l.life))
	l.said().print(p)
	l.reported().print(p)
}

func (r report) print(p Printer) {
	numbersOf(p, r.taken, r.refunded, r.returned, asNumber(r.final))
}

func (u *unleased) print(p Printer) {
	p.ID(u.id.Bytes())
	numbersOf(p, u.window.start, u.window.end, u.taken, u.acked, u.refunded, u.ackedBack, u.step)
}

func (a *ask) print(p Printer) {
	if a == nil {
		p.Number(-1)
		return
	}
	p.ID(a.id.Bytes())
	printWindow(p, a.window)
	numbersOf(p, a.want, a.need, a.waiting, int64(a.firstSent), asNumber(a.sent), asNumber(a.emergency))
}

func (d *denial) print(p Printer) {
	if d == nil {
		p.Number(-1)
		return
	}
	p.Word(string(d.reason))
	numbersOf(p, d.cost, d.window, d.generation, d.largest, asNumber(d.drained))
	p.At(d.until)
	p.At(d.retryAt)
	p.At(d.settles)
	p.At(d.edge)
}

func (v *view) print(p Printer) {
	if v == nil {
		p.Number(-1)
		return
	}
	numbersOf(p, v.limit, v.headroom, v.leaseCap, v.generation, int64(v.length))
	p.Word(string(v.reason))
	printWindow(p, v.window)
	printWindow(p, v.next)
	p.At(v.windowEnd)
	p.Number(asNumber(v.windowEnd == 0))
}

func (s *spend) print(p Printer) {
	p.ID(s.id.Bytes())
	numbersOf(p, int64(s.key.index), s.cost, asNumber(s.waiter != nil), asNumber(s.group != nil), asNumber(s.settles != nil))
	if s.waiter != nil {
		p.Caller(s.waiter)
	}
	if s.group != nil {
		s.group.print(p)
	}
	if s.settles != nil {
		s.settles.print(p)
	}
}

func (g *Group) print(p Printer) {
	p.Word(g.Tenant)
	p.Word(g.Operation)
	p.Word(g.Permit)
	numbersOf(p, g.Times, int64(g.Hold), int64(g.Wait))
	printAll(p, g.Takes, func(t DimensionCost) {
		p.Word(t.Dimension)
		p.Number(t.Cost)
	})
	printCosts(p, g.Keys)
	printCosts(p, g.merged)
	numbersOf(p, asNumber(g.exact), asNumber(g.again), asNumber(g.over), asNumber(g.leaving), asNumber(g.permit != nil))
	g.outage.print(p)
	if w := g.waiter; w != nil && w.key != nil {
		p.Number(int64(w.key.index))
	} else {
		p.Number(-1)
	}
	for i := range g.parts {
		g.parts[i].print(p)
	}
}

func printCosts(p Printer, list []KeyCost) {
	printAll(p, list, func(t KeyCost) {
		p.Word(t.Key.Tenant)
		p.Word(t.Key.Dimension)
		p.Number(t.Cost)
	})
}

func (o *outage) print(p Printer) {
	if o == nil {
		p.Number(-1)
		return
	}
	numbersOf(p, asNumber(o.open), asNumber(o.extend), int64(o.after), int64(o.span), o.budget, asBits(o.rate))
}

func (x *part) print(p Printer) {
	numbersOf(p, int64(x.key.index), x.cost, asNumber(x.lane), asNumber(x.free))
	p.Word(string(x.taken.Reason))
	numbersOf(p, asNumber(x.taken.Low), x.taken.Limit, x.taken.Remaining)
	x.lease.print(p)
	if x.spend != nil {
		p.ID(x.spend.id.Bytes())
	} else {
		p.Number(-1)
	}
	p.ID(x.spent.Bytes())
	printHolds(p, x.holds)
}

func printHolds(p Printer, list []hold) {
	printAll(p, list, func(h hold) {
		p.ID(h.lease.id.Bytes())
		numbersOf(p, int64(h.key.index), h.slots)
	})
}

func (r *reservation) print(p Printer) {
	p.ID(r.id.Bytes())
	numbersOf(p, int64(r.key.index), r.estimate, asNumber(r.maximum), r.window.start, r.window.end, asNumber(r.settled), r.actual)
	p.At(r.at + ReservedFor)
	r.lease.print(p)
	if r.spend == nil {
		p.Number(-1)
		return
	}
	p.ID(r.spend.id.Bytes())
	printWindow(p, r.spend.window)
}

func (x *permit) print(p Printer) {
	p.Word(x.id.tenant)
	p.Word(x.id.id)
	printCosts(p, x.takes)
	printHolds(p, x.holds)
	p.Number(int64(x.hold))
	p.At(x.until)
	p.At(x.ended + endedFor)
}

func (e *extension) print(p Printer) {
	if e == nil {
		p.Number(-1)
		return
	}
	printAll(p, e.leases, func(l *Lease) { l.print(p) })
	printAll(p, e.asks, func(a *ask) { a.print(p) })
	printAll(p, e.asked, p.Number)
	p.At(e.nextAt)
	p.At(e.paced)
}

func (s *slotSet) print(p Printer) {
	if s == nil {
		p.Number(-1)
		return
	}
	printAll(p, s.all(), func(l *slotLease) { l.print(p) })
	numbersOf(p, asNumber(s.unleased != nil), s.spare, int64(s.since), asNumber(s.serving))
}

func (l *slotLease) print(p Printer) {
	p.ID(l.id.Bytes())
	numbersOf(p, l.amount, l.back, l.inUse, l.seq, l.step, l.known.inUse, l.known.back, asNumber(l.retired), asNumber(l.closed))
	numbersOf(p, int64(l.deadline)) // a renewal prolongs it, if it does
	p.At(l.renewAt)
}

// print writes what the reply to a Sync in flight will be held against. The request itself is
// in the network's hands.
func (s *syncInFlight) print(p Printer) {
	if s == nil {
		p.Number(-1)
		return
	}
	numbersOf(p, int64(s.sent), int64(len(s.request.GetCancels())))
	printAll(p, s.reports, func(r sentReport) { r.print(p) })
	printAll(p, s.renewals, func(x sentSlots) { x.print(p) })
	for _, list := range [][]*Key{s.asks, s.keys} {
		printAll(p, list, func(k *Key) { p.Number(int64(k.index)) })
	}
}

func (r sentReport) print(p Printer) {
	p.Number(int64(r.key.index))
	switch {
	case r.slots != nil:
		r.slots.print(p)
		return
	case r.unleased != nil:
		p.ID(r.unleased.id.Bytes())
	}
	p.ID(r.lease.Bytes())
	r.report.print(p)
}

func (x sentSlots) print(p Printer) {
	p.ID(x.lease.id.Bytes())
	numbersOf(p, int64(x.key.index), x.said.inUse, x.said.back, x.seq, int64(x.sent), asNumber(x.final))
}
