package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Config says what a control plane works on and how. The stores, the log and Retention have
// to be given; DefaultConfig fills in the rest.
type Config struct {
	Store    ledger.Store
	Reader   ledger.Reader
	Keeper   ledger.Keeper
	Billing  ledger.Billing
	Policies policy.Log
	Lines    ledger.Lines // nil: callers cannot wait their turn

	PolicyDir string                // applied whenever its content changes; empty: none
	Metrics   prometheus.Registerer // nil: counted, but shown nowhere
	Log       *slog.Logger          // nil: nothing is logged
	Now       func() time.Time      // the replica's clock
	Random    io.Reader             // of tokens and jitter

	Retention        time.Duration // of ids and records; the store's own
	AccountRetention time.Duration // of past windows
	QueueLength      int           // requests that wait for a transaction
	BatchItems       int           // items of one transaction, at most: what waits shares one, and nobody waits for more
	CommitTimeout    time.Duration // of one transaction, or one short read
	PolicyInterval   time.Duration // between looks for a newer policy
	WatchInterval    time.Duration // between looks at the journal
	SweepInterval    time.Duration // between sweeps, jittered by half
	KeepInterval     time.Duration // between housekeeping, jittered by half
	LineInterval     time.Duration // between looks at the lines of waiting callers
}

// DefaultConfig returns the settings that a replica runs with unless told otherwise.
func DefaultConfig() Config {
	return Config{
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: rand.Reader,
		Retention: 30 * 24 * time.Hour, AccountRetention: 400 * 24 * time.Hour,
		QueueLength: 1024, BatchItems: 1024, CommitTimeout: 10 * time.Second,
		PolicyInterval: 500 * time.Millisecond, WatchInterval: 100 * time.Millisecond,
		SweepInterval: time.Second, KeepInterval: 10 * time.Minute, LineInterval: time.Second,
	}
}

// Validate joins everything that is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	given := func(field string, ok bool) {
		if !ok {
			errs = append(errs, invalid(field, "is needed"))
		}
	}
	given("store", c.Store != nil)
	given("reader", c.Reader != nil)
	given("keeper", c.Keeper != nil)
	given("billing", c.Billing != nil)
	given("policies", c.Policies != nil)
	given("log", c.Log != nil)
	given("now", c.Now != nil)
	given("random", c.Random != nil)
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"retention", c.Retention}, {"account-retention", c.AccountRetention}, {"commit-timeout", c.CommitTimeout},
		{"policy-interval", c.PolicyInterval}, {"watch-interval", c.WatchInterval},
		{"sweep-interval", c.SweepInterval}, {"keep-interval", c.KeepInterval},
		{"line-interval", c.LineInterval},
	} {
		if d.value <= 0 {
			errs = append(errs, invalid(d.field, "more than 0"))
		}
	}
	if c.AccountRetention < c.Retention {
		errs = append(errs, invalid("account-retention", "at least the retention, %s", c.Retention))
	}
	if c.QueueLength < 1 {
		errs = append(errs, invalid("queue-length", "1 or more"))
	}
	if c.BatchItems < 1 {
		errs = append(errs, invalid("batch-items", "1 or more"))
	}
	return errors.Join(errs...)
}

// ControlPlane is one replica. Its methods are the handlers of the lease and admin services;
// they are safe for concurrent use, and Sync and Spend wait for Run.
type ControlPlane struct {
	cfg      Config
	desk     *Desk
	policies *policies
	granter  *granter
	hub      *hub
	lines    *lines
	health   *health
	random   *lockedReader

	troubles      *changes
	noPolicy      sync.Once     // said, that there is none yet
	watchKick     chan struct{} // the journal grew
	reconcileKick chan struct{} // a new policy version is in use
	lineKick      chan struct{} // a line became empty, or is not any more
}

