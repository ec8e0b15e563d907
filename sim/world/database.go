package world

import (
	"context"
	"errors"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/sim/oracle"
)

var (
	errDown    = errors.New("the database is down")
	errUnheard = errors.New("the connection broke in mid-commit")
)

// database is the one Postgres of a world: the ledger in memory with a clock of its own,
// outages, and commits that end in every way.
type database struct {
	*memory.Store
	world   *World
	offset  time.Duration // of its clock
	astray  time.Duration // its clock is far off until then
	back    time.Duration // it is down until then
	commits []Kind        // how the next ones end
	unheard bool          // the one that just ended

	suspect bool           // of the replica whose transaction it is
	pending ledger.Changes // what the transaction at hand writes if it commits
	ruled   error          // what its rules said
}

func newDatabase(w *World) *database {
	d := &database{world: w}
	d.Store = memory.New(d.now)
	d.OnCommit(d.commit)
	return d
}

func (d *database) now() time.Time {
	return epoch.Add(d.world.now + d.offset + astray(d.world.now, d.astray))
}

func (d *database) down() bool { return d.world.now < d.back }

// commit ends a transaction as told. What is written the oracle hears of.
func (d *database) commit() memory.Outcome {
	ends := Take // well
	if len(d.commits) > 0 {
		ends, d.commits = d.commits[0], d.commits[1:]
		d.world.fire(ends)
		d.world.say("a commit ends badly: %s", ends)
	}
	switch ends {
	case CommitConflict:
		return memory.Conflict
	case CommitBroken:
		return memory.Broken
	}
	d.world.committed(d.pending)
	switch ends {
	case CommitUnknown:
		return memory.Unknown
	case CommitUnheard:
		d.unheard = true
	}
	return memory.Committed
}

// connection is a replica's way to the database. The policy log is in the same one.
type connection struct {
	*database
	replica *replica
	log     *policy.MemoryLog
}

// Update implements ledger.Store.
func (c *connection) Update(ctx context.Context, scope ledger.Scope, fn func(*ledger.Book) error) error {
	d := c.database
	if d.down() {
		return errDown
	}
	suspect := d.now().Sub(c.replica.now()).Abs() > ledger.MaxClockSkew
	if suspect {
		d.world.fire(ClockSuspect)
	}
	d.suspect = suspect
	d.SetClockSuspect(suspect)
	d.unheard, d.ruled = false, nil
	err := d.Store.Update(ctx, scope, func(b *ledger.Book) error {
		d.ruled = fn(b)
		if d.ruled == nil {
			d.pending = b.Changes()
		}
		return d.ruled
	})
	if err != nil && d.ruled == nil && !errors.Is(err, memory.ErrBroken) {
		d.world.broken(oracle.Works, "the store cannot write: %v", err)
	}
	if err == nil && d.unheard {
		return errUnheard
	}
	return err
}

// Due implements ledger.Store.
func (c *connection) Due(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	if c.down() {
		return nil, errDown
	}
	return c.Store.Due(ctx, limit)
}

// Unstated implements ledger.Billing.
func (c *connection) Unstated(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	if c.down() {
		return nil, errDown
	}
	return c.Store.Unstated(ctx, limit)
}

// Foldable implements ledger.Keeper.
func (c *connection) Foldable(ctx context.Context, before time.Time, after ledger.ID, limit int) ([]ledger.AccountID, ledger.ID, error) {
	if c.down() {
		return nil, ledger.ID{}, errDown
	}
	return c.Store.Foldable(ctx, before, after, limit)
}

// Prune implements ledger.Keeper.
func (c *connection) Prune(ctx context.Context, recordsBefore, accountsBefore time.Time) (int64, error) {
	if c.down() {
		return 0, errDown
	}
	return c.Store.Prune(ctx, recordsBefore, accountsBefore)
}

// Accounts, Grants and Events are those of ledger.Reader that replicas here read.
func (c *connection) Accounts(ctx context.Context, q ledger.AccountQuery) ([]ledger.Account, error) {
	if c.down() {
		return nil, errDown
	}
	return c.Store.Accounts(ctx, q)
}

// Grants implements ledger.Reader.
func (c *connection) Grants(ctx context.Context, q ledger.GrantQuery) ([]ledger.Grant, error) {
	if c.down() {
		return nil, errDown
	}
	return c.Store.Grants(ctx, q)
}

// Events implements ledger.Reader.
func (c *connection) Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	if c.down() {
		return nil, errDown
	}
	return c.Store.Events(ctx, after, limit)
}

// policyLog is the policy log as one replica reads it.
type policyLog struct{ *connection }

// Head implements policy.Log.
func (l policyLog) Head(ctx context.Context) (policy.Record, error) {
	if l.down() {
		return policy.Record{}, errDown
	}
	return l.log.Head(ctx)
}

// Get implements policy.Log.
func (l policyLog) Get(ctx context.Context, version int64) (policy.Record, error) {
	if l.down() {
		return policy.Record{}, errDown
	}
	return l.log.Get(ctx, version)
}

// History implements policy.Log.
func (l policyLog) History(ctx context.Context, limit int) ([]policy.Record, error) {
	if l.down() {
		return nil, errDown
	}
	return l.log.History(ctx, limit)
}

// Append implements policy.Log.
func (l policyLog) Append(ctx context.Context, after int64, r policy.Record) (int64, error) {
	return l.log.Append(ctx, after, r)
}
