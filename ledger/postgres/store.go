package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Options are the store's settings; zero fields take the defaults.
type Options struct {
	Retention     time.Duration // how long ids are remembered; 30 days
	LockTimeout   time.Duration // longest wait for one lock; 2 s
	Timeout       time.Duration // longest an attempt may take before its COMMIT, and a read; 5 s
	CommitTimeout time.Duration // how long the answer to a COMMIT is waited for; 10 s
	Now           func() time.Time
}

const (
	defaultRetention     = 30 * 24 * time.Hour
	defaultLockTimeout   = 2 * time.Second
	defaultTimeout       = 5 * time.Second
	defaultCommitTimeout = 10 * time.Second
)

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.Retention, defaultRetention)
	set(&o.LockTimeout, defaultLockTimeout)
	set(&o.Timeout, defaultTimeout)
	set(&o.CommitTimeout, defaultCommitTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store keeps the ledger in Postgres. It starts no goroutine and owns nothing: the pool is
// its caller's to close.
type Store struct {
	pool *pgxpool.Pool
	opt  Options

	newcomers newcomers
}

var (
	_ ledger.Store   = (*Store)(nil)
	_ ledger.Reader  = (*Store)(nil)
	_ ledger.Keeper  = (*Store)(nil)
	_ ledger.Billing = (*Store)(nil)
	_ ledger.Lines   = (*Store)(nil)
)

// New returns a store on a pool made by Open or from Config.
func New(pool *pgxpool.Pool, opt Options) *Store {
	return &Store{pool: pool, opt: opt.withDefaults()}
}

// Attempts of one Update, whatever made the others come to nothing.
const (
	maxAttempts = 8
	firstPause  = 2 * time.Millisecond
	maxPause    = 100 * time.Millisecond
)

// Update implements ledger.Store. What is retried and why:
//
//   - A serialization failure, a deadlock, or an id that another transaction recorded first
//     under other locks: nothing was written, the whole batch runs again (D5).
//   - A connection that broke before COMMIT was sent: the same.
//   - A connection that broke after: the same batch decides, because absence is not an
//     answer (D8). If the first run is still committing, the second waits for its locks.
//
// A lock that was not free in time is not tried again: the caller fails fast.
func (s *Store) Update(ctx context.Context, scope ledger.Scope, fn func(*ledger.Book) error) error {
	t := newTarget(scope)
	create := s.newcomers.likely()
	return s.persist(ctx, fmt.Sprintf("update %d accounts", len(t.accounts)), func() error {
		err := s.attempt(ctx, t, create, fn)
		if !create && errors.Is(err, errMissing) {
			create = true
			err = s.attempt(ctx, t, create, fn)
		}
		return err
	})
}

// persist attempts a transaction until its outcome is known, or it is no use.
func (s *Store) persist(ctx context.Context, what string, attempt func() error) error {
	unsettled := false
	for n := 1; ; n++ {
		err := attempt()
		if err == nil {
			return nil
		}
		var rule ruleError
		if errors.As(err, &rule) {
			return rule.err
		}
		if isReadOnly(err) {
			s.pool.Reset() // a demoted primary: new connections look for the present one (O1)
		}
		next := judge(err)
		unsettled = unsettled || next == settle
		if next == giveUp || n == maxAttempts || !pause(ctx, n) {
			if unsettled {
				err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
			}
			return outage(ctx, what, err)
		}
	}
}

// pause waits before attempt n+1: twice as long each time, and a random part of it, so that
// those who met do not meet again. It reports false when the caller has gone.
func pause(ctx context.Context, n int) bool {
	most := min(firstPause<<(n-1), maxPause)
	timer := time.NewTimer(most/2 + rand.N(most/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func isReadOnly(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == codeReadOnly || refused.Code == codeStandby)
}

// target is a scope without repeats, in the order of its locks.
type target struct {
	accounts []ledger.AccountID // by ledger.CompareAccounts
	keys     []quota.Key        // of the accounts
	grants   []ledger.ID
	agents   []ledger.ID

	holders     []ledger.ID // agents whose own leases are loaded, by account
	first, last []int32     // of each account, which of them: from 1; last is below first where there is none

	live    bool
	held    bool
	foldOld time.Time
	seen    time.Duration
}

func newTarget(s ledger.Scope) *target {
	t := &target{
		accounts: slices.Compact(slices.SortedFunc(slices.Values(s.Accounts), ledger.CompareAccounts)),
		grants:   uniqueIDs(s.Grants), agents: uniqueIDs(s.Agents), live: s.Live, held: s.Held, foldOld: s.FoldOld, seen: s.Seen,
	}
	for _, id := range t.accounts {
		if n := len(t.keys); n == 0 || t.keys[n-1] != id.Key {
			t.keys = append(t.keys, id.Key)
		}
	}
	t.assign(s.Holders)
	return t
}

// assign sorts the holders by their accounts. One whose account is not in the scope is none.
func (t *target) assign(holders []ledger.Holder) {
	t.first, t.last = make([]int32, len(t.accounts)), make([]int32, len(t.accounts))
	at := make(map[ledger.AccountID][]ledger.ID, len(t.accounts))
	for _, h := range holders {
		at[h.Account] = append(at[h.Account], h.Agent)
	}
	for i, id := range t.accounts {
		t.first[i] = int32(len(t.holders) + 1)
		t.holders = append(t.holders, uniqueIDs(at[id])...)
		t.last[i] = int32(len(t.holders))
	}
}

func uniqueIDs(ids []ledger.ID) []ledger.ID {
	return slices.Compact(slices.SortedFunc(slices.Values(ids), ledger.CompareIDs))
}

// attempt runs the transaction once, in two round trips: lock and load, write and commit.
func (s *Store) attempt(ctx context.Context, t *target, create bool, fn func(*ledger.Book) error) error {
	return s.transact(ctx, t, func(ctx context.Context, tx *transaction) (*pgx.Batch, error) {
		if err := tx.prepare(ctx, create, fn); err != nil {
			return nil, err
		}
		return tx.writes(), nil
	})
}

// transact locks, loads and decides within the time of an attempt, then writes and commits.
func (s *Store) transact(ctx context.Context, t *target, decide func(context.Context, *transaction) (*pgx.Batch, error)) error {
	before, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	conn, err := s.pool.Acquire(before)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	tx := &transaction{store: s, conn: conn.Conn(), target: t}
	writes, err := decide(before, tx)
	if err == nil {
		err = tx.commit(ctx, writes)
	}
	if err != nil {
		tx.rollBack(ctx)
	}
	return err
}

// transaction is one attempt.
type transaction struct {
	store  *Store
	conn   *pgx.Conn
	target *target

	types   rowTypes
	loaded  ledger.Loaded
	rows    map[ledger.AccountID]int64 // surrogate ids of the locked accounts
	grants  []grantRow
	changes ledger.Changes
}

// prepare locks and loads, and lets the rules decide.
func (tx *transaction) prepare(ctx context.Context, create bool, fn func(*ledger.Book) error) error {
	if err := tx.lock(ctx, create); err != nil {
		return fmt.Errorf("lock and load: %w", err)
	}
	book := ledger.NewBook(tx.loaded)
	if err := fn(book); err != nil {
		return ruleError{err}
	}
	tx.changes = book.Changes()
	return nil
}

// idle is the state of a connection without a transaction.
const idle = 'I'

// rollBack frees the locks. If it cannot, the pool drops the connection, and so does the
// server.
func (tx *transaction) rollBack(ctx context.Context) {
	if tx.conn.IsClosed() || tx.conn.PgConn().TxStatus() == idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tx.store.opt.LockTimeout)
	defer cancel()
	_, _ = tx.conn.Exec(ctx, rollBackSQL)
}

const rollBackSQL = `-- name: roll_back
ROLLBACK`