// New wires a replica and starts nothing.
func New(cfg Config) (*ControlPlane, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure control plane: %w", err)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	c := &ControlPlane{
		cfg: cfg, troubles: &changes{log: cfg.Log, now: cfg.Now}, health: newHealth(cfg.PolicyDir != ""), random: &lockedReader{from: cfg.Random},
		watchKick: make(chan struct{}, 1), reconcileKick: make(chan struct{}, 1), lineKick: make(chan struct{}, 1),
	}
	m := newMetrics(cfg.Metrics)
	c.policies = &policies{log: cfg.Policies, dir: cfg.PolicyDir, now: cfg.Now, logger: cfg.Log, troubles: c.troubles,
		health: c.health, metrics: m, changed: c.policyChanged}
	c.desk = &Desk{store: cfg.Store, billing: cfg.Billing, policies: c.policies, now: cfg.Now, token: c.random.id,
		retention: cfg.Retention, metrics: m, health: c.health, kick: func() { nudge(c.watchKick) }}
	c.granter = newGranter(c.desk, cfg.QueueLength, cfg.BatchItems, cfg.CommitTimeout, m)
	c.hub = newHub(cfg.Reader, m, c.policyVersion)
	c.lines = &lines{store: cfg.Lines, reader: cfg.Reader, policies: c.policies, now: c.desk.Now, timeout: cfg.CommitTimeout,
		turns: make(chan struct{}, lineTurns), hub: c.hub, metrics: m, kick: func() { nudge(c.lineKick) }}
	return c, nil
}

func (c *ControlPlane) policyChanged(version int64) {
	c.hub.publish(&pb.Notice{PolicyVersion: version})
	nudge(c.reconcileKick)
}

func (c *ControlPlane) policyVersion() int64 {
	if s := c.policies.snapshot(); s != nil {
		return s.Version
	}
	return 0
}

// Run serves until ctx ends, and returns when everything that it started has ended. It is
// called once.
func (c *ControlPlane) Run(ctx context.Context) error {
	c.health.set(partLoops, nil)
	var loops errgroup.Group
	run := func(loop func()) {
		loops.Go(func() error { loop(); return nil })
	}
	run(func() { c.granter.run(ctx) })
	run(func() { c.policies.watchDir(ctx, c.cfg.PolicyInterval) })
	run(func() { every(ctx, c.cfg.PolicyInterval, nil, func() { c.follow(ctx) }) })
	run(func() { every(ctx, c.cfg.WatchInterval, c.watchKick, func() { c.look(ctx) }) })
	run(func() { c.reconcile(ctx) })
	run(func() {
		every(ctx, c.cfg.LineInterval, c.lineKick, func() {
			read, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
			defer cancel()
			if err := c.LookAtLines(read); ctx.Err() == nil {
				c.troubles.note("look at the lines of waiting callers", err)
			}
		})
	})
	run(func() {
		c.jittered(ctx, "close due leases", c.cfg.SweepInterval, func() error { _, err := c.Sweep(ctx); return err })
	})
	run(func() {
		c.jittered(ctx, "remove what retention is over for", c.cfg.KeepInterval, func() error { return c.Keep(ctx) })
	})
	<-ctx.Done()
	c.health.set(partLoops, errors.New("stopping"))
	c.hub.close()
	return loops.Wait()
}

// follow looks for a newer policy version. Like all short reads it has a deadline of its own:
// a store that hangs must not look healthy.
func (c *ControlPlane) follow(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
	defer cancel()
	err := c.Refresh(read)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, policy.ErrNoPolicy):
		c.noPolicy.Do(func() { c.cfg.Log.Info("no policy yet: nothing is granted until one is applied") })
	default:
		c.troubles.note("look for a newer policy", err)
	}
}

// look reads the journal; it is also what notices a ledger that cannot be reached.
func (c *ControlPlane) look(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
	defer cancel()
	err := c.Poll(read)
	if ctx.Err() == nil {
		c.health.set(partLedger, err)
	}
}

// reconcile follows every new policy version, and tries again until it is done.
func (c *ControlPlane) reconcile(ctx context.Context) {
	pending := false
	retry := time.NewTicker(c.cfg.PolicyInterval)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.reconcileKick:
			pending = true
		case <-retry.C:
		}
		if !pending {
			continue
		}
		err := c.Reconcile(ctx)
		c.troubles.note("bring accounts to the policy in use", err)
		if err != nil {
			continue
		}
		pending = false
	}
}

