package explore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// books is what the ledger holds, as last read. It is read anew after each transaction.
type books struct {
	accounts     []ledger.Account // by window
	grants       []ledger.Grant   // oldest decision first
	incarnations []ledger.Incarnation
	wanted       map[ledger.ID]ledger.Units // what each agent that takes part last asked for
}

func (s *state) read() *books {
	ctx, store := context.Background(), s.store()
	var b books
	var errs [3]error
	b.accounts, errs[0] = store.Accounts(ctx, ledger.AccountQuery{})
	b.grants, errs[1] = store.Grants(ctx, ledger.GrantQuery{})
	b.incarnations, errs[2] = store.Incarnations(ctx, time.Time{})
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
	return s.store().Update(ctx, ledger.Scope{Accounts: []ledger.AccountID{a.ID}}, func(book *ledger.Book) error {
		all, most := wantedBy(book.Others(key, ledger.ID{}, a.Terms))
		for _, inc := range b.incarnations {
			if others, n := wantedBy(book.Others(key, inc.ID, a.Terms)); n < most {
				b.wanted[inc.ID] = all - others
			}
		}
		return nil
	})
}

func wantedBy(list iter.Seq2[ledger.Demand, int]) (sum ledger.Units, n int) {
	for d, agents := range list {
		sum += d.Units * ledger.Units(agents)
		n += agents
	}
	return sum, n
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
