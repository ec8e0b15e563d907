package controlplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/ledger"
)

// Sizes of the reads and transactions of housekeeping. Small ones let requests in between.
const (
	page      = 256
	smallTx   = 32
	revokeTx  = 256
	adminPage = 1000
)

// Reconcile brings every account whose window is open to the policy in force, a few in each
// transaction. A raise grows the account's generation, which agents are told; a cut that
// leaves no headroom recalls what is out. Leases of keys that policy no longer admits are
// revoked. Accounts that a Sync opened first are done already, recall included.
func (d *Desk) Reconcile(ctx context.Context, r ledger.Reader) error {
	s := d.policies.snapshot()
	if s == nil {
		return nil
	}
	q := ledger.AccountQuery{PolicyBefore: s.Version, At: d.Now(), Limit: page}
	for {
		accounts, err := r.Accounts(ctx, q)
		if err != nil {
			return outage("list accounts of older policies", err)
		}
		var known []*place
		for _, a := range accounts {
			at := resolve(s, a.ID.Key, q.At)
			if at.fault == nil && at.account == a.ID {
				known = append(known, at)
				continue
			}
			// Neither the key's terms nor its window are what they were.
			note := fmt.Sprintf("policy version %d has no such quota", s.Version)
			query := ledger.GrantQuery{Key: a.ID.Key, States: []ledger.State{ledger.Live}}
			if _, err := d.revoke(ctx, r, query, note, func(g ledger.Grant) bool { return g.Account == a.ID }); err != nil {
				return err
			}
		}
		if err := d.reopen(ctx, known); err != nil {
			return err
		}
		if len(accounts) < page {
			return nil
		}
		q.After = accounts[len(accounts)-1].ID
	}
}

// reopen opens accounts under their new terms, a few at a time.
func (d *Desk) reopen(ctx context.Context, known []*place) error {
	for len(known) > 0 {
		part := known[:min(smallTx, len(known))]
		known = known[len(part):]
		scope := ledger.Scope{Live: true}
		for _, at := range part {
			scope.Accounts = append(scope.Accounts, at.account)
		}
		var events []ledger.Event
		err := d.store.Update(ctx, scope, func(b *ledger.Book) error {
			for _, at := range part {
				before, _ := b.Account(at.account)
				if err := openAndRecall(b, before, at.terms, true); err != nil {
					return err
				}
			}
			events = b.Events()
			return nil
		})
		if errors.Is(err, ledger.ErrStalePolicy) {
			return err // a newer version is on its way here
		}
		if err != nil {
			return commitError("open accounts under a new policy", err)
		}
		d.metrics.recalled.Add(float64(revoked(events)))
		if len(events) > 0 {
			d.kick()
		}
	}
	return nil
}

// revoked counts the leases that a transaction revoked.
func revoked(events []ledger.Event) int {
	n := 0
	for _, e := range events {
		if e.Kind == ledger.EventRevoked {
			n++
		}
	}
	return n
}

// revoke revokes the live leases that a query finds and pick takes, and counts them.
func (d *Desk) revoke(ctx context.Context, r ledger.Reader, q ledger.GrantQuery, note string, pick func(ledger.Grant) bool) (int, error) {
	total := 0
	q.Limit = revokeTx
	for {
		grants, err := r.Grants(ctx, q)
		if err != nil {
			return total, outage("list live leases", err)
		}
		var part []ledger.Grant
		for _, g := range grants {
			if pick(g) {
				part = append(part, g)
			}
		}
		n, err := d.revokeGrants(ctx, part, note)
		total += n
		if err != nil || len(grants) < revokeTx {
			return total, err
		}
		q.Before = grants[len(grants)-1].ID
	}
}

// revokeGrants revokes leases in one transaction.
func (d *Desk) revokeGrants(ctx context.Context, grants []ledger.Grant, note string) (int, error) {
	if len(grants) == 0 {
		return 0, nil
	}
	var scope ledger.Scope
	for _, g := range grants {
		scope.Accounts = append(scope.Accounts, g.Account)
		scope.Grants = append(scope.Grants, g.ID)
	}
	n := 0
	err := d.store.Update(ctx, scope, func(b *ledger.Book) error {
		n = 0
		for _, g := range grants {
			was, err := b.Revoke(g.ID, note)
			if err != nil {
				return fmt.Errorf("revoke %s: %w", g.ID, err)
			}
			if was {
				n++
			}
		}
		return nil
	})
	if err != nil {
		return 0, commitError("revoke leases", err)
	}
	d.metrics.recalled.Add(float64(n))
	if n > 0 {
		d.kick()
	}
	return n, nil
}
