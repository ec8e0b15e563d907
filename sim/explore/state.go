package explore

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
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

	store      *memory.Store
	books      *books
	clock      func() time.Time // the store's
	version    int64            // of the policy in force
	knows      int64            // the version that the replica has in memory
	reconciled int64            // the version that every account was brought to
	offset     time.Duration    // of the ledger's clock to the replica's, as it believes
	tokens     uint32
	published  int64 // events of the store up to here were told

	agents []*agent
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
	s.clock = s.ledgerClock
	s.store = memory.New(s.clock)
	s.store.SetPolicyVersion(1)
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

// copy returns a state that shares nothing with s that either of them may change.
func (s *state) copy() *state {
	to := copyOf(s, func(c *copier, to *state) {
		to.clock = to.ledgerClock
		replaceFunc(c, &s.clock, &to.clock)
	})
	for _, a := range to.agents {
		for _, c := range a.callers {
			c.waiter.Done = c.hear
		}
	}
	return to
}

// now is an agent's clock, which began an hour before the world.
func (s *state) now(a *agent) core.Instant { return s.nowAt(a, s.tick) }

func (s *state) nowAt(a *agent, n int) core.Instant {
	if a.slow != 0 && n >= a.slow {
		n -= min(n-a.slow+1, s.world.Still)
	}
	return time.Hour + time.Duration(n)*tick
}

// followed reports that the replica and the accounts are at the policy in force. A replica that read of
// it for the sake of a request has yet to bring the other accounts to it.
func (s *state) followed() bool { return s.reconciled == s.version }

func (s *state) trueTime() time.Time { return s.world.at(s.tick) }

// ledgerClock is what the store reads.
func (s *state) ledgerClock() time.Time { return s.world.at(s.tick - s.back) }

// replicaClock is the control plane's own.
func (s *state) replicaClock() time.Time { return s.world.at(s.tick - s.world.Lagging) }

// books is what the ledger holds, as last read. It is read anew after each transaction.
type books struct {
	accounts     []ledger.Account // by window
	grants       []ledger.Grant   // oldest decision first
	incarnations []ledger.Incarnation
	wanted       map[ledger.ID]ledger.Units // what each agent that takes part last asked for
}

func (s *state) read() *books {
	ctx := context.Background()
	var b books
	var errs [3]error
	b.accounts, errs[0] = s.store.Accounts(ctx, ledger.AccountQuery{})
	b.grants, errs[1] = s.store.Grants(ctx, ledger.GrantQuery{})
	b.incarnations, errs[2] = s.store.Incarnations(ctx, time.Time{})
	for _, err := range errs {
		s.must(err)
	}
	slices.SortFunc(b.grants, oldestFirst)
	s.must(s.participants(ctx, &b))
	return &b
}

// participants reads who takes part. The rules say of each agent what the others want.
func (s *state) participants(ctx context.Context, b *books) error {
	b.wanted = map[ledger.ID]ledger.Units{}
	if len(b.accounts) == 0 {
		return nil
	}
	a := b.accounts[0]
	return s.store.Update(ctx, ledger.Scope{Accounts: []ledger.AccountID{a.ID}}, func(book *ledger.Book) error {
		all, most := wantedBy(book.Others(key, ledger.ID{}, a.Terms))
		for _, inc := range b.incarnations {
			if others, n := wantedBy(book.Others(key, inc.ID, a.Terms)); n < most {
				b.wanted[inc.ID] = all - others
			}
		}
		return nil
	})
}

func wantedBy(list []ledger.Demand) (sum ledger.Units, n int) {
	for _, d := range list {
		sum += d.Units
	}
	return sum, len(list)
}

// oldestFirst is the order in which the rules go through grants.
func oldestFirst(x, y ledger.Grant) int {
	return cmp.Or(x.IssuedAt.Compare(y.IssuedAt), ledger.CompareIDs(x.ID, y.ID))
}

// grant finds a record.
func (b *books) grant(id ledger.ID) *ledger.Grant {
	for i := range b.grants {
		if b.grants[i].ID == id {
			return &b.grants[i]
		}
	}
	return nil
}

// must takes an answer for granted that the store in memory cannot refuse.
func (s *state) must(err error) {
	if err != nil {
		s.broken("the store answered: %v", err)
	}
}
