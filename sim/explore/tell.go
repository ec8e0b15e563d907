package explore

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// teller writes a path down for people, one numbered line a step.
type teller struct {
	lines []string
}

func (t *teller) say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf("%d. ", len(t.lines)+1)+fmt.Sprintf(format, args...))
}

// or is how a state's steps are done: taken down, if there is a teller.
func (t *teller) or(s *state) func(*replicas, step) {
	if t == nil {
		return s.do
	}
	return func(rs *replicas, x step) { t.step(rs, s, x) }
}

// tell plays the way to a state again, and then what broke a promise there.
func (x *search) tell(rs *replicas, n int32, e expansion) ([]string, error) {
	s, err := begin(x.world, rs)
	if err != nil {
		return nil, err
	}
	t := &teller{}
	for _, next := range x.pathTo(n) {
		s.let(rs, next, t)
	}
	switch {
	case e.at != nil:
		s.let(rs, *e.at, t)
	case e.asker >= 0:
		t.say("from here on nothing disturbs")
		s.insist(rs, e.asker, t)
	default:
		t.say("from here on nothing disturbs")
		s.rest(rs, t)
	}
	t.say("%s", e.fault)
	return t.lines, nil
}

// step lets a step happen and says what it was.
func (t *teller) step(rs *replicas, s *state, x step) {
	what := s.describe(x)
	used := s.truth.used
	s.do(rs, x)
	for w := range windows {
		if n := s.truth.used[w] - used[w]; n > 0 {
			what += fmt.Sprintf("; callers use %d of window %d", n, w+1)
		}
	}
	t.say("%s", what)
}

// describe says what a step is about to do.
func (s *state) describe(x step) string {
	who := int(x.of) + 1
	switch x.act {
	case arrive:
		stray := s.strays[x.of]
		return fmt.Sprintf("a %s that agent %d sent before arrives: %s", stray.request.name(), stray.agent+1, stray.request)
	case follow:
		return fmt.Sprintf("the control plane takes up policy version %d", s.version)
	case sweep:
		return "the control plane closes what is due"
	case right:
		return "the ledger's clock is set right"
	case pass:
		return fmt.Sprintf("time passes: tick %d%s", s.tick+1, s.edge())
	case take:
		return fmt.Sprintf("a caller asks agent %d for a unit", who)
	case crash:
		return fmt.Sprintf("agent %d crashes and starts anew", who)
	case heed:
		return fmt.Sprintf("agent %d hears a notice: %s", who, s.agents[x.of].inboxText())
	case miss:
		return fmt.Sprintf("a notice to agent %d is lost: %s", who, s.agents[x.of].inboxText())
	case cut:
		return fmt.Sprintf("the limit is cut from %d to %d", s.world.Limit, s.world.CutTo)
	case setBack:
		return "the ledger's clock goes back by a tick"
	}
	a, l, c := s.callAt(x.of)
	who = int(x.of)/lanes + 1
	switch x.act {
	case send:
		return fmt.Sprintf("agent %d sends a %s: %s", who, laneName(l), s.wouldSend(a, l))
	case hear:
		return fmt.Sprintf("agent %d hears: %s", who, c.reply)
	case bring:
		return fmt.Sprintf("agent %d's %s arrives and is answered", who, c.request.name())
	case lose:
		return fmt.Sprintf("agent %d sends a %s, which is lost: %s", who, laneName(l), s.wouldSend(a, l))
	case late:
		return fmt.Sprintf("agent %d sends a %s, which is late, and which it will give up: %s", who, laneName(l), s.wouldSend(a, l))
	case keep:
		return fmt.Sprintf("agent %d's %s arrives and is answered; a copy of it stays on the way", who, c.request.name())
	case unknown:
		return fmt.Sprintf("agent %d's %s arrives; its commit has an unknown outcome and is submitted again", who, c.request.name())
	default:
		return fmt.Sprintf("the answer to agent %d's %s is lost: it hears an error", who, c.request.name())
	}
}

