package ledgertest

import (
	"slices"

	"github.com/quotalease/quotalease/ledger"
)

// holdings: live leases are summed up by agent, and only those.
func holdings(r *room) {
	r.open()
	first, second := r.id(), r.id() // UUIDv7: in this order
	asks := []ledger.Ask{r.newAsk(first, 10), r.newAsk(first, 20), r.newAsk(second, 5), r.newAsk(second, 7)}
	answers, err := r.tryAsk(asks...)
	r.must(err)
	r.must(r.update(ledger.Scope{Grants: []ledger.ID{asks[1].ID, asks[2].ID}}, func(b *ledger.Book) error {
		if _, err := b.Report(ledger.Report{ID: asks[1].ID, Account: r.account, Agent: first, Taken: 4}); err != nil {
			return err
		}
		_, err := b.Report(ledger.Report{ID: asks[2].ID, Account: r.account, Agent: second, Taken: 2, Returned: 3, Final: true})
		return err
	}))
	got, err := r.Store.Holdings(r.Context())
	r.must(err)
	want := []ledger.Holding{{Agent: first, Leases: 2, Outstanding: 26}, {Agent: second, Leases: 1, Outstanding: 7}}
	if !slices.Equal(got, want) {
		r.Errorf("after %d answers the agents hold %+v, want %+v", len(answers), got, want)
	}
}
