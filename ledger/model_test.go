package ledger_test

import (
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// truth is what really happened in one window, as an omniscient observer counts it. It knows
// nothing of the ledger's arithmetic.
type truth struct {
	used     ledger.Units // T: all that was used and not undone
	unleased ledger.Units // of that, without a lease: after the fact, or by a copy of an agent
	told     ledger.Units // of that, what reports brought to the ledger
	largest  ledger.Units // highest Q + U at any grant or spend
	peak     ledger.Units // highest Q
}

// bucket is a lease as its agent holds it.
type bucket struct {
	ledger.Grant
	taken, refunded, returned ledger.Units
	sealed                    bool // nothing is taken any more
}

func (b *bucket) left() ledger.Units {
	if b.sealed {
		return 0
	}
	return b.Amount - (b.taken - b.refunded) - b.returned
}

// seal ends a bucket: what was in it is returned, by the same act.
func (b *bucket) seal() {
	b.returned += b.left()
	b.sealed = true
}

func (b *bucket) report() ledger.Report {
	return reportOf(b.Grant, b.taken, b.refunded, b.returned, b.sealed)
}

// waiting is an ask or a spend whose agent has not heard, or does not want to hear any more.
type waiting struct {
	ask   *ledger.Ask
	spend *ledger.Spend
	over  bool // heard, or withdrawn: replies to it are ignored
	used  bool // a spend whose work was done
}

func (w *waiting) id() ledger.ID {
	if w.ask != nil {
		return w.ask.ID
	}
	return w.spend.ID
}

func (w *waiting) account() ledger.AccountID {
	if w.ask != nil {
		return w.ask.Account
	}
	return w.spend.Account
}

// node is an honest agent.
type node struct {
	id      ledger.ID
	buckets []*bucket
	waits   []*waiting
	debts   map[ledger.AccountID]*ledger.Report // use without a lease
}

// model is a world of agents, a network that loses, repeats and reorders, and one ledger.
type model struct {
	*desk
	class    quota.Class
	constant bool // limit, budget and class never change
	nodes    []*node
	born     uint64
	truths   map[ledger.AccountID]*truth
	first    map[ledger.ID]ledger.Grant // the answer to each ask and spend when it was first decided
	network  []func()                   // messages under way; one stays in it after delivery
	left     []*node                    // nodes that crashed
	cloned   bool
	tooOld   bool // a report came after the ledger's memory: what it said is lost
	forgot   bool // the ledger folded records
}

const modelWindow = 10 * time.Minute

func newModel(t tb, class quota.Class, limit, budget ledger.Units, constant bool) *model {
	m := &model{
		desk: open(t, class, limit, budget), class: class, constant: constant,
		truths: map[ledger.AccountID]*truth{}, first: map[ledger.ID]ledger.Grant{},
	}
	m.account.Window = quota.NewWindow(start, start.Add(modelWindow))
	m.store.SetRetention(modelWindow / 2)
	m.apply(func(*ledger.Terms) {})
	for range 3 {
		m.join()
	}
	return m
}

func (m *model) join() *node {
	m.born++
	n := &node{id: agent(m.born), debts: map[ledger.AccountID]*ledger.Report{}}
	m.nodes = append(m.nodes, n)
	return n
}

func (m *model) truth(id ledger.AccountID) *truth {
	tr, ok := m.truths[id]
	if !ok {
		tr = &truth{}
		m.truths[id] = tr
	}
	return tr
}

// pass lets time go by, and opens the next window when it has begun.
func (m *model) pass(by time.Duration) {
	m.now = m.now.Add(by)
	for !m.account.Window.Contains(m.now) {
		end := m.account.Window.End
		m.account.Window = quota.NewWindow(end, end.Add(modelWindow))
	}
	m.must(m.update(ledger.Scope{}, func(b *ledger.Book) error {
		_, err := b.Open(m.account, m.terms)
		return err
	}))
}

// post puts a message on the network.
func (m *model) post(deliver func()) { m.network = append(m.network, deliver) }

// within runs act on an account that need not be the present one.
func (m *model) within(id ledger.AccountID, act func()) {
	present := m.account
	m.account = id
	act()
	m.account = present
}
