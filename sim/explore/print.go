package explore

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// print is a state, or a message, written down word by word. Ids and tokens are words of their
// own: their bytes are an accident of the order in which they were made, so in the end an id is
// its rank among those that the state has and its agent's place, and a token is known by where it
// first stands.
type print struct {
	words  []uint64
	ids    []named
	tokens []named
	places [maxAgents]uint8 // of agents, in the order in which this print has them
}

// anybodys is an id without whose it is. Ids that differ in nothing else are of one rank: to number
// the agents otherwise must not change what is older.
func (n named) anybodys() ledger.ID {
	n.id[agentByte] &= 0xf
	return n.id
}

// placed is an id as it would be had its agent another place.
func (p *print) placed(id ledger.ID) ledger.ID {
	if i := id[agentByte] >> 4; i > 0 {
		id[agentByte] = id[agentByte]&0xf | (p.places[i-1]+1)<<4
	}
	return id
}

type named struct {
	at int // in words
	id ledger.ID
}

func (p *print) Number(n int64) { p.words = append(p.words, uint64(n)) }

func (p *print) numbers(list ...int64) {
	for _, n := range list {
		p.Number(n)
	}
}

// wordSeed makes a word's number. It is the same in all worlds of one process.
var wordSeed = maphash.MakeSeed()

func (p *print) Word(w string) { p.words = append(p.words, maphash.String(wordSeed, w)) }

func (p *print) ID(b []byte) {
	p.ids = append(p.ids, named{len(p.words), p.placed(ledger.ID(asID(b)))})
	p.words = append(p.words, 0)
}

func (p *print) Token(b []byte) {
	p.tokens = append(p.tokens, named{len(p.words), ledger.ID(asID(b))})
	p.words = append(p.words, 0)
}

func asID(b []byte) (id [16]byte) {
	copy(id[:], b)
	return id
}

func (p *print) flag(b bool) {
	if b {
		p.Number(1)
		return
	}
	p.Number(0)
}

// add appends what was written before.
func (p *print) add(q *print) {
	base := len(p.words)
	p.words = append(p.words, q.words...)
	for _, n := range q.ids {
		p.ids = append(p.ids, named{base + n.at, p.placed(n.id)})
	}
	for _, n := range q.tokens {
		p.tokens = append(p.tokens, named{base + n.at, n.id})
	}
}

// sum is the fingerprint: 128 bits, so that two states with the same one are never met.
type sum [2]uint64

var sumSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (p *print) sum() sum {
	slices.SortFunc(p.ids, func(x, y named) int {
		a, b := x.anybodys(), y.anybodys()
		return bytes.Compare(a[:], b[:])
	})
	rank := uint64(0)
	for i, n := range p.ids {
		if i == 0 || n.anybodys() != p.ids[i-1].anybodys() {
			rank++
		}
		p.words[n.at] = rank<<8 | uint64(n.id[agentByte]>>4)
	}
	for i, n := range p.tokens {
		first := slices.IndexFunc(p.tokens[:i], func(o named) bool { return o.id == n.id })
		switch {
		case n.id.IsNil():
		case first >= 0:
			p.words[n.at] = p.words[p.tokens[first].at]
		default:
			p.words[n.at] = uint64(i + 1)
		}
	}
	raw := make([]byte, 0, 8*len(p.words))
	for _, w := range p.words {
		raw = append(raw, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return sum{maphash.Bytes(sumSeeds[0], raw), maphash.Bytes(sumSeeds[1], raw)}
}

// corePrint writes a core: its moments are ticks of the agent's clock.
type corePrint struct {
	*print
	s     *state
	agent *agent
}

// At writes the tick at which a moment has come: the past is now, and nothing happens between
// ticks.
func (p corePrint) At(at core.Instant) {
	now := p.s.now(p.agent)
	p.Number(int64(max(0, at-now+tick-1) / tick))
}

func (p corePrint) Caller(w *core.Waiter) {
	i := slices.IndexFunc(p.agent.callers, func(c *caller) bool { return c.waiter == w })
	p.Number(int64(i))
}

func (p corePrint) Cancel(c *pb.Cancel) { p.ID(c.GetGrantId()) }

// fingerprint tells states apart that may behave differently. Agents that are made alike may change
// places: of all the ways to number them the one with the smallest print counts.
func (s *state) fingerprint() sum {
	least := s.printed(s.world.orders[0])
	for _, order := range s.world.orders[1:] {
		least = least.smaller(s.printed(order))
	}
	return least
}

func (x sum) smaller(y sum) sum {
	if cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) <= 0 {
		return x
	}
	return y
}

// printed writes the state with its agents in some order.
func (s *state) printed(order []int) sum {
	p := &print{words: make([]uint64, 0, 512), ids: make([]named, 0, 64), tokens: make([]named, 0, 16)}
	for place, i := range order {
		p.places[i] = uint8(place)
	}
	p.numbers(int64(s.tick), int64(s.back), s.version, s.knows, s.reconciled, int64(s.offset))
	p.flag(s.justCut)
	p.numbers(s.truth.used[:]...)
	p.numbers(s.truth.largest[:]...)
	p.flag(s.truth.crashed)
	for _, i := range order {
		p.add(s.printAgent(s.agents[i]))
	}
	p.strays(s.strays)
	s.printLedger(p)
	return p.sum()
}

// strays writes what may arrive at any time, in an order that does not tell when it was sent.
func (p *print) strays(list []stray) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y stray) int {
		return cmp.Or(cmp.Compare(p.places[x.agent], p.places[y.agent]), slices.Compare(x.print.words, y.print.words))
	})
	p.Number(int64(len(list)))
	for _, x := range list {
		p.Number(int64(p.places[x.agent]))
		p.add(x.print)
	}
}

