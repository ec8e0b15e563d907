package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Participant is one agent's interest in one key. N counts those seen lately; it belongs to
// the key and carries over windows.
type Participant struct {
	Key      quota.Key
	Agent    ID
	LastSeen time.Time
	Region   string
	Demand   Units // what it last asked for: unknown demand is 0, and not zero demand
}

// Demand is what one agent of a region last wanted of a key; 0 units: not known.
type Demand struct {
	Region string
	Units  Units
}

// participant finds an agent's interest in a key, as it is in this book.
func (b *Book) participant(key quota.Key, agent ID) (Participant, bool) {
	if p, ok := b.seen[key][agent]; ok {
		return p, true
	}
	known := b.interested[key]
	for i := range known {
		if known[i].Agent == agent {
			return known[i], true
		}
	}
	return Participant{}, false
}

// each calls do for every agent that counts in N, in any order. There may be thousands, and
// every ask comes here: maps that are keyed by strings are looked up outside of the loop.
func (b *Book) each(key quota.Key, t Terms, do func(*Participant)) {
	since := b.countedSince(t)
	known, seen := b.interested[key], b.seen[key]
	for i := range known {
		p := &known[i]
		if _, newer := seen[p.Agent]; !newer && p.LastSeen.After(since) {
			do(p)
		}
	}
	for _, p := range seen {
		if p.LastSeen.After(since) {
			do(&p)
		}
	}
}

// See notes an agent's interest in a key, where it is, and what it wants; 0 leaves what was
// known of that.
func (b *Book) See(key quota.Key, agent ID, region string, demand Units) {
	p, known := b.participant(key, agent)
	if !known {
		p = Participant{Key: key, Agent: agent}
	}
	was := p
	if b.loaded.Now.After(p.LastSeen) {
		p.LastSeen = b.loaded.Now
	}
	p.Region = region
	if demand > 0 {
		p.Demand = demand
	}
	if p == was && known {
		return
	}
	if b.seen[key] == nil {
		b.seen[key] = map[ID]Participant{}
	}
	b.seen[key][agent] = p
}

// countedSince is the moment since when an agent must have been seen to count in N.
func (b *Book) countedSince(t Terms) time.Time { return b.loaded.Now.Add(-t.Interest()) }

// Interest is how long an agent counts in N after it was seen: max(ttl, 60 s). The grace is
// added to the ttl, so that an agent that vanished counts until its leases close.
func (t Terms) Interest() time.Duration { return max(t.TTL+t.Grace, time.Minute) }

// Agents is N: the agents that leased, asked or spent on the key lately.
func (b *Book) Agents(key quota.Key, t Terms) int {
	n := 0
	b.each(key, t, func(*Participant) { n++ })
	return max(n, 1)
}

// Others is what the agents that count want of a key, in any order, but for one of them.
func (b *Book) Others(key quota.Key, agent ID, t Terms) []Demand {
	var list []Demand
	b.each(key, t, func(p *Participant) {
		if p.Agent != agent {
			list = append(list, Demand{Region: p.Region, Units: p.Demand})
		}
	})
	return list
}
