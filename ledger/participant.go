package ledger

import (
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Participant is one agent's interest in one key. N counts those seen lately; it belongs to
// the key and carries over windows.
type Participant struct {
	Key      quota.Key
	Agent    ID
	LastSeen time.Time // when it was noted; it may have asked since (see Terms.CountedFor)
	Region   string
	Demand   Units // what it last asked for: unknown demand is 0, and not zero demand
}

// Demand is what an agent of a region last wanted of a key; 0 units: not known.
type Demand struct {
	Region string
	Units  Units
}

// interest is who is interested in a key. There may be thousands and every ask wants to know how
// many, so they are counted once a book, and the count follows what the book notes.
type interest struct {
	key     quota.Key
	known   []Participant // as loaded, by agent: the store's own, never changed
	changed []seen

	since   time.Time // of what follows: agents that were seen after this
	counted bool
	agents  int
	demands map[Demand]int // how many of them want what; nil: not counted yet
}

// seen is a participant that the book changed.
type seen struct {
	Participant
	known int // where it is among the known; -1: nowhere
}

// noticed says whose interest the book changed.
type noticed struct {
	in    *interest
	agent ID
}

// interestIn finds who is interested in a key.
func (b *Book) interestIn(key quota.Key) *interest {
	n, ok := b.interests[key]
	if !ok {
		n = &interest{key: key, known: b.loaded.Participants[key]}
		for i := range n.known {
			if i > 0 && CompareIDs(n.known[i-1].Agent, n.known[i].Agent) > 0 {
				n.known = slices.SortedFunc(slices.Values(n.known), byAgent)
				break
			}
		}
		b.interests[key] = n
	}
	return n
}

func (b *Book) interestOf(a *page) *interest {
	if a.interest == nil {
		a.interest = b.interestIn(a.ID.Key)
	}
	return a.interest
}

func byAgent(x, y Participant) int { return CompareIDs(x.Agent, y.Agent) }

// See notes an agent's interest in a key, where it is, and what it wants; 0 leaves what was
// known of that. What is noted already, and not long ago, is not noted again.
func (b *Book) See(key quota.Key, agent ID, region string, demand Units) {
	b.see(b.interestIn(key), agent, region, demand, Terms{})
}

func (b *Book) see(n *interest, agent ID, region string, demand Units, t Terms) {
	p, place := b.participant(n, agent)
	was := p.Participant
	p.Region = region
	if demand > 0 {
		p.Demand = demand
	}
	if p.Participant == was && b.loaded.Now.Sub(was.LastSeen) <= t.seenAgain() {
		return
	}
	if b.loaded.Now.After(p.LastSeen) {
		p.LastSeen = b.loaded.Now
	}
	n.add(&was, -1)
	n.add(&p.Participant, 1)
	if place < len(n.changed) {
		n.changed[place] = p
		return
	}
	b.noted[noticed{n, agent}] = place
	n.changed = append(n.changed, p)
}

// participant finds an agent's interest, as it is in this book, and its place among the changed.
func (b *Book) participant(n *interest, agent ID) (seen, int) {
	if len(n.changed) > 0 {
		if place, ok := b.noted[noticed{n, agent}]; ok {
			return n.changed[place], place
		}
	}
	at, ok := n.search(agent)
	if ok {
		return seen{n.known[at], at}, len(n.changed)
	}
	return seen{Participant{Key: n.key, Agent: agent}, -1}, len(n.changed)
}

// search is a binary search that copies no participants.
func (n *interest) search(agent ID) (int, bool) {
	at := sort.Search(len(n.known), func(i int) bool { return CompareIDs(n.known[i].Agent, agent) >= 0 })
	return at, at < len(n.known) && n.known[at].Agent == agent
}

// count is N: the agents that leased, asked or spent since.
func (n *interest) count(since time.Time) int {
	if !n.counted || !n.since.Equal(since) {
		n.since, n.counted, n.agents, n.demands = since, true, 0, nil
		n.each(n.add)
	}
	return max(n.agents, 1)
}

// each calls do for every participant, one time for those that are and minus one time for those
// that are not as they were known.
func (n *interest) each(do func(p *Participant, times int)) {
	for i := range n.known {
		do(&n.known[i], 1)
	}
	for i := range n.changed {
		if at := n.changed[i].known; at >= 0 {
			do(&n.known[at], -1)
		}
		do(&n.changed[i].Participant, 1)
	}
}

// add counts a participant, if it counts.
func (n *interest) add(p *Participant, times int) {
	if !n.counted || !p.LastSeen.After(n.since) {
		return
	}
	n.agents += times
	if n.demands != nil {
		n.want(p, times)
	}
}

func (n *interest) want(p *Participant, times int) {
	d := Demand{Region: p.Region, Units: p.Demand}
	if n.demands[d] += times; n.demands[d] == 0 {
		delete(n.demands, d)
	}
}

// countedFor is how long an agent counts in N after it was seen: max(ttl, 60 s). The grace is
// added to the ttl, so that an agent that vanished counts until its leases close.
func (t Terms) countedFor() time.Duration { return max(t.TTL+t.Grace, time.Minute) }

// seenAgain is how old the note of an agent may grow before another ask renews it: what is noted
// at each ask is a row to write at each ask.
func (t Terms) seenAgain() time.Duration { return t.countedFor() / 16 }

// CountedFor is how long an agent counts in N after it was noted: for as long after it was seen as
// it must, and longer by as much as the note may be older. N may be too large for that long, and
// is never too small.
func (t Terms) CountedFor() time.Duration { return t.countedFor() + t.seenAgain() }

// countedSince is the moment since when an agent must have been noted to count in N.
func (b *Book) countedSince(t Terms) time.Time { return b.loaded.Now.Add(-t.CountedFor()) }

// Agents is N: the agents that leased, asked or spent on the key lately.
func (b *Book) Agents(key quota.Key, t Terms) int { return b.interestIn(key).count(b.countedSince(t)) }

// Others is what the agents that count want of a key, and how many want it, in any order, but for
// one of them.
func (b *Book) Others(key quota.Key, agent ID, t Terms) iter.Seq2[Demand, int] {
	return b.others(b.interestIn(key), agent, b.countedSince(t))
}

func (b *Book) others(n *interest, agent ID, since time.Time) iter.Seq2[Demand, int] {
	return func(yield func(Demand, int) bool) {
		n.count(since)
		if n.demands == nil {
			n.demands = map[Demand]int{}
			n.each(func(p *Participant, times int) {
				if p.LastSeen.After(n.since) {
					n.want(p, times)
				}
			})
		}
		own, _ := b.participant(n, agent)
		for d, agents := range n.demands {
			if own.LastSeen.After(since) && d == (Demand{Region: own.Region, Units: own.Demand}) {
				agents--
			}
			if agents > 0 && !yield(d, agents) {
				return
			}
		}
	}
}