// printAgent writes an agent, and keeps what it wrote for as long as that is so.
func (s *state) printAgent(a *agent) *print {
	if a.print != nil {
		return a.print
	}
	p := &print{places: ownPlaces}
	a.core.Print(corePrint{p, s, a})
	p.Number(int64(len(a.callers)))
	for _, c := range a.callers {
		p.Number(int64(c.since))
		p.flag(c.waiter.Exact())
		p.flag(c.waiter.Again())
	}
	p.inbox(a.inbox)
	for _, c := range a.calls {
		if c == nil {
			p.Number(-1)
			continue
		}
		p.Number(int64(c.sent))
		p.flag(c.answered)
		p.add(c.print)
	}
	a.print = p
	return p
}

// printLedger writes the ledger as far as it can still matter. A record that is settled, or was
// denied, matters only to who can name its id, and an incarnation to who can speak for it: what
// nobody names is left out. That an agent took part stays (it counts in N), and what it wanted, as do
// all counters.
func (s *state) printLedger(p *print) {
	mentioned := map[ledger.ID]bool{}
	for _, n := range p.ids {
		mentioned[n.id] = true
	}
	for _, a := range s.books.accounts {
		p.numbers(int64(windowOf(a.ID.Window.End)), a.PolicyVersion, int64(a.Limit.Units), a.Generation, int64(a.Committed), int64(a.Overshoot))
		for _, n := range a.Values() {
			p.Number(int64(n))
		}
		if s.world.Notices { // nothing else goes by these
			p.flag(a.Waiting)
			p.Number(a.WantedAt.UnixMicro())
		}
		p.flag(a.ClosedAt.IsZero())
		// An account's clock counts only while it may be ahead of the ledger's.
		if s.left.Setbacks > 0 || a.Clock.After(s.ledgerClock()) {
			p.Number(a.Clock.UnixMicro())
		}
	}
	parts := maps.Clone(s.books.wanted)
	var grants []ledger.Grant
	for _, g := range s.books.grants {
		g.ID, g.Agent = p.placed(g.ID), p.placed(g.Agent)
		if g.State == ledger.Live || g.State == ledger.Closed || mentioned[g.ID] {
			grants = append(grants, g)
		}
	}
	slices.SortFunc(grants, oldestFirst)
	for i, g := range grants {
		p.flag(i > 0 && g.IssuedAt.Equal(grants[i-1].IssuedAt)) // else their ids do not decide which is older
		printGrant(p, g)
	}
	var known []ledger.Incarnation
	for _, inc := range s.books.incarnations {
		if id := p.placed(inc.ID); mentioned[id] {
			known = append(known, inc)
		}
	}
	slices.SortFunc(known, func(x, y ledger.Incarnation) int { return ledger.CompareIDs(p.placed(x.ID), p.placed(y.ID)) })
	for _, inc := range known {
		p.ids = append(p.ids, named{len(p.words), p.placed(inc.ID)})
		p.Number(0)
		p.part(parts, inc.ID)
		delete(parts, inc.ID)
		p.Token(inc.Echoed.Bytes())
		p.Number(int64(len(inc.Issued)))
		for _, t := range inc.Issued {
			p.Token(t.Bytes())
		}
	}
	gone := slices.Sorted(maps.Values(parts)) // whose they were does not matter any more
	p.Number(int64(len(gone)))
	for _, n := range gone {
		p.Number(int64(n))
	}
}

// part writes whether an agent takes part, and what it wants.
func (p *print) part(parts map[ledger.ID]ledger.Units, id ledger.ID) {
	wants, ok := parts[id]
	p.flag(ok)
	p.Number(int64(wants))
}

// printGrant writes a record whose ids were placed.
func printGrant(p *print, g ledger.Grant) {
	p.ids = append(p.ids, named{len(p.words), g.ID}, named{len(p.words) + 1, g.Agent})
	p.numbers(0, 0)
	p.numbers(int64(windowOf(g.Account.Window.End)), int64(g.Kind), int64(g.State), int64(g.Class), int64(g.Asked), int64(g.Need), int64(g.Amount))
	p.Word(string(g.Reason))
	p.numbers(g.Generation, g.PolicyVersion, int64(g.TTL), int64(g.Taken), int64(g.Refunded), int64(g.Back), int64(g.Uncertain))
	p.flag(!g.RevokedAt.IsZero())
	p.flag(!g.StartsAt.IsZero())
	if g.State == ledger.Live {
		p.Number(g.ClosesAt.UnixMicro())
	}
}
