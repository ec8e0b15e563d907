package ledgertest

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func accountPages(r *room) {
	now := time.Now()
	past := quota.NewWindow(now.Add(-2*time.Hour), now.Add(-time.Hour))
	present := quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	var all []ledger.AccountID
	for _, tenant := range []string{"Zeta", "alpha", "alpha-2", "ábc"} {
		for _, w := range []quota.Window{past, present} {
			all = append(all, ledger.AccountID{Key: quota.Key{Tenant: tenant, Dimension: "calls"}, Window: w})
		}
	}
	all = append(all, ledger.AccountID{Key: quota.Key{Tenant: "alpha", Dimension: "bytes"}})
	for i, id := range all {
		if i == len(all)-1 {
			r.terms.PolicyVersion = 2
			r.SetPolicyVersion(2)
		}
		r.account = id
		r.open()
	}
	slices.SortFunc(all, ledger.CompareAccounts)

	var paged []ledger.AccountID
	q := ledger.AccountQuery{Limit: 4}
	for pages := 0; pages < len(all); pages++ {
		page := r.accounts(q)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		q.After = page[len(page)-1]
	}
	if !slices.Equal(paged, all) {
		r.Errorf("in pages of 4:\n%v\nwant\n%v", paged, all)
	}
	for name, c := range map[string]struct {
		q    ledger.AccountQuery
		want func(ledger.AccountID) bool
	}{
		"all":       {ledger.AccountQuery{}, func(ledger.AccountID) bool { return true }},
		"tenant":    {ledger.AccountQuery{Tenant: "alpha"}, func(id ledger.AccountID) bool { return id.Key.Tenant == "alpha" }},
		"dimension": {ledger.AccountQuery{Dimension: "bytes"}, func(id ledger.AccountID) bool { return id.Key.Dimension == "bytes" }},
		"at":        {ledger.AccountQuery{At: now}, func(id ledger.AccountID) bool { return id.Window.Contains(now) }},
		"at a boundary": {
			ledger.AccountQuery{At: present.Start},
			func(id ledger.AccountID) bool { return id.Window == present || id.Window.Endless() },
		},
		"policy": {ledger.AccountQuery{PolicyBefore: 2}, func(id ledger.AccountID) bool { return id.Key.Dimension == "calls" }},
		"ended":  {ledger.AccountQuery{WindowEndedBy: now}, func(id ledger.AccountID) bool { return id.Window == past }},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(id ledger.AccountID) bool { return !c.want(id) })
		if got := r.accounts(c.q); !slices.Equal(got, want) {
			r.Errorf("selected by %s: %v\nwant %v", name, got, want)
		}
	}
}

func (r *room) accounts(q ledger.AccountQuery) []ledger.AccountID {
	r.Helper()
	list, err := r.Store.Accounts(r.Context(), q)
	r.must(err)
	var ids []ledger.AccountID
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

func grantPages(r *room) {
	me, other := r.id(), r.id()
	var all []ledger.Grant
	for i := range 9 {
		agent := me
		if i%3 == 0 {
			agent = other
		}
		r.account = endless([]string{"acme", "globex"}[i%2])
		if i == 8 {
			r.account.Key.Dimension = "bytes"
		}
		g := r.lease(agent, 1)
		if i%4 == 0 {
			r.must(r.report(reportOf(g, 1, 0, 0, true)))
		}
		all = append(all, r.grant(g.ID))
	}
	slices.Reverse(all)

	var paged []ledger.Grant
	q := ledger.GrantQuery{Limit: 4}
	for pages := 0; pages < len(all); pages++ {
		page, err := r.Store.Grants(r.Context(), q)
		r.must(err)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		q.Before = page[len(page)-1].ID
	}
	if !slices.Equal(paged, all) {
		r.Errorf("in pages of 4:\n%v\nwant\n%v", paged, all)
	}
	for name, c := range map[string]struct {
		q    ledger.GrantQuery
		want func(ledger.Grant) bool
	}{
		"id":        {ledger.GrantQuery{ID: all[3].ID}, func(g ledger.Grant) bool { return g == all[3] }},
		"key":       {ledger.GrantQuery{Key: endless("acme").Key}, func(g ledger.Grant) bool { return g.Account == endless("acme") }},
		"tenant":    {ledger.GrantQuery{Tenant: "acme"}, func(g ledger.Grant) bool { return g.Account.Key.Tenant == "acme" }},
		"dimension": {ledger.GrantQuery{Dimension: "bytes"}, func(g ledger.Grant) bool { return g.Account.Key.Dimension == "bytes" }},
		"agent":     {ledger.GrantQuery{Agent: me}, func(g ledger.Grant) bool { return g.Agent == me }},
		"states": {
			ledger.GrantQuery{States: []ledger.State{ledger.Final, ledger.Denied}},
			func(g ledger.Grant) bool { return g.State == ledger.Final },
		},
		"two at once": {
			ledger.GrantQuery{Agent: me, States: []ledger.State{ledger.Live}},
			func(g ledger.Grant) bool { return g.Agent == me && g.State == ledger.Live },
		},
		"nobody": {ledger.GrantQuery{Agent: r.id()}, func(ledger.Grant) bool { return false }},
	} {
		got, err := r.Store.Grants(r.Context(), c.q)
		r.must(err)
		want := slices.DeleteFunc(slices.Clone(all), func(g ledger.Grant) bool { return !c.want(g) })
		if !slices.Equal(got, want) {
			r.Errorf("selected by %s: %v\nwant %v", name, got, want)
		}
	}
}

func eventPages(r *room) {
	for range 5 {
		g := r.lease(r.id(), 1)
		r.must(r.update(ledger.Scope{Grants: []ledger.ID{g.ID}}, func(b *ledger.Book) error {
			_, err := b.Revoke(g.ID, "test")
			return err
		}))
	}
	var (
		after int64
		seen  []ledger.ID
	)
	for pages := 0; pages < 5; pages++ {
		page, err := r.Store.Events(r.Context(), after, 2)
		r.must(err)
		if len(page) > 2 {
			r.Fatalf("%d events in a page of 2", len(page))
		}
		for _, e := range page {
			if e.ID <= after || e.Kind != ledger.EventRevoked || e.At.IsZero() {
				r.Errorf("event %+v after %d", e, after)
			}
			after = e.ID
			seen = append(seen, e.Grant)
		}
	}
	want := r.live()
	slices.Reverse(want)
	if !slices.Equal(seen, want) {
		r.Errorf("events of %v, want %v", seen, want)
	}
}