func (a *agent) inboxText() string {
	var parts []string
	for _, x := range a.inbox {
		switch n := x.notice; {
		case n.GetKey() == nil:
			parts = append(parts, fmt.Sprintf("policy version %d", n.GetPolicyVersion()))
		case n.GetDrained():
			parts = append(parts, "nothing is left")
		case n.GetWanted():
			parts = append(parts, "others are in need")
		case len(n.GetRevokedGrant()) > 0:
			parts = append(parts, short(n.GetRevokedGrant())+" is revoked")
		default:
			parts = append(parts, fmt.Sprintf("the account grew, generation %d", n.GetGeneration()))
		}
	}
	return orNothing(parts)
}

func laneName(l lane) string {
	if l == syncs {
		return "Sync"
	}
	return "Spend"
}

// wouldSend is what an agent is about to send, found out on a copy.
func (s *state) wouldSend(a *agent, l lane) request {
	for i := range s.agents {
		if s.agents[i] == a {
			c := s.copy()
			c.send(callOf(i, l))
			if sent := c.agents[i].calls[l]; sent != nil {
				return sent.request
			}
		}
	}
	return request{}
}

func (s *state) edge() string {
	if s.tick+1 == s.world.Boundary {
		return ", a new window begins"
	}
	return ""
}

func (r request) name() string {
	if r.sync != nil {
		return "Sync"
	}
	return "Spend"
}

func (r request) String() string {
	var parts []string
	for _, x := range r.sync.GetReports() {
		text := fmt.Sprintf("report of %s: taken %d, returned %d", short(x.GetGrantId()), x.GetTaken(), x.GetReturned())
		if x.GetFinal() {
			text += ", final"
		}
		parts = append(parts, text)
	}
	for _, x := range append(r.sync.GetCancels(), r.spend.GetRefunds()...) {
		parts = append(parts, "takes back "+short(x.GetGrantId()))
	}
	for _, x := range r.sync.GetAsks() {
		parts = append(parts, fmt.Sprintf("asks for %d, needs %d, as %s", x.GetWant(), x.GetNeed(), short(x.GetGrantId())))
	}
	for _, x := range r.spend.GetItems() {
		parts = append(parts, fmt.Sprintf("spends %d as %s", x.GetCost(), short(x.GetSpendId())))
	}
	return orNothing(parts)
}

func (r reply) String() string {
	if r == (reply{}) {
		return "an error"
	}
	var parts []string
	if r.sync.GetNewIncarnation() {
		parts = append(parts, "become a new incarnation")
	}
	for _, x := range r.sync.GetResults() {
		state := strings.ToLower(strings.TrimPrefix(x.GetState().String(), "GRANT_STATE_"))
		if x.GetRevoked() {
			state += ", revoked"
		}
		if f := x.GetFault(); f != nil {
			state = "refused: " + f.GetCode()
		}
		parts = append(parts, fmt.Sprintf("%s is %s", short(x.GetGrantId()), state))
	}
	for _, d := range append(r.sync.GetDecisions(), r.spend.GetDecisions()...) {
		parts = append(parts, tellDecision(d))
	}
	if c := r.sync.GetCatalogue(); c != nil {
		parts = append(parts, fmt.Sprintf("policy version %d", c.GetPolicyVersion()))
	}
	return orNothing(parts)
}

func tellDecision(d *pb.Decision) string {
	switch {
	case d.GetFault() != nil:
		return fmt.Sprintf("%s is refused: %s", short(d.GetGrantId()), d.GetFault().GetCode())
	case d.GetAmount() == 0:
		return fmt.Sprintf("%s is denied: %s", short(d.GetGrantId()), d.GetReason())
	case d.GetTtlUs() == 0:
		return fmt.Sprintf("%d spent as %s", d.GetAmount(), short(d.GetGrantId()))
	}
	ttl := time.Duration(d.GetTtlUs()) * time.Microsecond
	return fmt.Sprintf("%d granted as %s for %d ticks", d.GetAmount(), short(d.GetGrantId()), ttl/tick)
}

func orNothing(parts []string) string {
	if len(parts) == 0 {
		return "nothing new"
	}
	return strings.Join(parts, "; ")
}

// short names an id by whose it is and its number.
func short(id []byte) string {
	if len(id) != 16 {
		return "an id"
	}
	return fmt.Sprintf("%d.%d-%d", id[agentByte]>>4, id[agentByte]&0xf, int(id[9])|int(id[10])<<8)
}
