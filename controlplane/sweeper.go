package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// maxRounds bounds one sweep, so that a backlog does not keep a stop waiting.
const maxRounds = 64

// Sweep closes leases whose time is over, and says how many. Any number of replicas may
// sweep: the account's lock decides who closes a lease, and the others find it closed.
func (d *Desk) Sweep(ctx context.Context) (int, error) {
	d.metrics.sweeps.Inc()
	total := 0
	for range maxRounds {
		due, err := d.store.Due(ctx, smallTx)
		if err != nil {
			return total, outage("list due leases", err)
		}
		if len(due) == 0 {
			return total, nil
		}
		closed, err := d.expire(ctx, due)
		total += closed
		if err != nil {
			return total, err
		}
		if closed == 0 {
			return total, nil // another replica was faster, or the clocks disagree
		}
	}
	return total, nil
}

func (d *Desk) expire(ctx context.Context, accounts []ledger.AccountID) (int, error) {
	var closed, events int
	var units ledger.Units
	var suspect bool
	err := d.store.Update(ctx, ledger.Scope{Accounts: accounts}, func(b *ledger.Book) error {
		closed, units, suspect = 0, 0, b.ClockSuspect()
		for _, id := range accounts {
			if err := b.Expire(id); err != nil {
				return fmt.Errorf("close leases of %s: %w", id, err)
			}
		}
		changes := b.Changes()
		for _, g := range changes.Grants {
			if g.State == ledger.Closed {
				t := g.Tally()
				closed, units = closed+1, units+t.Held+t.Uncertain
			}
		}
		events = len(changes.Events)
		return nil
	})
	if err != nil {
		return 0, commitError("close due leases", err)
	}
	d.metrics.suspect(suspect)
	d.metrics.closed.Add(float64(closed))
	d.metrics.expired.Add(float64(units))
	if events > 0 {
		d.kick()
	}
	return closed, nil
}

// Keep folds the records of settled grants that retention is over for, then deletes what no
// longer counts.
func (d *Desk) Keep(ctx context.Context, r ledger.Reader, k ledger.Keeper, accountRetention time.Duration) error {
	old := d.Now().Add(-d.retention)
	q := ledger.AccountQuery{Limit: page}
	for {
		accounts, err := r.Accounts(ctx, q)
		if err != nil {
			return outage("list accounts", err)
		}
		for _, a := range accounts {
			if err := d.fold(ctx, a.ID, old); err != nil {
				return err
			}
		}
		if len(accounts) < page {
			break
		}
		q.After = accounts[len(accounts)-1].ID
	}
	if _, err := k.Prune(ctx, old, d.Now().Add(-accountRetention)); err != nil {
		return outage("delete old records", err)
	}
	return nil
}

func (d *Desk) fold(ctx context.Context, id ledger.AccountID, old time.Time) error {
	for {
		n := 0
		err := d.store.Update(ctx, ledger.Scope{Accounts: []ledger.AccountID{id}, FoldOld: old}, func(b *ledger.Book) error {
			var err error
			n, err = b.Fold(id, old)
			return err
		})
		if err != nil {
			return commitError("fold old records", err)
		}
		d.metrics.folded.Add(float64(n))
		if n < ledger.FoldBatch {
			return nil
		}
	}
}
