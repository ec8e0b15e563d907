package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

// maxRounds bounds one sweep, so that a backlog does not keep a stop waiting.
const maxRounds = 64

// largestSweep is how many accounts a transaction of a sweep locks at most.
const largestSweep = 512

// Sweep closes leases and ends slots whose time is over, and says how many. Any number of replicas may
// sweep: the account's lock decides who closes a lease, and the others find it closed. Nobody knows
// how much is due in an account, so it begins with a few of them, and takes twice as many as long as
// each turns out to be little work: after an outage there may be a lease in every account.
func (d *Desk) Sweep(ctx context.Context) (int, error) {
	d.metrics.sweeps.Inc()
	total, accounts := 0, smallTx
	for range maxRounds {
		due, err := d.store.Due(ctx, accounts)
		if err != nil {
			return total, outage("list due leases", err)
		}
		if len(due) == 0 {
			return total, nil
		}
		closed, err := d.expire(ctx, due)
		total += closed
		if accounts = smallTx; closed <= 2*len(due) {
			accounts = min(2*len(due), largestSweep)
		}
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
	var closed, ended, events int
	var units ledger.Units
	var suspect bool
	err := d.store.Update(ctx, ledger.Scope{Accounts: accounts}, func(b *ledger.Book) error {
		closed, ended, units, suspect = 0, 0, 0, b.ClockSuspect()
		for _, id := range accounts {
			if err := b.Expire(id); err != nil {
				return fmt.Errorf("close leases of %s: %w", id, err)
			}
		}
		changes := b.Changes()
		for _, g := range changes.Grants {
			switch t := g.Tally(); g.State {
			case ledger.Closed:
				closed, units = closed+1, units+t.Held+t.Uncertain
			case ledger.Final:
				ended++
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
	return closed + ended, nil
}

// foldRounds bounds the pages of grants that one run of Keep looks at, so that a backlog does
// not keep the rest of the housekeeping waiting; the next run goes on where this one stopped.
// At the standard interval it is 1,700 grants a second for each replica.
const foldRounds = 1024

// Keep folds the records of settled grants that retention is over for, then deletes what no
// longer counts. It is for one caller at a time.
func (d *Desk) Keep(ctx context.Context, k ledger.Keeper, accountRetention time.Duration) error {
	old := d.Now().Add(-d.retention)
	for range foldRounds {
		if err := d.foldPage(ctx, k, old); err != nil {
			return err
		}
		if d.folded.IsNil() {
			break
		}
	}
	if _, err := k.Prune(ctx, old, d.Now().Add(-accountRetention)); err != nil {
		return outage("delete old records", err)
	}
	return nil
}

// foldPage folds the next page of old grants. It moves on before it folds: an account that
// cannot be folded now is met again in the next walk, and hides nothing until then. A page
// holds no more grants than a transaction folds, so one for each of its accounts is enough.
func (d *Desk) foldPage(ctx context.Context, k ledger.Keeper, old time.Time) error {
	accounts, next, err := k.Foldable(ctx, old, d.folded, ledger.FoldBatch)
	if err != nil {
		return outage("list accounts with old records", err)
	}
	d.folded = next
	for _, id := range accounts {
		if err := d.fold(ctx, id, old); err != nil {
			return err
		}
	}
	return nil
}

func (d *Desk) fold(ctx context.Context, id ledger.AccountID, old time.Time) error {
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
	return nil
}