// jittered calls do at intervals of one half to one and a half, so that replicas that started
// together do not stay together.
func (c *ControlPlane) jittered(ctx context.Context, what string, interval time.Duration, do func() error) {
	for {
		wait := time.NewTimer(interval/2 + c.random.below(interval))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		if err := do(); ctx.Err() == nil {
			c.troubles.note(what, err)
		}
	}
}

// Ready says why this replica should not be asked, or nil.
func (c *ControlPlane) Ready() error { return c.health.ready() }

// Notes says what is wrong although the replica serves, e.g. a policy file that was refused
// while the last good policy stays.
func (c *ControlPlane) Notes() error { return c.health.noted() }

// Sync answers a Sync in the next transaction.
func (c *ControlPlane) Sync(ctx context.Context, m *pb.SyncRequest) (*pb.SyncReply, error) {
	return c.granter.sync(ctx, m)
}

// Spend answers a Spend in the next transaction.
func (c *ControlPlane) Spend(ctx context.Context, m *pb.SpendRequest) (*pb.SpendReply, error) {
	return c.granter.spend(ctx, m)
}

// Defer moves tickets in the lines of callers who wait their turn.
func (c *ControlPlane) Defer(ctx context.Context, m *pb.DeferRequest) (*pb.DeferReply, error) {
	return c.lines.deferAll(ctx, m)
}

// Watch sends notices until ctx ends or sending fails.
func (c *ControlPlane) Watch(ctx context.Context, incarnation []byte, send func(*pb.WatchReply) error) error {
	agent, err := idOf("incarnation", incarnation)
	if err != nil {
		return err
	}
	return c.hub.watch(ctx, agent, send)
}

// The steps below are what Run's loops do. A simulation that owns time calls them itself, with
// Desk in place of Sync and Spend.

// Desk answers without the queue.
func (c *ControlPlane) Desk() *Desk { return c.desk }

// Refresh loads the newest policy.
func (c *ControlPlane) Refresh(ctx context.Context) error { return c.policies.refresh(ctx) }

// Reconcile brings open accounts to the policy in use.
func (c *ControlPlane) Reconcile(ctx context.Context) error {
	return c.desk.Reconcile(ctx, c.cfg.Reader)
}

// Poll reads the journal and tells the agents that watch. It is for one caller at a time.
func (c *ControlPlane) Poll(ctx context.Context) error { return c.hub.poll(ctx) }

// Listen is Watch without a goroutine: notices are taken, not awaited.
func (c *ControlPlane) Listen(incarnation []byte) (*Listener, error) {
	agent, err := idOf("incarnation", incarnation)
	if err != nil {
		return nil, err
	}
	return c.hub.listen(agent)
}

// LookAtLines tells the agents that watch where callers wait, and drops tickets that have lapsed.
// It is for one caller at a time.
func (c *ControlPlane) LookAtLines(ctx context.Context) error { return c.lines.look(ctx) }

// Sweep closes leases that are due, and says how many; then it closes windows that ended.
func (c *ControlPlane) Sweep(ctx context.Context) (int, error) {
	closed, err := c.desk.Sweep(ctx)
	if err != nil {
		return closed, err
	}
	_, err = c.desk.CloseWindows(ctx)
	return closed, err
}

// Keep folds and deletes old records. It is for one caller at a time.
func (c *ControlPlane) Keep(ctx context.Context) error {
	return c.desk.Keep(ctx, c.cfg.Keeper, c.cfg.AccountRetention)
}

func nudge(kick chan<- struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// lockedReader lets any number of goroutines read one source of randomness.
type lockedReader struct {
	mu   sync.Mutex // guards from
	from io.Reader
}

func (r *lockedReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return io.ReadFull(r.from, b)
}

// id makes a random token.
func (r *lockedReader) id() (ledger.ID, error) {
	var id ledger.ID
	if _, err := r.Read(id[:]); err != nil {
		return ledger.ID{}, fmt.Errorf("read random bytes: %w", err)
	}
	id.SetVersion(4)
	id.SetVariant(uuid.VariantRFC9562)
	return id, nil
}

// below is a random duration under d; without randomness it is 0.
func (r *lockedReader) below(d time.Duration) time.Duration {
	n, err := rand.Int(r, big.NewInt(int64(d)))
	if err != nil {
		return 0
	}
	return time.Duration(n.Int64())
}
