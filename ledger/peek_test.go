package ledger_test

import (
	"testing"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestPeekTellsWhatASpendWouldBeTold(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.spend(agent(1), 40)
	d.lease(agent(1), 50)
	for _, c := range []struct {
		cost ledger.Units
		want quota.Reason
	}{{1, quota.Allowed}, {10, quota.Allowed}, {11, quota.LeasedOut}, {60, quota.LeasedOut}, {61, quota.Exhausted}, {101, quota.TooLarge}} {
		var got quota.Reason
		d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error { got, _ = b.Peek(d.account, c.cost); return nil }))
		if got != c.want {
			t.Errorf("a cost of %d: %q, want %q", c.cost, got, c.want)
		}
		if c.want != quota.Allowed {
			d.wantReason(d.spend(agent(2), c.cost), c.want)
		}
	}
	d.want(books{S: 40, O: 50, A: 10})
}
