package explore

import (
	"encoding/binary"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// state is a world at one moment: real cores, the real ledger, what is on the way between them,
// and what callers were allowed.
type state struct {
	world   *World
	tick    int
	left    Budget
	back    int  // ticks that the ledger's clock was set back
	justCut bool // by the last step, which the control plane's next one follows

	db         *database
	books      *books
	version    int64         // of the policy in force
	knows      int64         // the version that the replica has in memory
	reconciled int64         // the version that every account was brought to
	offset     time.Duration // of the ledger's clock to the replica's, as it believes
	tokens     uint32
	published  int64 // events of the store up to here were told

	agents []*agent
	owns   [maxAgents + 1]bool // which agents, and last the database, no other state has too
	strays []stray
	truth  truth
	fault  string // the first promise broken
}

// agent is one agent: its present incarnation, and its calls in flight.
type agent struct {
	core    *core.Core
	ids     *ids
	slow    int // the tick from which its clock stands still; 0: it never does
	calls   [lanes]*call
	callers []*caller // in wait, first come first
	inbox   []news
	print   *print // nil: it changed since, or time passed
}

// lane is which of an agent's two calls is meant: it has one of each in flight at most.
type lane uint8

const (
	syncs lane = iota
	spends
	lanes = 2
)

// call is a request on its way: not yet at the control plane, or answered and on its way back.
type call struct {
	sent     int // tick
	request  request
	answered bool
	reply    reply
	print    *print // of the request, or of the reply when answered
}

// request is a Sync or a Spend. Nobody changes it.
type request struct {
	sync  *pb.SyncRequest
	spend *pb.SpendRequest
}

// reply is what came of a request: a message, or nothing in an outage.
type reply struct {
	sync  *pb.SyncReply
	spend *pb.SpendReply
}

// stray is a request whose answer nobody waits for, and that may arrive at any later time.
type stray struct {
	agent   int
	request request
	print   *print
}

// news is a notice on its way to an agent.
type news struct {
	sent   int // tick
	notice *pb.Notice
}

// caller is one who waits for a unit at an agent.
type caller struct {
	waiter *core.Waiter
	since  int // tick
	answer *core.Outcome
}

func (c *caller) hear(o core.Outcome) { c.answer = &o }

// ids is an agent's randomness. Each read is another number, which makes ids differ; as a whole
// number it is small, which makes every jitter the same: three quarters of what is spread.
type ids struct {
	agent, start uint8
	reads        uint16
}

func (r *ids) Read(b []byte) (int, error) {
	r.reads++
	clear(b)
	var word [8]byte
	binary.LittleEndian.PutUint32(word[:], uint32(r.reads)<<8|uint32(r.start)<<24|uint32(r.agent)<<28)
	return copy(b, word[:]), nil
}

// agentByte is where an id of an agent's making says, in its upper half, whose it is.
const agentByte = 11

// begin returns a world in which every agent has heard of the policy, and nothing else happened.
func begin(w *World, rs *replicas) (*state, error) {
	s := &state{world: w, left: w.Budget, version: 1, knows: 1, reconciled: 1, truth: newTruth(w)}
	for i := range s.owns {
		s.owns[i] = true
	}
	s.db = newDatabase()
	s.store().SetPolicyVersion(1)
	for i := range w.Agents {
		a := &agent{ids: &ids{agent: uint8(i + 1)}}
		if i < len(w.Slow) {
			a.slow = w.Slow[i]
		}
		s.agents = append(s.agents, a)
	}
	s.tick = -1
	for _, a := range s.agents {
		s.start(a)
	}
	for _, a := range s.agents {
		request := a.core.BuildSync(s.now(a))
		reply, err := rs.sync(s, request)
		if err != nil {
			return nil, err
		}
		s.tick = 0
		a.core.SyncDone(s.now(a), reply)
		s.tick = -1
	}
	s.tick = 0
	s.books = s.read()
	// The estimate of the ledger's clock is for the world to get wrong.
	s.offset = 0
	return s, nil
}

// start gives an agent a new incarnation.
func (s *state) start(a *agent) {
	a.core = core.New(core.Config{Name: "agent", Region: "here", Random: a.ids, Wall: s.trueTime(), Start: s.now(a), MaxKeys: 4})
}

// now is an agent's clock, which began an hour before the world.
func (s *state) now(a *agent) core.Instant { return s.nowAt(a, s.tick) }

func (s *state) nowAt(a *agent, n int) core.Instant {
	if a.slow != 0 && n >= a.slow {
		n -= min(n-a.slow+1, s.world.Still)
	}
	return time.Hour + time.Duration(n)*tick
}

// followed reports that the replica and the accounts are at the policy in force. A replica that
// read it for the sake of a request has yet to bring the other accounts to it.
func (s *state) followed() bool { return s.reconciled == s.version }

func (s *state) trueTime() time.Time { return s.world.at(s.tick) }

// ledgerClock is what the store reads.
func (s *state) ledgerClock() time.Time { return s.world.at(s.tick - s.back) }

// replicaClock is the control plane's own.
func (s *state) replicaClock() time.Time { return s.world.at(s.tick - s.world.Lagging) }
