package core

import (
	"math"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Printer takes down a core's state, one word after the other. Two cores that wrote the same
// words behave alike from then on.
type Printer interface {
	Number(int64)
	Word(string)
	// At is a moment that is only ever compared with the present: the past is one moment.
	At(Instant)
	// ID is compared, and its order counts; Token is only compared.
	ID([]byte)
	Token([]byte)
	// Caller is one in wait: who that is the core does not know.
	Caller(*Waiter)
	// Cancel is an ask or a spend that the core takes back.
	Cancel(*pb.Cancel)
}

// Print writes all that the core's behaviour depends on, for who explores its states. What it
// leaves out does not matter: TestPrintLeavesNothingOut says why of each field.
func (c *Core) Print(p Printer) {
	p.ID(c.incarnation.Bytes())
	p.Token(c.token)
	numbersOf(p, c.version, int64(len(c.keys)), asNumber(c.stopping), asNumber(c.spendOut), asNumber(c.contacted))
	numbersOf(p, int64(c.failures), int64(c.lostAt), int64(c.contact), int64(c.rtt))
	numbersOf(p, c.ledgerAt.UnixMicro()-c.ledgerOn.Microseconds(), int64(c.ledgerOn), int64(c.ledgerErr))
	p.At(c.syncAt)
	p.At(c.retryAt)
	for _, k := range c.keys {
		c.printKey(p, k)
	}
	p.Number(int64(len(c.dirty)))
	for _, k := range c.dirty {
		p.Number(int64(k.index))
	}
	printAll(p, c.cancels, p.Cancel)
	printAll(p, c.refunds, p.Cancel)
	printAll(p, c.early, p.Caller)
	p.Number(int64(c.refunded))
	for _, list := range [][]*spend{c.spends, c.spending} {
		printAll(p, list, func(s *spend) { s.print(p) })
	}
	c.syncing.print(p)
}

func printAll[T any](p Printer, list []T, one func(T)) {
	p.Number(int64(len(list)))
	for _, x := range list {
		one(x)
	}
}

func numbersOf(p Printer, list ...int64) {
	for _, n := range list {
		p.Number(n)
	}
}

func asNumber(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *Core) printKey(p Printer, k *Key) {
	if w, ok := c.wakes.of[k]; ok {
		p.At(w.at)
	} else {
		p.Number(-1)
	}
	numbersOf(p, k.dim.Load().version, asNumber(k.lowSent.Load()), asNumber(k.dirty), asNumber(k.refresh), int64(k.spends))
	numbersOf(p, k.heard, k.needHint, k.total()-k.lastTotal, c.debts[k.ID])
	p.At(k.exactUntil)
	p.At(k.nextAsk)
	p.At(k.lastUse + k.dim.Load().TTL)
	printAll(p, k.held(), func(l *Lease) { l.print(p) })
	printAll(p, k.closing, func(l *Lease) { l.print(p) })
	printAll(p, k.unleased, func(u *unleased) { u.print(p) })
	printAll(p, k.waiters, p.Caller)
	printAll(p, k.parked, p.Caller)
	k.ask.print(p)
	k.denial.Load().print(p)
	k.view.Load().print(p)
	d := k.demand
	numbersOf(p, asNumber(d.known), int64(math.Float64bits(d.perSecond)), int64(d.at), k.total()-d.total)
}

func (l *Lease) print(p Printer) {
	p.ID(l.id.Bytes())
	numbersOf(p, l.window.GetEndUs(), l.amount, l.low, int64(l.deadline), l.bucket.left.Load(), l.back)
	numbersOf(p, asNumber(l.isSealed), asNumber(l.cut), asNumber(l.renewed))
	numbersOf(p, l.reported.taken, l.reported.returned, asNumber(l.reported.final))
}

func (u *unleased) print(p Printer) {
	p.ID(u.id.Bytes())
	numbersOf(p, u.window.start, u.window.end, u.taken, u.acked, u.step)
}

func (a *ask) print(p Printer) {
	if a == nil {
		p.Number(-1)
		return
	}
	p.ID(a.id.Bytes())
	numbersOf(p, a.want, a.need, int64(a.firstSent), asNumber(a.sent))
}

func (d *denial) print(p Printer) {
	if d == nil {
		p.Number(-1)
		return
	}
	p.Word(string(d.reason))
	numbersOf(p, d.cost, d.generation, d.largest)
	p.At(d.until)
	p.At(d.retryAt)
}

func (v *view) print(p Printer) {
	if v == nil {
		p.Number(-1)
		return
	}
	numbersOf(p, v.limit, v.leaseCap, v.generation, v.window.GetStartUs())
	p.At(v.windowEnd)
}

func (s *spend) print(p Printer) {
	p.ID(s.id.Bytes())
	numbersOf(p, int64(s.key.index), s.cost)
	if s.waiter == nil {
		p.Number(-1)
		return
	}
	p.Caller(s.waiter)
}

// print writes what the reply to a Sync in flight will be held against. The request itself is
// in the network's hands.
func (s *syncInFlight) print(p Printer) {
	if s == nil {
		p.Number(-1)
		return
	}
	numbersOf(p, int64(s.sent), int64(len(s.request.GetCancels())))
	printAll(p, s.reports, func(r sentReport) {
		if r.lease != nil {
			p.ID(r.lease.id.Bytes())
		} else {
			p.ID(r.unleased.id.Bytes())
		}
		numbersOf(p, int64(r.key.index), r.report.taken, r.report.returned, asNumber(r.report.final))
	})
	printAll(p, s.asks, func(k *Key) { p.Number(int64(k.index)) })
	printAll(p, s.keys, func(k *Key) { p.Number(int64(k.index)) })
}

// Again reports that a waiter was sent back to the exact lane, for the last time.
func (w *Waiter) Again() bool { return w.again }

// Holding is one lease as its agent has it.
type Holding struct {
	ID       ID
	Window   *pb.Window
	Taken    int64
	Left     int64 // to be taken until the deadline
	Deadline Instant
	Live     bool // not sealed
}

// Holdings calls visit with every lease that is held or not yet reported to its end.
func (c *Core) Holdings(visit func(Holding)) {
	for _, k := range c.keys {
		for _, l := range k.held() {
			visit(l.holding(true))
		}
		for _, l := range k.closing {
			visit(l.holding(false))
		}
	}
}

func (l *Lease) holding(live bool) Holding {
	return Holding{ID: l.id, Window: l.window, Taken: l.taken(), Left: l.left(), Deadline: l.deadline, Live: live}
}
