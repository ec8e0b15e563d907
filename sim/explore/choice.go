package explore

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// act is one thing that can happen.
type act uint8

// Acts. Those up to pass happen without faults.
const (
	send   act = iota // an agent sends what it has to say
	hear              // a reply reaches its agent
	heed              // so does every notice that is on its way to it
	bring             // a request reaches the control plane, which answers it
	arrive            // so does a stray, whose answer is nobody's
	follow            // the control plane takes up the policy in force, and brings the accounts to it
	sweep             // it closes what is due
	right             // the ledger's clock is set right
	pass              // a tick passes

	take    // a caller asks for one unit
	crash   // an agent dies and starts anew; what it sent may still arrive
	lose    // an agent sends a request that is lost: it will be told of an error
	late    // the same, but the request stays on its way
	fail    // a reply is lost: its agent is told of an error in its place
	miss    // the notices that are on their way to an agent are lost: nobody is told
	keep    // a request arrives, and a copy of it stays on its way
	unknown // a request arrives, and the store does not learn that it committed
	cut     // policy version 2 is applied
	setBack // the ledger's clock goes one tick back
)

// step is an act and whom it concerns: an agent, one of its calls, or a stray.
type step struct {
	act act
	of  uint8
}

func callOf(agent int, l lane) uint8 { return uint8(agent*lanes) + uint8(l) }

func (s *state) callAt(of uint8) (*agent, lane, *call) {
	a, l := s.agents[of/lanes], lane(of%lanes)
	return a, l, a.calls[l]
}

// myCall is a call of an agent that is about to change.
func (s *state) myCall(of uint8) (*agent, lane, *call) {
	s.mine(int(of / lanes))
	return s.callAt(of)
}

// steps are all that can happen to a state, those without faults first: of those the first is
// what happens when nothing disturbs. After the horizon nothing else does.
func (s *state) steps() []step {
	if s.justCut {
		return s.served()
	}
	if i := s.first(); i >= 0 {
		return s.own(i)
	}
	list := s.ordinary()
	if s.tick >= s.world.Horizon {
		return s.calmly(list)
	}
	if s.left.Delays > 0 || !s.busy() {
		list = append(list, step{pass, 0})
	}
	return s.troubles(list)
}

// ordinary are the steps that no budget bounds, but for that of time.
func (s *state) ordinary() []step {
	list := make([]step, 0, 24)
	for i, a := range s.agents {
		for l := range lane(lanes) {
			c := a.calls[l]
			switch {
			case c == nil && s.hasToSend(a, l):
				list = append(list, step{send, callOf(i, l)})
			case c != nil && !c.answered:
				list = append(list, step{bring, callOf(i, l)})
			case c != nil && c.sent < s.tick:
				list = append(list, step{hear, callOf(i, l)})
			}
		}
		if len(a.inbox) > 0 {
			list = append(list, step{heed, uint8(i)})
		}
	}
	for i := range s.strays {
		list = append(list, step{arrive, uint8(i)})
	}
	if !s.followed() {
		list = append(list, step{follow, 0})
	}
	if s.due() {
		list = append(list, step{sweep, 0})
	}
	if s.back > 0 {
		list = append(list, step{right, 0})
	}
	return list
}

// first is an agent whose own steps are all that need be explored, or -1. Such an agent has something
// to send or to hear at this very tick, so that it does one of its own steps before time passes,
// whatever the others do; and its own steps and those of everybody else do not touch the same things:
// done first they lead to the same states. (What budgets they share only bounds how many there
// are.) Only a crash touches a request that is on its way to the control plane: while there may be
// one, such an agent does not come first. What is held against the promises on the way depends on
// the order no more: callers' use and the leases that can be spent are looked at in every state, and
// no step of others makes them less. Where agents listen it is otherwise: what others do sends them
// notices.
func (s *state) first() int {
	if s.tick >= s.world.Horizon || s.left.Delays > 0 || s.world.Notices || s.world.whole {
		return -1
	}
	for i, a := range s.agents {
		due, onTheWay := false, false
		for l, c := range a.calls {
			onTheWay = onTheWay || c != nil && !c.answered
			due = due || c == nil && s.hasToSend(a, lane(l)) || c != nil && c.answered && c.sent < s.tick
		}
		if due && (!onTheWay || s.left.Crashes == 0) {
			return i
		}
	}
	return -1
}

