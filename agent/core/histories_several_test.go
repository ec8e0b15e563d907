package core

import (
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// wantSeveral is one caller of two or three keys.
func (m *member) wantSeveral() {
	if !m.awake() {
		return
	}
	defer m.observe()
	g := &Group{Tenant: "acme"}
	for _, i := range m.rng.Perm(len(historyDimensions))[:2+m.rng.IntN(2)] {
		g.Takes = append(g.Takes, DimensionCost{Dimension: historyDimensions[i], Cost: int64(1 + m.rng.IntN(4))})
	}
	c := &caller{}
	g.Done = func(o Outcome) {
		c.answers++
		m.answeredAll(g, o)
	}
	m.callers = append(m.callers, c)
	m.core.WantAll(m.clock(), g)
	m.pump()
	m.patienceAll(c, g, 10*time.Millisecond, m.rng.IntN(15) == 0)
}

func (m *member) patienceAll(c *caller, g *Group, d time.Duration, leaves bool) {
	m.deliver(d, func() {
		switch {
		case c.answers > 0:
		case leaves:
			c.gone = true
			m.core.AbandonAll(m.clock(), g)
		case d < time.Second && g.Exact():
			m.patienceAll(c, g, time.Second, false)
		default:
			if o, mine := m.core.GiveUpAll(m.clock(), g); mine {
				c.answers++
				m.answeredAll(g, o)
			}
		}
	})
}

// answeredAll counts what a caller of several keys was allowed, each in its window.
func (m *member) answeredAll(g *Group, o Outcome) {
	if !o.Allowed {
		if (o.Denied || o.Unavailable) && o.Key.Dimension == "" && len(g.parts) > 0 {
			m.broken("a denial names nobody: %+v", o)
		}
		m.did["several: no"]++
		return
	}
	m.did["several: yes"]++
	for i := range g.parts {
		p := &g.parts[i]
		dim, _ := m.core.Dimension(p.key.ID.Dimension)
		account := ledger.AccountID{Key: p.key.ID, Window: dim.Calendar.WindowAt(m.ledgerNow())}
		switch window, spent := m.decidedPart[p]; {
		case p.free:
			account.Window = dim.Calendar.WindowAt(m.core.LedgerTime(m.clock()))
			m.truth(account).open += p.cost
		case spent:
			m.did["several: spend"]++
			account.Window = window
			m.truth(account).leased += p.cost
		default:
			account.Window = windowOf(p.taken.lease.window)
			m.truth(account).leased += p.cost
		}
	}
}

// noteParts notes the windows of approved spends of groups, for while their reply is taken in.
func (m *member) noteParts(reply *pb.SpendReply) {
	m.decidedPart = map[*part]quota.Window{}
	for i, s := range m.core.spending {
		if s.group == nil || i >= len(reply.GetDecisions()) || reply.GetDecisions()[i].GetAmount() == 0 {
			continue
		}
		for j := range s.group.parts {
			if s.group.parts[j].spend == s {
				m.decidedPart[&s.group.parts[j]] = m.spentIn[s.id]
			}
		}
	}
}

// reserve makes of a take from a lease, now and then, an estimate that is settled later, or
// never.
func (m *member) reserve(key quota.Key, cost int64, o Outcome) {
	if !o.Allowed || o.lease == nil || cost == 0 || m.rng.IntN(4) > 0 {
		return
	}
	account := ledger.AccountID{Key: key, Window: windowOf(o.lease.window)}
	maximum := m.rng.IntN(2) == 0 || !m.core.Table.Find(key).MayExceed()
	id, ok := m.core.Reserve(m.clock(), key, cost, maximum, o)
	if !ok {
		m.broken("no reservation of %s", key)
		return
	}
	incarnation := m.core.Incarnation()
	m.deliver(time.Duration(m.rng.IntN(6000))*time.Millisecond, func() {
		actual := m.rng.Int64N(cost + 1)
		if !maximum && m.rng.IntN(3) == 0 {
			actual = cost + 1 + m.rng.Int64N(3)
		}
		if m.core.Stopping() || m.core.Incarnation() != incarnation {
			return
		}
		if err := m.core.Settle(m.clock(), id, actual); err != nil {
			m.broken("settle %s: %v", key, err)
		}
		m.did["settle"]++
		if t := m.truth(account); actual <= cost {
			t.leased -= cost - actual
		} else {
			t.open += actual - cost
		}
	})
}
