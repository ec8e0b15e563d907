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

type participantID struct {
	key   quota.Key
	agent ID
}

// Demand is what one agent of a region last wanted of a key; 0 units: not known.
type Demand struct {
	Region string
	Units  Units
}

func (b *Book) join(p *Participant) {
	b.interested[p.Key] = append(b.interested[p.Key], p)
}

// participant looks for an agent's interest in a key, or nil. A transaction looks for few of the
// many that it loads.
func (b *Book) participant(id participantID) *Participant {
	for _, p := range b.interested[id.key] {
		if p.Agent == id.agent {
			return p
		}
	}
	return nil
}

// See notes an agent's interest in a key, where it is, and what it wants; 0 leaves what was
// known of that.
func (b *Book) See(key quota.Key, agent ID, region string, demand Units) {
	id := participantID{key, agent}
	p := b.participant(id)
	if p == nil {
		p = &Participant{Key: key, Agent: agent}
		b.join(p)
	}
	was := *p
	if b.loaded.Now.After(p.LastSeen) {
		p.LastSeen = b.loaded.Now
	}
	p.Region = region
	if demand > 0 {
		p.Demand = demand
	}
	if *p != was {
		b.dirtyParticipants[id] = true
	}
}

// countedSince is the moment since when an agent must have been seen to count in N: within
// max(ttl, 60 s). The grace is added to the ttl, so that an agent that vanished counts until
// its leases close.
func (b *Book) countedSince(t Terms) time.Time {
	return b.loaded.Now.Add(-max(t.TTL+t.Grace, time.Minute))
}

// Agents is N: the agents that leased, asked or spent on the key lately.
func (b *Book) Agents(key quota.Key, t Terms) int {
	since, n := b.countedSince(t), 0
	for _, p := range b.interested[key] {
		if p.LastSeen.After(since) {
			n++
		}
	}
	return max(n, 1)
}

// Others is what the agents that count want of a key, in any order, but for one of them.
func (b *Book) Others(key quota.Key, agent ID, t Terms) []Demand {
	since := b.countedSince(t)
	var list []Demand
	for _, p := range b.interested[key] {
		if p.Agent != agent && p.LastSeen.After(since) {
			list = append(list, Demand{Region: p.Region, Units: p.Demand})
		}
	}
	return list
}
