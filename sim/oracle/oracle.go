package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Promise names what was broken. Shrinking a history keeps the promise.
type Promise string

// The promises, with their places in DESIGN.
const (
	Accounted      Promise = "use is accounted for"                                 // 3.3, first form
	WithinLimit    Promise = "use is within the largest limit and U"                // 3.3, second form
	WithinInterval Promise = "use in any interval is within burst, rate and budget" // 3.9
	Conserved      Promise = "every unit is in one place"                           // 3.6
	Headroom       Promise = "a grant is within the headroom"                       // 3.1
	Exposed        Promise = "exposure is within the budget"                        // 3.4
	Released       Promise = "only what the class allows is given back"             // 3.2
	Reasoned       Promise = "a denial has its reason"                              // 3.5
	Committed      Promise = "committed and overshoot are recorded"                 // 3.8
	Remembered     Promise = "a remembered denial goes with the news of growth"     // 5
	Potted         Promise = "allowances for outages are within their pot"          // 6
	Stated         Promise = "statements say what the ledger knows"                 // 7
	Grown          Promise = "growth raises the generation"                         // 1
	InForce        Promise = "decisions are made under the policy in force"         // 2
	InWindow       Promise = "nothing crosses a window"                             // 4.6
	Ratcheted      Promise = "time never goes back for an account"                  // 4.1
	Trusted        Promise = "clocks that disagree decide nothing"                  // 4.1
	Fresh          Promise = "a spend is void after its time"                       // 3.14
	Found          Promise = "a copy becomes another incarnation"                   // 3.15
	SameAnswer     Promise = "an id keeps its answer"                               // 3.10
	Kept           Promise = "a record of what is open is kept"                     // 3.10
	Closes         Promise = "a lease closes at its end and grace"                  // 4.3
	Stops          Promise = "an agent stops before the ledger closes"              // 4.2
	Sealed         Promise = "final is final"                                       // 3.11
	Cumulative     Promise = "reports never fall and say what was taken"            // 3.11
	Backed         Promise = "what is allowed is backed by a grant"                 // 2
	OneAsk         Promise = "one ask is in flight a key"                           // 3.10
	OneAnswer      Promise = "a caller gets one answer"                             // 8
	AllOrNone      Promise = "several keys are taken all or none"                   // 5
	Served         Promise = "who asks for what is free is served"                  // liveness
	Settled        Promise = "at rest what was used is settled"                     // 3.3
	Stopped        Promise = "a graceful stop gives back everything"                // 5
	Rests          Promise = "everything comes to rest"                             // liveness
	Works          Promise = "nothing breaks"                                       // the program itself
	UnleasedOnly   Promise = "hard and exact never go on without a lease"           // 5, 6
)

// Fault is a broken promise.
type Fault struct {
	Promise Promise
	At      time.Duration
	What    string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s (at %s)", f.Promise, f.What, f.At) }

// Moment is when something happened: in true time since the beginning, and by the ledger's
// clock, which may jump.
type Moment struct {
	At      time.Duration
	Ledger  time.Time
	Suspect bool // of a transaction: the clocks of database and replica disagree
}

// Terms says what the policy in force allows a key in a window; false if it has no such key.
type Terms func(key quota.Key, window quota.Window) (ledger.Terms, bool)

// Oracle watches one ledger. Its methods tell it what happened, in the order in which it did.
type Oracle struct {
	drift    int64 // most that an agent's clock runs slow, in ppm
	version  int64 // in force
	terms    Terms
	accounts map[ledger.AccountID]*account
	grants   map[ledger.ID]*grant
	holders  map[holding]*held
	dead     map[ledger.ID]bool // incarnations that were lost or copied
	shared   map[ledger.ID]bool // asks and spends in flight when their agent was copied
	refused  map[ledger.ID]bool // asks and spends that policy did not admit
	fault    *Fault

	denials bool // the transaction at hand denied something for a reason of its own
}

// New returns an oracle for a world whose agents' clocks run slow by at most drift ppm.
func New(drift int64) *Oracle {
	return &Oracle{
		drift: drift, accounts: map[ledger.AccountID]*account{}, grants: map[ledger.ID]*grant{},
		holders: map[holding]*held{}, dead: map[ledger.ID]bool{}, shared: map[ledger.ID]bool{}, refused: map[ledger.ID]bool{},
	}
}

// Fault is the first promise that was broken, or nil.
func (o *Oracle) Fault() *Fault { return o.fault }

// Break records a broken promise that its caller found.
func (o *Oracle) Break(at time.Duration, p Promise, format string, args ...any) {
	if o.fault == nil {
		o.fault = &Fault{Promise: p, At: at, What: fmt.Sprintf(format, args...)}
	}
}

// Policy tells which version is in force from now on, and its terms.
func (o *Oracle) Policy(version int64, terms Terms) { o.version, o.terms = version, terms }

// account is what the oracle knows of one account.
type account struct {
	row ledger.Account // as last committed
	sum places         // of all grants
	use Use

	judge     judge
	moved     int64 // from H to U, by the transaction at hand
	freed     int64 // of that, by an operator
	credit    int64 // that operators gave
	largest   int64 // largest Q + U at a grant or spend
	committed int64
	overshoot int64

	allowances  map[ledger.ID]ledger.ID // the latest of each agent
	stated      ledger.Statement        // the latest
	settledOnce bool                    // nothing was open after its window was closed
	over        int64                   // that reservations which were settled with less may have left charged
	lossy       bool                    // an agent that had to do with it was lost or copied
	without     map[ledger.ID]bool      // incarnations that used it without a lease
}

// Use is what callers were really allowed in one account.
type Use struct {
	Leased   int64 // from leases
	Spent    int64 // through the exact lane
	Unleased int64 // without a lease
	Extended int64 // from allowances for outages
	Copied   int64 // the most that copies of agents may spend twice
}

// Total is T.
func (u Use) Total() int64 { return u.Leased + u.Spent + u.Unleased + u.Extended }

// State is what the oracle knows of an account, for questions and for comparing worlds.
type State struct {
	Use
	Row   ledger.Account // as last committed
	Lossy bool           // what was lost with an agent is held or uncertain for good
}

// State returns what is known of an account.
func (o *Oracle) State(id ledger.AccountID) (State, bool) {
	a, ok := o.accounts[id]
	if !ok {
		return State{}, false
	}
	return State{Use: a.use, Row: a.row, Lossy: a.lossy}, true
}

func (o *Oracle) account(id ledger.AccountID) *account {
	a, ok := o.accounts[id]
	if !ok {
		a = &account{row: ledger.Account{ID: id}, judge: period{}, without: map[ledger.ID]bool{}}
		o.accounts[id] = a
	}
	return a
}

// order lists the accounts in one order, so that the first fault found is always the same.
func (o *Oracle) order() []ledger.AccountID {
	return slices.SortedFunc(maps.Keys(o.accounts), ledger.CompareAccounts)
}

// Accounts lists the accounts that anything happened in.
func (o *Oracle) Accounts() []ledger.AccountID { return o.order() }
