package ledger

import (
	"context"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Store is the seam between the rules and a database: one locked read-modify-write, and the
// list of work that time makes due. Both implementations pass ledgertest.
type Store interface {
	// Update locks the scope's accounts (making those that are new) in the order of
	// CompareAccounts, reads the clock, loads what the scope names, runs fn, writes
	// Book.Changes and commits, all or nothing. fn may run more than once and must depend on
	// nothing but the book. If the outcome of the commit is unknown, Update submits the same
	// batch again: rules are idempotent by id, so that the second run finds what the first
	// one wrote. An error from fn changes nothing and is returned as it is.
	Update(ctx context.Context, s Scope, fn func(*Book) error) error
	// Due lists accounts that hold leases to close or slots to end, soonest first, at most limit.
	Due(ctx context.Context, limit int) ([]AccountID, error)
}

// Scope says what a transaction touches.
type Scope struct {
	Accounts []AccountID   // locked; in any order, repeats allowed
	Grants   []ID          // loaded if they exist, whatever their account
	Agents   []ID          // incarnations to lock and load
	Holders  []Holder      // whose live leases in which of the accounts to load
	Live     bool          // all live leases of the accounts, for a recall
	Held     bool          // grants with held units, ReleaseBatch an account, for a release
	FoldOld  time.Time     // when set: settled grants not updated since, at most FoldBatch an account
	Seen     time.Duration // participants seen within it are loaded; less than an hour: those of an hour
}

// Holder is an agent with an account in which it may hold leases.
type Holder struct {
	Account AccountID
	Agent   ID
}

// FoldBatch is how many grants one transaction folds at most.
const FoldBatch = 1000

// HeldBatch is how many grants with held units of an account a transaction loads at most: what
// may move from H to U is limited to theirs.
const HeldBatch = 256

// ReleaseBatch is how many grants with held units of an account one release frees at most.
const ReleaseBatch = 4096

// DueBatch is how many due leases of an account one transaction closes at most.
const DueBatch = 1024

// Reader is what operators and doors read. Nothing is locked.
type Reader interface {
	Accounts(ctx context.Context, q AccountQuery) ([]Account, error)
	Grants(ctx context.Context, q GrantQuery) ([]Grant, error)
	Incarnations(ctx context.Context, seenSince time.Time) ([]Incarnation, error)
	// Holdings sums up the live leases of each agent that has any, by agent.
	Holdings(ctx context.Context) ([]Holding, error)
	// Events returns the journal after an event id, oldest first, at most limit. Events become
	// visible in the order of their ids: who goes on after the last one seen misses none.
	Events(ctx context.Context, after int64, limit int) ([]Event, error)
}

// Holding is what one agent has out.
type Holding struct {
	Agent       ID
	Leases      int64
	Outstanding Units // of all its keys; the largest int64 if it is more
}

// AccountQuery selects accounts; zero fields select all.
type AccountQuery struct {
	Tenant        string
	Dimension     string
	At            time.Time // windows that contain this moment
	PolicyBefore  int64     // accounts last opened under an older version
	WindowEndedBy time.Time // windows that ended before this moment
	After         AccountID // page: accounts after this one in the order of CompareAccounts
	Limit         int       // 0: 1000
}

// GrantQuery selects grants, newest first; zero fields select all.
type GrantQuery struct {
	ID        ID
	Key       quota.Key // both parts or neither
	Tenant    string
	Dimension string
	Agent     ID
	States    []State
	Before    ID  // page: ids below this one
	Limit     int // 0: 1000
}

// Keeper is the ledger's housekeeping.
type Keeper interface {
	// Verify recomputes every counter from the grants, in one consistent snapshot, and calls
	// found for each difference; progress is called now and then with counts so far.
	Verify(ctx context.Context, found func(Difference), progress func(accounts, grants int)) (Verified, error)
	// Foldable walks the grants of the lowest ids upward: those above after whose id is older
	// than before, at most limit of them (0: 1000). It lists the accounts, in the order of
	// CompareAccounts, of those among them that are settled and were not updated since before,
	// unleased use aside: what Fold may take. The next call goes on after next; it is the nil
	// id when the walk is over. What Fold then refuses stays, and is met in the next walk.
	Foldable(ctx context.Context, before time.Time, after ID, limit int) (accounts []AccountID, next ID, err error)
	// Prune deletes what retention is over for: events and incarnations unseen since, participants,
	// and accounts (with all their records) whose window ended before accountsBefore, or that are
	// Forgettable since.
	Prune(ctx context.Context, recordsBefore, accountsBefore time.Time) (int64, error)
}

// Lines keeps the order in which denied callers take their turns.
type Lines interface {
	// UpdateLine locks a line, reads the clock and the line, runs fn and writes Line.Changes,
	// all or nothing, as Store.Update does with accounts. It touches no account.
	UpdateLine(ctx context.Context, id LineID, fn func(*Line) error) error
	// Lines lists those in which somebody waits, after one in the order of CompareLines, at
	// most limit of them (0: 1000).
	Lines(ctx context.Context, after LineID, limit int) ([]LineState, error)
	// Waiting lists who waits, by line in the order of CompareLines, and by place. It locks
	// nothing.
	Waiting(ctx context.Context, q WaitingQuery) ([]Waiting, error)
}

// WaitingQuery selects tickets of lines; empty names select all.
type WaitingQuery struct {
	Tenant    string
	Operation string
	At        time.Time // those that have lapsed by then are left out
	Limit     int       // 0: 1000
}

// Waiting is a ticket in its line.
type Waiting struct {
	Line  LineID
	Place int // tickets before it
	Ticket
}

// LowestID is the bound between ids by age: those made in an earlier millisecond are below it,
// those made at or after at are not.
func LowestID(at time.Time) ID {
	var id ID
	ms := max(at.UnixMilli(), 0)
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// Verified says how much Verify looked at.
type Verified struct {
	Accounts    int
	Grants      int
	Differences int
}
