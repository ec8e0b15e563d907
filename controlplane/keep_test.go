package controlplane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// use leases one unit for each of n tenants and reports it used.
func (a *agent) use(name string, n int) {
	a.t.Helper()
	for i := range n {
		key := &pb.Key{Tenant: fmt.Sprintf("%s-%d", name, i), Dimension: "small"}
		ask := &pb.Ask{GrantId: a.id().Bytes(), Key: key, Want: 1, Need: 1}
		d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
		a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, key)}})
	}
}

// keep runs housekeeping once and counts its transactions.
func (w *world) keep(k ledger.Keeper) int64 {
	w.t.Helper()
	before := w.store.updates.Load()
	if err := w.cp.desk.Keep(w.t.Context(), k, w.cp.cfg.AccountRetention); err != nil {
		w.t.Error(err)
	}
	return w.store.updates.Load() - before
}

func TestKeepTouchesOnlyAccountsWithOldGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().use("old", 3)
	w.agent().lease("report_export", 1) // never reported: it stays
	w.ledger.move(31 * 24 * time.Hour)
	if _, err := w.cp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.agent().use("young", 50)
	if n := w.keep(w.store); n != 3 {
		t.Errorf("%d transactions over %d accounts, want one for each of the 3 with old grants", n, w.accountCount())
	}
	if got := w.metric("grants_folded_total"); got != 3 {
		t.Errorf("%v grants folded, want 3", got)
	}
	if n := w.keep(w.store); n != 0 {
		t.Errorf("%d transactions when all is done, want none", n)
	}
	w.verified()
}

func TestKeepFoldsManyGrantsOfOneAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	const many = 2*ledger.FoldBatch + 500
	spender := w.id()
	id := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "big"}}
	terms := ledger.Terms{PolicyVersion: 1, Kind: quota.Period, Class: quota.Hard, Limit: quota.NoLimit, Budget: quota.NoLimit,
		TTL: time.Minute, Grace: time.Second}
	err := w.store.Update(t.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
		for range many {
			if _, err := b.Spend(ledger.Spend{ID: w.id(), Account: id, Agent: spender, Cost: 1}, terms); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.agent().use("behind", 1)
	w.ledger.move(31 * 24 * time.Hour)
	if n := w.keep(w.store); n != 4 {
		t.Errorf("%d transactions, want 3 of the one account and 1 of the other", n)
	}
	if got := w.metric("grants_folded_total"); got != many+1 {
		t.Errorf("%v grants folded, want %d", got, many+1)
	}
	w.verified()
}

// endlessKeeper lists one account on every page of a walk without end.
type endlessKeeper struct {
	ledger.Keeper
	account ledger.AccountID
	serial  uint64
	asked   []ledger.ID
}

func (k *endlessKeeper) Foldable(
	_ context.Context, before time.Time, after ledger.ID, _ int,
) ([]ledger.AccountID, ledger.ID, error) {
	k.asked = append(k.asked, after)
	k.serial++
	return []ledger.AccountID{k.account}, ledger.LowestID(before.Add(time.Duration(k.serial) * time.Millisecond)), nil
}

func TestKeepGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().use("young", 1)
	found, err := w.store.Accounts(t.Context(), ledger.AccountQuery{})
	if err != nil {
		t.Fatal(err)
	}
	k := &endlessKeeper{Keeper: w.store, account: found[0].ID} // of which there is nothing to fold
	for range 2 {
		if n := w.keep(k); n != foldRounds {
			t.Errorf("%d transactions, want one for each of %d pages", n, foldRounds)
		}
	}
	seen := map[ledger.ID]bool{}
	for i, after := range k.asked {
		if seen[after] || after.IsNil() != (i == 0) {
			t.Fatalf("page %d goes on after %s again", i, after)
		}
		seen[after] = true
	}
}

func TestKeepMovesOnFromWhatItCannotFold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().use("old", 1)
	w.ledger.move(31 * 24 * time.Hour)
	w.store.before = func(s ledger.Scope) ledger.Scope {
		s.FoldOld = time.Time{} // the grants are not found: they were touched since
		return s
	}
	if n := w.keep(w.store); n != 1 {
		t.Errorf("%d transactions, want one that folds nothing", n)
	}
	w.store.before = nil
	if n, folded := w.keep(w.store), w.metric("grants_folded_total"); n != 1 || folded != 1 {
		t.Errorf("%d transactions and %v grants folded the next time, want 1 and 1", n, folded)
	}
}

func TestKeepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().use("old", 5)
	w.ledger.move(31 * 24 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := w.store.updates.Load()
	w.store.before = func(s ledger.Scope) ledger.Scope { cancel(); return s }
	if err := w.cp.Keep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("keep: %v, want that it was cancelled", err)
	}
	if n := w.store.updates.Load() - before; n != 1 {
		t.Errorf("%d transactions begun, want no other after the stop", n)
	}
	w.store.before = nil
	if n, folded := w.keep(w.store), w.metric("grants_folded_total"); n != 5 || folded != 5 {
		t.Errorf("%d transactions and %v grants folded the next time, want 5 and 5", n, folded)
	}
}
