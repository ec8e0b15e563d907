package controlplane

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the middle of a day in UTC.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// wall is a clock that tests set.
type wall struct {
	mu sync.Mutex
	at time.Time
}

func (w *wall) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *wall) move(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

// gate is a store that tests can watch, hold up and mislead.
type gate struct {
	*memory.Store
	updates atomic.Int64
	before  func(ledger.Scope) ledger.Scope // nil: nothing
	commits func()                          // what happens while one commits; nil: nothing
}

func (g *gate) Update(ctx context.Context, s ledger.Scope, fn func(*ledger.Book) error) error {
	g.updates.Add(1)
	if g.before != nil {
		s = g.before(s)
	}
	err := g.Store.Update(ctx, s, fn)
	if g.commits != nil {
		g.commits()
	}
	return err
}

// appliedLog puts every new version in force in the ledger, as one database does.
type appliedLog struct {
	*policy.MemoryLog
	store *memory.Store
}

func (l appliedLog) Append(ctx context.Context, after int64, r policy.Record) (int64, error) {
	v, err := l.MemoryLog.Append(ctx, after, r)
	if err == nil {
		l.store.SetPolicyVersion(v)
	}
	return v, err
}

// world is a ledger, a policy log and replicas on them.
type world struct {
	t        testing.TB
	ledger   *wall // the ledger's clock
	store    *gate
	log      appliedLog
	registry *prometheus.Registry
	cp       *ControlPlane
	serial   atomic.Uint64
}

const examplePolicy = `
dimensions:
  - name: report_export
    kind: period
    limit: 50000
    period: {every: day}
    class: bounded
    overshoot: 0.5%
    lease: {ttl: 30s}
  - name: small
    kind: period
    limit: 100
    period: {every: day}
    class: hard
    overshoot: 100%
    lease: {ttl: 30s}
  - name: payments
    kind: period
    limit: 10
    period: {every: day}
    class: exact
`

func newWorld(t testing.TB, text string) *world {
	t.Helper()
	w := &world{t: t, ledger: &wall{at: noon}}
	w.start(text, w.ledger.now, w.ledger.now)
	return w
}

// start makes the stores over the ledger's clock and one replica over its own.
func (w *world) start(text string, ledgerNow, replicaNow func() time.Time) {
	w.t.Helper()
	w.store = &gate{Store: memory.New(ledgerNow)}
	w.log = appliedLog{policy.NewMemoryLog(ledgerNow), w.store.Store}
	w.apply(text)
	w.registry = prometheus.NewRegistry()
	w.cp = w.replica(replicaNow, w.registry)
	if err := w.cp.Refresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) replica(now func() time.Time, r prometheus.Registerer) *ControlPlane {
	w.t.Helper()
	cfg := DefaultConfig()
	cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = w.store, w.store, w.store, w.store, w.log
	cfg.Lines, cfg.Now, cfg.Metrics = w.store, now, r
	cfg.Random = rand.NewChaCha8([32]byte{1})
	cp, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return cp
}

// apply puts a policy in force behind the replica's back, as another replica would.
func (w *world) apply(text string) {
	w.t.Helper()
	doc, err := policy.Parse([]policy.File{{Name: "test.yaml", Text: []byte(text)}}, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, _, err := policy.Apply(context.Background(), w.log, doc, policy.SourceCLI, "tester", "test"); err != nil {
		w.t.Fatal(err)
	}
}

// id makes a UUIDv7 of the ledger's present time.
func (w *world) id() ledger.ID {
	var id ledger.ID
	binary.BigEndian.PutUint64(id[:8], uint64(w.ledger.now().UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], w.serial.Add(1))
	id[6] |= 0x70
	id[8] |= 0x80
	return id
}

// agent is one incarnation, as simple as an agent can be.
type agent struct {
	*world
	inc   ledger.ID
	token []byte
}

func (w *world) agent() *agent { return &agent{world: w, inc: w.id()} }

func (a *agent) hello() *pb.Hello {
	return &pb.Hello{Incarnation: a.inc.Bytes(), Name: "agent", Region: "ap-seoul", PolicyVersion: 1, Token: a.token}
}

// sync sends and takes the token of the answer.
func (a *agent) sync(m *pb.SyncRequest) *pb.SyncReply {
	a.t.Helper()
	m.Hello = a.hello()
	reply, err := a.cp.Desk().Sync(a.t.Context(), m)
	if err != nil {
		a.t.Fatal(err)
	}
	a.token = reply.Token
	return reply
}

// lease asks for units and returns the decision.
func (a *agent) lease(dimension string, want int64) *pb.Decision {
	a.t.Helper()
	reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{a.ask(dimension, want)}})
	return reply.Decisions[0]
}

func (w *world) ask(dimension string, want int64) *pb.Ask {
	return &pb.Ask{GrantId: w.id().Bytes(), Key: acme(dimension), Want: want, Need: 1}
}

func (a *agent) spend(items ...*pb.SpendItem) *pb.SpendReply {
	a.t.Helper()
	reply, err := a.cp.Desk().Spend(a.t.Context(), &pb.SpendRequest{Hello: a.hello(), Items: items})
	if err != nil {
		a.t.Fatal(err)
	}
	return reply
}

func acme(dimension string) *pb.Key { return &pb.Key{Tenant: "acme", Dimension: dimension} }

// account returns the one account of a dimension of acme.
func (w *world) account(dimension string) ledger.Account {
	w.t.Helper()
	found, err := w.store.Accounts(w.t.Context(), ledger.AccountQuery{Tenant: "acme", Dimension: dimension})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("accounts of %s: %v, %v, want one", dimension, found, err)
	}
	return found[0]
}

func (w *world) accountCount() int {
	w.t.Helper()
	found, err := w.store.Accounts(w.t.Context(), ledger.AccountQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(found)
}

// verified fails the test if the ledger's books do not balance.
func (w *world) verified() {
	w.t.Helper()
	_, err := w.store.Verify(w.t.Context(), func(d ledger.Difference) { w.t.Errorf("ledger: %v", d) }, func(int, int) {})
	if err != nil {
		w.t.Error(err)
	}
}

// metric sums the samples of a counter or gauge.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "quotalease_controlplane_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func day(t time.Time) quota.Window {
	start := t.Truncate(24 * time.Hour)
	return quota.NewWindow(start, start.Add(24*time.Hour))
}

func usedUp(d *pb.Decision, key *pb.Key) *pb.Report {
	return &pb.Report{GrantId: d.GrantId, Key: key, Window: d.Window, Taken: d.Amount, Final: true}
}
