package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/sim/clockwork"
)

// leases is the product: real agent cores, one real replica of the control plane, and a ledger
// in memory.
type leases struct {
	*run
	store  *journal
	log    *policy.MemoryLog
	cp     *controlplane.ControlPlane
	nodes  []*node // by place
	isDown bool
	behind bool       // accounts are to be brought to the policy in use
	waits  []*message // at the replica, for its next transaction
	busy   bool
	starts uint64

	decisions uint64 // of operators
	jobs      int    // that were to begin
}

func newLeases(r *run) (*leases, error) {
	m := &leases{run: r, nodes: make([]*node, len(r.agents))}
	m.store = &journal{Store: memory.New(m.clock), leases: m}
	m.log = policy.NewMemoryLog(m.clock)
	if err := m.apply(r.Scenario.Policy); err != nil {
		return nil, err
	}
	cfg := controlplane.DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = m.store, m.store, m.store, m.store, m.log
	cfg.Now, cfg.Random = m.clock, clockwork.NewStream(r.Seed, 1)
	cfg.Retention = retention
	m.store.SetRetention(retention)
	var err error
	if m.cp, err = controlplane.New(cfg); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	m.loop(0, 500*time.Millisecond, m.follow)
	m.loop(100*time.Millisecond, 100*time.Millisecond, m.tell)
	m.loop(time.Second, time.Second, func() {
		_, err := m.cp.Sweep(context.Background())
		m.note("sweep", err)
	})
	m.loop(10*time.Minute, 10*time.Minute, func() { m.note("keep house", m.cp.Keep(context.Background())) })
	return m, nil
}

// retention is how long records are kept: what nobody looks at takes room.
const retention = 10 * time.Minute

// clock is true time: these worlds try what the protocol costs, not bad clocks.
func (m *leases) clock() time.Time { return m.Start.Add(m.now) }

// note keeps an error of the program itself: no scenario has a database that breaks.
func (m *leases) note(doing string, err error) {
	if err != nil && m.trouble == nil {
		m.trouble = fmt.Errorf("%s at %s: %w", doing, m.now, err)
	}
}

func (m *leases) loop(first, every time.Duration, do func()) {
	var again func()
	again = func() {
		if !m.isDown {
			do()
		}
		m.after(every, again)
	}
	m.after(first, again)
}

// apply makes a document the policy in force.
func (m *leases) apply(doc *policy.Document) error {
	version, changed, err := policy.Apply(context.Background(), m.log, doc, policy.SourceCLI, "operator", "scenario")
	if err != nil {
		return fmt.Errorf("apply a policy: %w", err)
	}
	if changed {
		m.store.SetPolicyVersion(version)
		m.behind = true
	}
	return nil
}

func (m *leases) applied(doc *policy.Document) {
	m.note("change the policy", m.apply(doc))
	m.after(0, m.follow)
}

// follow takes up a newer policy and brings accounts to it.
func (m *leases) follow() {
	if m.isDown {
		return
	}
	ctx := context.Background()
	m.note("look for a newer policy", m.cp.Refresh(ctx))
	if m.behind {
		m.behind = false
		m.note("bring accounts to the policy", m.cp.Reconcile(ctx))
	}
	m.publish()
}

// tell passes on what the journal says, if it says anything new.
func (m *leases) tell() {
	if !m.store.news {
		return
	}
	m.publish()
}

func (m *leases) publish() {
	m.store.news = false
	m.note("read the journal", m.cp.Poll(context.Background()))
	for _, n := range m.nodes {
		if n != nil && n.listener != nil {
			n.hear()
		}
	}
}

func (m *leases) down(is bool) {
	m.isDown = is
	for _, n := range m.nodes {
		if n != nil && is {
			n.unhook()
		}
	}
}

func (m *leases) begin(a *agent) {
	m.starts++
	m.nodes[a.place] = newNode(m, a, m.starts)
}

func (m *leases) crash(a *agent) {
	if n := m.nodes[a.place]; n != nil {
		n.end()
	}
	m.nodes[a.place] = nil
}

// stop lets an agent go: it takes no calls any more, and gives back what it holds.
func (m *leases) stop(a *agent) {
	n := m.nodes[a.place]
	m.nodes[a.place] = nil
	if n == nil {
		return
	}
	n.leaving = true
	n.unhook()
	n.core.Stop(n.clock())
	n.pump()
}

func (m *leases) links(a *agent) {
	if n := m.nodes[a.place]; n != nil && (a.back > 0 || a.unheard > 0) {
		n.unhook()
	}
}

// free is the account's headroom as the ledger last wrote it.
func (m *leases) free(a *account) int64 {
	if !a.headroomIn.Equal(m.Start.Add(m.startOf(a.window))) && a.calendar.Every() != "" {
		return a.limit // nothing was decided in this window yet
	}
	return a.headroom
}

func (m *leases) finish() error {
	if m.trouble != nil {
		return m.trouble
	}
	var wrong []ledger.Difference
	if _, err := m.store.Verify(context.Background(), func(d ledger.Difference) { wrong = append(wrong, d) }, func(int, int) {}); err != nil {
		return fmt.Errorf("verify the ledger: %w", err)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("verify the ledger: %d differences, the first: %s", len(wrong), wrong[0])
	}
	return nil
}

// message is a Sync or Spend at the replica.
type message struct {
	controlplane.Call
	answer func(*message)
}

// arrive puts a message in line. Whatever waits when a transaction ends goes into the next one.
func (m *leases) arrive(x *message) {
	m.waits = append(m.waits, x)
	if !m.busy {
		m.commit()
	}
}

// commit decides on what waits; the answers leave when the transaction has been written.
func (m *leases) commit() {
	calls := make([]*controlplane.Call, len(m.waits))
	for i, x := range m.waits {
		calls[i] = &x.Call
	}
	n := m.cp.Together(context.Background(), calls)
	done := slices.Clone(m.waits[:n])
	m.waits = append(m.waits[:0], m.waits[n:]...)
	m.busy = true
	m.after(m.Commit, func() {
		m.busy = false
		for _, x := range done {
			if m.isDown {
				x.Err = errDown
			}
			x.answer(x)
		}
		if !m.isDown {
			m.tell()
		}
		if len(m.waits) > 0 {
			m.commit()
		}
	})
}

// journal is the ledger's store; it passes on what accounts look like after each transaction.
type journal struct {
	*memory.Store
	leases *leases
	news   bool // events were written that nobody was told of
}

// Update implements ledger.Store.
func (j *journal) Update(ctx context.Context, scope ledger.Scope, fn func(*ledger.Book) error) error {
	var wrote ledger.Changes
	err := j.Store.Update(ctx, scope, func(b *ledger.Book) error {
		if err := fn(b); err != nil {
			return err
		}
		wrote = b.Changes()
		return nil
	})
	if err != nil {
		return err
	}
	j.news = j.news || len(wrote.Events) > 0
	for i := range wrote.Accounts {
		row := &wrote.Accounts[i]
		a := j.leases.meter.accounts[row.ID.Key]
		if a == nil {
			continue
		}
		a.overshoot = max(a.overshoot, int64(row.Overshoot))
		if !row.ID.Window.Start.Before(a.headroomIn) && row.ID.Window.Contains(j.leases.clock()) {
			a.headroomIn = row.ID.Window.Start
			a.headroom, a.outstanding, a.held = int64(row.Headroom()), int64(row.Outstanding), int64(row.Held)
		}
	}
	return nil
}
