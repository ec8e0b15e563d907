package ledgertest

import (
	"strings"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// alike are valid keys that a store might take for one another: joined, folded, normalised,
// trimmed, cut short or matched as a pattern they are the same.
var alike = []quota.Key{
	{Tenant: "a_b", Dimension: "c"}, {Tenant: "a", Dimension: "b_c"}, {Tenant: "a", Dimension: "b"},
	{Tenant: "a/b", Dimension: "c"}, {Tenant: "a.b", Dimension: "c"}, {Tenant: "a%", Dimension: "c"}, {Tenant: "a__", Dimension: "c"},
	{Tenant: "A_b", Dimension: "c"}, {Tenant: "a_b ", Dimension: "c"}, {Tenant: " a_b", Dimension: "c"},
	{Tenant: "ca\u00e9", Dimension: "c"}, {Tenant: "cae\u0301", Dimension: "c"}, {Tenant: "CA\u00c9", Dimension: "c"},
	{Tenant: "\u0430_b", Dimension: "c"}, // the first letter is Cyrillic
	{Tenant: strings.Repeat("x", quota.MaxTenantBytes), Dimension: "c"},
	{Tenant: strings.Repeat("x", quota.MaxTenantBytes-1) + "y", Dimension: "c"},
	{Tenant: "'; --", Dimension: "c"}, {Tenant: `\x00`, Dimension: "c"}, {Tenant: `{"a":1}`, Dimension: "c"},
}

// keysThatLookAlike spends a different amount on each and reads each back alone.
func keysThatLookAlike(r *room) {
	agent := r.id()
	for i, key := range alike {
		if err := key.Validate(); err != nil {
			r.Fatalf("%q: %v", key, err)
		}
		r.account = ledger.AccountID{Key: key}
		r.write(ledger.Scope{}, func(b *ledger.Book) error {
			_, err := b.Open(r.account, r.terms)
			return err
		})
		if ans := r.spend(r.newSpend(agent, ledger.Units(i+1))); !ans.Approved() {
			r.Fatalf("%q: %+v", key, ans.Grant)
		}
	}
	for i, key := range alike {
		if a := r.state(ledger.AccountID{Key: key}); a.Settled() != ledger.Units(i+1) {
			r.Errorf("%q has %d settled, and %d were spent on it", key, a.Settled(), i+1)
		}
		list, err := r.Store.Grants(r.Context(), ledger.GrantQuery{Tenant: key.Tenant, Dimension: key.Dimension})
		r.must(err)
		if len(list) != 1 || list[0].Account.Key != key {
			r.Errorf("%q: %d records, want the one of its spend", key, len(list))
		}
	}
	if list, err := r.Store.Accounts(r.Context(), ledger.AccountQuery{}); err != nil || len(list) != len(alike) {
		r.Errorf("%d accounts of %d keys (%v)", len(list), len(alike), err)
	}
	r.verify()
}
