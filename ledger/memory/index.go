package memory

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// record is a grant as stored, with the tally that Verify holds against it.
type record struct {
	grant ledger.Grant
	tally ledger.Tally
	in    []*index // all that it is in, that of all ids aside
	room  [4]*index
	load  int64 // the latest that took it
}

func newRecord() *record {
	r := &record{}
	r.in = r.room[:0]
	return r
}

// join puts the record into an index.
func (r *record) join(ix *index) {
	ix.add(r)
	r.in = append(r.in, ix)
}

// leave takes the record out of all indexes.
func (r *record) leave() {
	for _, ix := range r.in {
		ix.remove(r)
	}
	r.in = r.in[:0]
}

// ends reports slots of a closed lease, which time ends.
func (r *record) ends() bool {
	return r.grant.State == ledger.Closed && r.grant.Kind == ledger.KindSlots
}

// index is a sorted list of records. Order must not depend on anything that changes while a
// record is in it: store.put takes a record out before it changes and puts it back after.
type index struct {
	order func(x, y *record) int
	list  []*record
}

func (ix *index) add(r *record) {
	if n := len(ix.list); n == 0 || ix.order(ix.list[n-1], r) < 0 { // who comes last is mostly the last
		ix.list = append(ix.list, r)
		return
	}
	at, _ := slices.BinarySearchFunc(ix.list, r, ix.order)
	ix.list = slices.Insert(ix.list, at, r)
}

func (ix *index) remove(r *record) {
	at, ok := slices.BinarySearchFunc(ix.list, r, ix.order)
	switch {
	case !ok:
	case at < len(ix.list)/2: // who came first mostly goes first
		copy(ix.list[1:], ix.list[:at])
		ix.list[0] = nil
		ix.list = ix.list[1:]
	default:
		ix.list = slices.Delete(ix.list, at, at+1)
	}
}

func soonestClosed(x, y *record) int { return earlier(x.grant.ClosesAt, y.grant.ClosesAt, x, y) }

func soonestEnded(x, y *record) int { return earlier(x.grant.EndsAt, y.grant.EndsAt, x, y) }

func oldestIssued(x, y *record) int { return earlier(x.grant.IssuedAt, y.grant.IssuedAt, x, y) }

func longestUntouched(x, y *record) int { return earlier(x.grant.UpdatedAt, y.grant.UpdatedAt, x, y) }

// earlier orders by a time. Times differ as a rule: only of one moment are the ids compared.
func earlier(xAt, yAt time.Time, x, y *record) int {
	if c := xAt.Compare(yAt); c != 0 {
		return c
	}
	return byID(x, y)
}

func byID(x, y *record) int { return ledger.CompareIDs(x.grant.ID, y.grant.ID) }

// account is an account as stored, with its grants in the orders in which they are asked for.
type account struct {
	row    ledger.Account
	folded ledger.Tally // of grants that Fold removed

	limits     []ledger.LimitChange
	statements []ledger.Statement // by revision

	all     map[ledger.ID]*record
	live    index                // soonest to close first
	ending  index                // slots of closed leases, soonest to end first
	held    index                // with units in H that may move, oldest first
	old     index                // that may be folded, longest untouched first
	ofAgent map[ledger.ID]*index // live leases, of each agent that ever had one
}

func newAccount(id ledger.AccountID) *account {
	return &account{
		row:     ledger.Account{ID: id},
		all:     map[ledger.ID]*record{},
		live:    index{order: soonestClosed},
		ending:  index{order: soonestEnded},
		held:    index{order: oldestIssued},
		old:     index{order: longestUntouched},
		ofAgent: map[ledger.ID]*index{},
	}
}

func (a *account) add(r *record) {
	if r.grant.Foldable(a.row.Kind) {
		r.join(&a.old)
	}
	if r.tally.Held > 0 && a.row.Kind != quota.RateLimit {
		r.join(&a.held)
	}
	if r.ends() {
		r.join(&a.ending)
	}
	if r.grant.State != ledger.Live {
		return
	}
	r.join(&a.live)
	of, ok := a.ofAgent[r.grant.Agent]
	if !ok {
		of = &index{order: byID}
		a.ofAgent[r.grant.Agent] = of
	}
	r.join(of)
}
