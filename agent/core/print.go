package core

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
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
	numbersOf(p, c.version, int64(c.life), c.told, int64(len(c.keys)), asNumber(c.stopping), asNumber(c.spendOut), asNumber(c.contacted))
	numbersOf(p, int64(c.failures), int64(c.lostAt), int64(c.contact), int64(c.synced), int64(c.beat), int64(c.rtt))
	numbersOf(p, c.ledgerAt.UnixMicro()-c.ledgerOn.Microseconds(), int64(c.ledgerOn), int64(c.ledgerErr))
	p.At(c.syncAt)
	p.At(c.syncAt - c.beat)
	p.At(c.retryAt)
	p.At(c.lazyAt)
	for k := range c.each {
		c.printKey(p, k)
	}
	for _, line := range [][]*Key{c.dirty, c.lazy, c.news, c.leading} {
		printAll(p, line, func(k *Key) { p.Number(int64(k.index)) })
	}
	c.printDebts(p)
	printAll(p, c.cancels, p.Cancel)
	printAll(p, c.refunds, p.Cancel)
	printAll(p, c.warming.keys, func(id quota.Key) { p.Word(id.String()) })
	p.At(c.warming.until)
	printWaiters(p, c.early)
	printAll(p, c.earlyGroups, func(g *Group) { g.print(p) })
	p.Number(int64(c.refunded))
	for _, list := range [][]*spend{c.spends, c.spending} {
		printAll(p, list, func(s *spend) { s.print(p) })
	}
	printAll(p, c.reservedOrder, func(r *reservation) { r.print(p) })
	for _, list := range [][]*permit{c.permitHeap, c.endedPermits} {
		printAll(p, list, func(x *permit) { x.print(p) })
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

// asBits tells any two numbers apart.
func asBits(f float64) int64 { return int64(math.Float64bits(f)) }

func (c *Core) printDebts(p Printer) {
	byName := func(x, y quota.Key) int { return strings.Compare(x.String(), y.String()) }
	printAll(p, slices.SortedFunc(maps.Keys(c.debts), byName), func(k quota.Key) {
		p.Word(k.String())
		p.Number(c.debts[k])
	})
}

func (c *Core) printKey(p Printer, k *Key) {
	if at, ok := c.wakeOf(k); ok {
		p.At(at)
	} else {
		p.Number(-1)
	}
	numbersOf(p, k.dim().version, int64(k.signs.bits.Load()%kept))
	numbersOf(p, asNumber(k.dirty), asNumber(k.deferred), asNumber(k.refresh), int64(k.spends), int64(k.busy), int64(min(k.vain, 3)))
	numbersOf(p, k.heard.window, k.heard.generation, k.needHint, k.total()-k.lastTotal)
	numbersOf(p, asBits(k.typical), int64(k.learned))
	p.At(k.nextAsk)
	p.Number(asNumber(k.full))
	p.At(k.modest)
	p.At(k.lastUse + k.dim().TTL)
	numbersOf(p, k.lead.window, asNumber(k.led), asNumber(k.leading))
	p.At(k.lead.at)
	numbersOf(p, asNumber(k.lane.on), int64(k.lane.above))
	p.At(k.lane.least)
	for _, list := range [][]*Lease{k.held(), k.closing} {
		printAll(p, list, func(l *Lease) { l.print(p) })
	}
	printAll(p, k.unleased, func(u *unleased) { u.print(p) })
	printWaiters(p, k.waiters)
	printWaiters(p, k.parked)
	k.ask.print(p)
	k.next.print(p)
	k.denial.Load().print(p)
	k.view().print(p)
	d := k.demand
	numbersOf(p, asNumber(d.known()), asBits(d.perSecond()), int64(d.at), k.counted()-d.total)
	k.extend.print(p)
	k.slots.print(p)
}

// counted is what demand is estimated from.
func (k *Key) counted() int64 {
	if k.slots != nil {
		return k.slots.started
	}
	return k.total()
}

func printWaiters(p Printer, list []*Waiter) {
	printAll(p, list, func(w *Waiter) {
		if w.group != nil {
			w.group.print(p)
			return
		}
		p.Caller(w)
	})
}

// Again reports that a waiter was sent back to the exact lane, for the last time.
func (w *Waiter) Again() bool { return w.again }

// Holding is one lease as its agent has it.
type Holding struct {
	ID       ID
	Window   *pb.Window
	Taken    int64
	Left     int64   // to be taken until the deadline
	Start    Instant // not before; 0: at once
	Deadline Instant
	Live     bool // not sealed
}

// Holdings calls visit with every lease that is held or not yet reported to its end.
func (c *Core) Holdings(visit func(Holding)) {
	for k := range c.each {
		for _, l := range slices.Concat(k.held(), k.allowances()) {
			visit(l.holding(true))
		}
		for _, l := range k.closing {
			visit(l.holding(false))
		}
	}
}

func (l *Lease) holding(live bool) Holding {
	return Holding{ID: l.id, Window: l.window, Taken: l.taken(), Left: l.left(), Start: l.more().start, Deadline: l.deadline(), Live: live}
}