// served are the control plane's steps, of which one comes next after a cut: what only agents do, and the
// passing of time, goes by no policy, and so may as well come before the cut. (Not in the last tick: what
// comes at rest comes after it.)
func (s *state) served() []step {
	return slices.DeleteFunc(s.troubles(s.ordinary()), func(x step) bool { return !x.act.controlPlane() })
}

func (a act) controlPlane() bool {
	switch a {
	case bring, arrive, follow, sweep, keep, unknown:
		return true
	}
	return false
}

// own are the steps of one agent alone.
func (s *state) own(i int) []step {
	list := make([]step, 0, 8)
	a := s.agents[i]
	for l, c := range a.calls {
		of := callOf(i, lane(l))
		switch {
		case c == nil && s.hasToSend(a, lane(l)):
			list = append(list, step{send, of})
		case c != nil && c.answered && c.sent < s.tick:
			list = append(list, step{hear, of})
		}
	}
	return s.troublesOf(i, list)
}

// calmly is the one step that is left after the horizon; none at rest.
func (s *state) calmly(list []step) []step {
	switch {
	case len(list) > 0:
		return list[:1]
	case s.atRest():
		return nil
	default:
		return append(list, step{pass, 0})
	}
}

// troubles adds what budgets bound.
func (s *state) troubles(list []step) []step {
	for i := range s.agents {
		list = s.troublesOf(i, list)
		for l, c := range s.agents[i].calls {
			if c != nil && !c.answered {
				list = may(list, s.left.Repeats, keep, callOf(i, lane(l)))
				list = may(list, s.left.Unknowns, unknown, callOf(i, lane(l)))
			}
		}
	}
	if s.version == 1 {
		list = may(list, s.left.Cuts, cut, 0)
	}
	return may(list, s.left.Setbacks, setBack, 0)
}

// troublesOf adds those that touch one agent alone. Whether a request is lost is settled when it is
// sent, and whether a reply is when it would be heard: what happens in between goes by neither.
func (s *state) troublesOf(i int, list []step) []step {
	a := s.agents[i]
	list = may(list, s.left.Takes, take, uint8(i))
	list = may(list, s.left.Crashes, crash, uint8(i))
	if len(a.inbox) > 0 {
		list = may(list, s.left.Losses, miss, uint8(i))
	}
	for l, c := range a.calls {
		of := callOf(i, lane(l))
		switch {
		case c == nil && s.hasToSend(a, lane(l)):
			list = may(list, s.left.Losses, lose, of)
			list = may(list, s.left.Lates, late, of)
		case c != nil && c.reply != (reply{}) && c.sent < s.tick:
			list = may(list, s.left.Losses, fail, of)
		}
	}
	return list
}

// may adds a step if something is left of its budget.
func may(list []step, left int8, a act, of uint8) []step {
	if left > 0 {
		list = append(list, step{a, of})
	}
	return list
}

// busy reports that something is due in this very tick: time passes only if that is held up. A
// request arrives in the tick in which it was sent, and its answer in the next, and so does a notice
// at the latest.
func (s *state) busy() bool {
	for _, a := range s.agents {
		if len(a.inbox) > 0 && a.inbox[0].sent < s.tick {
			return true
		}
		for l, c := range a.calls {
			if c == nil && s.hasToSend(a, lane(l)) || c != nil && (!c.answered || c.sent < s.tick) {
				return true
			}
		}
	}
	return false
}

func (s *state) hasToSend(a *agent, l lane) bool {
	if l == syncs {
		return a.core.NextSync() <= s.now(a)
	}
	return a.core.SpendWaiting(s.now(a))
}

// due reports that the ledger holds a lease or a window to close.
func (s *state) due() bool {
	now := s.ledgerClock()
	for _, a := range s.books.accounts {
		if at := statementDue(a); !at.IsZero() && !at.After(now) {
			return true
		}
	}
	return slices.ContainsFunc(s.books.grants, func(g ledger.Grant) bool { return g.State == ledger.Live && !g.ClosesAt.After(now) })
}

// statementDue is when time has something to write in an account's statement, as the store has it; zero:
// never.
func statementDue(a ledger.Account) time.Time {
	if a.ClosedAt.IsZero() {
		return a.ID.Window.End.Add(a.Grace)
	}
	return a.FinalBy()
}
