package explore

import (
	"slices"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/memory"
)

// do lets a step happen, and holds what came of it against every promise.
func (s *state) do(rs *replicas, x step) {
	s.justCut = x.act == cut && s.tick+1 < s.world.Horizon && !s.world.whole
	switch x.act {
	case send:
		s.send(x.of)
	case hear:
		a, l, c := s.myCall(x.of)
		a.calls[l] = nil
		s.told(a, l, c, c.reply)
	case heed:
		s.heed(s.mine(int(x.of)))
	case bring, keep, unknown:
		s.bring(rs, x)
	case arrive:
		stray := s.strays[x.of]
		s.strays = slices.Delete(s.strays, int(x.of), int(x.of)+1)
		s.answer(rs, stray.request)
	case follow:
		s.inLedger(func() { s.must(rs.follow(s)) })
	case sweep:
		s.inLedger(func() { s.must(rs.sweep(s)) })
	case pass:
		s.pass()
	case take:
		s.left.Takes--
		s.take(s.mine(int(x.of)))
	case crash:
		s.left.Crashes--
		s.crash(int(x.of))
	case miss:
		s.left.Losses--
		s.mine(int(x.of)).inbox = nil
	case lose, late:
		s.giveUp(x)
	case fail:
		s.left.Losses--
		a, l, c := s.myCall(x.of)
		a.calls[l] = nil
		s.told(a, l, c, reply{})
	case cut:
		s.left.Cuts--
		s.version = 2
		s.store().SetPolicyVersion(2)
	case setBack:
		s.left.Setbacks--
		s.back++
	case right:
		s.back = 0
	}
}

func (s *state) send(of uint8) {
	a, l, _ := s.myCall(of)
	var r request
	if l == syncs {
		r.sync = a.core.BuildSync(s.now(a))
	} else {
		r.spend = a.core.BuildSpend(s.now(a), 3*tick)
	}
	if r == (request{}) {
		if s.hasToSend(a, l) {
			s.broken("agent %d has a message to send, and makes none", of/lanes+1)
		}
		return // on a second look it can wait
	}
	a.calls[l] = &call{sent: s.tick, request: r, print: r.printed()}
}

// bring lets a request arrive, and its answer go.
func (s *state) bring(rs *replicas, x step) {
	_, _, c := s.myCall(x.of)
	switch x.act {
	case keep:
		s.left.Repeats--
		s.strays = append(s.strays, stray{int(x.of / lanes), c.request, c.print})
	case unknown:
		s.left.Unknowns--
		outcome := memory.Unknown
		s.store().OnCommit(func() memory.Outcome {
			now := outcome
			outcome = memory.Committed
			return now
		})
		defer func() { s.store().OnCommit(nil) }()
	}
	c.answered, c.reply = true, s.answer(rs, c.request)
	c.print = c.reply.printed()
}

// answer is the control plane's.
func (s *state) answer(rs *replicas, r request) (got reply) {
	s.inLedger(func() {
		var err error
		if r.sync != nil {
			got.sync, err = rs.sync(s, r.sync)
		} else {
			got.spend, err = rs.spend(s, r.spend)
		}
		s.must(err)
	})
	return got
}

// told lets an agent take in what came of a call.
func (s *state) told(a *agent, l lane, c *call, r reply) {
	s.atAgent(a, r.spend, func() {
		if l == syncs {
			a.core.SyncDone(s.now(a), r.sync)
			return
		}
		a.core.SpendDone(s.now(a), s.nowAt(a, c.sent), r.spend)
	})
}

// heed lets an agent take in the notices that are on their way to it.
func (s *state) heed(a *agent) {
	s.atAgent(a, nil, func() {
		inbox := a.inbox
		a.inbox = nil
		for _, n := range inbox {
			a.core.Notice(s.now(a), n.notice)
		}
	})
}

// giveUp has an agent send a request that ends with an error, of which it hears when the answer would have
// come.
func (s *state) giveUp(x step) {
	s.send(x.of)
	_, _, c := s.myCall(x.of)
	if c == nil {
		return
	}
	if x.act == lose {
		s.left.Losses--
	} else {
		s.left.Lates--
		s.strays = append(s.strays, stray{int(x.of / lanes), c.request, c.print})
	}
	c.answered, c.reply = true, reply{}
	c.print = c.reply.printed()
}

// take is one caller: the fast way, then the core.
func (s *state) take(a *agent) {
	s.atAgent(a, nil, func() {
		now := s.now(a)
		c := &caller{since: s.tick}
		if k := a.core.Table.Find(key); k != nil {
			if t := k.Take(now, 1); t.Allowed || t.Denied {
				c.answer = &core.Outcome{Taken: t}
				if t.Low {
					a.core.Low(now, k)
				}
			}
		}
		if c.answer == nil {
			c.waiter = &core.Waiter{Key: key, Cost: 1, Done: c.hear}
			a.core.Want(now, c.waiter)
		}
		a.callers = append(a.callers, c)
	})
}

// pass lets a tick go by, for everybody at once.
func (s *state) pass() {
	if s.busy() {
		s.left.Delays--
	}
	s.tick++
	for i := range s.agents {
		a := s.mine(i)
		s.atAgent(a, nil, func() {
			now := s.now(a)
			a.core.Tick(now)
			for _, c := range a.callers {
				if c.answer == nil && s.tick-c.since >= s.world.Patience {
					if o, ok := a.core.GiveUp(now, c.waiter); ok {
						c.answer = &o
					}
				}
			}
		})
	}
}

// crash ends an agent as SIGKILL does: nothing is said. It starts anew at once.
func (s *state) crash(i int) {
	a := s.mine(i)
	for l, c := range a.calls {
		if c != nil && !c.answered {
			s.strays = append(s.strays, stray{i, c.request, c.print})
		}
		a.calls[l] = nil
	}
	a.callers, a.inbox = nil, nil
	a.ids.start++
	a.ids.reads = 0
	s.truth.crashed = true
	s.start(a)
}

// atRest reports that nothing is on its way, and that nobody owes anybody anything.
func (s *state) atRest() bool {
	for _, a := range s.agents {
		owes := a.core.Owes()
		a.core.Holdings(func(core.Holding) { owes = true })
		if owes || len(a.callers) > 0 || len(a.inbox) > 0 || a.calls != [lanes]*call{} {
			return false
		}
	}
	for _, row := range s.books.accounts {
		if row.Outstanding > 0 {
			return false
		}
	}
	return len(s.strays) == 0 && s.followed()
}
