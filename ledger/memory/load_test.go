package memory

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func numbered(at time.Time, n uint64) ledger.ID {
	var id ledger.ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|n)
	return id
}

// TestLoadsAreBounded counts what a transaction loads of an account with 3,000 spends, 2,000
// closed leases, 1,500 due ones and 100 live ones.
func TestLoadsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	s := New(func() time.Time { return now })
	id := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "calls"}}
	scope := ledger.Scope{Accounts: []ledger.AccountID{id}}
	terms := ledger.Terms{
		Kind: quota.Period, Class: quota.Bounded, Limit: quota.NoLimit, Budget: quota.NoLimit, TTL: time.Minute, Grace: time.Second,
	}
	made := uint64(0)
	update := func(fn func(*ledger.Book) error) {
		t.Helper()
		if err := s.Update(context.Background(), scope, fn); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(n int) {
		update(func(b *ledger.Book) error {
			for range n {
				made++
				ask := ledger.Ask{ID: numbered(now, made), Account: id, Agent: numbered(now, made%50), Want: 1, Need: 1}
				if _, err := b.Ask(ask, terms, func(ledger.Room) ledger.Units { return 1 }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 3_000 {
		update(func(b *ledger.Book) error {
			made++
			_, err := b.Spend(ledger.Spend{ID: numbered(now, made), Account: id, Agent: numbered(now, 1), Cost: 1}, terms)
			return err
		})
	}
	lease(1_000)
	lease(1_000)
	now = now.Add(time.Hour)
	for range 2 {
		update(func(b *ledger.Book) error { return b.Expire(id) })
	}
	lease(1_500)
	now = now.Add(50 * time.Second)
	lease(100)
	now = now.Add(20 * time.Second)

	old := now.Add(-30 * time.Minute)
	for name, c := range map[string]struct {
		scope ledger.Scope
		want  int
	}{
		"the account":       {ledger.Scope{}, ledger.HeldBatch + ledger.DueBatch},
		"a grant by id":     {ledger.Scope{Grants: []ledger.ID{numbered(start(), 1), numbered(start(), 1)}}, ledger.HeldBatch + ledger.DueBatch + 1},
		"settled grants":    {ledger.Scope{FoldOld: old}, ledger.HeldBatch + ledger.DueBatch + ledger.FoldBatch},
		"all live leases":   {ledger.Scope{Live: true}, ledger.HeldBatch + 1_600},
		"one agent's lease": {ledger.Scope{Agents: []ledger.ID{numbered(start().Add(time.Hour+50*time.Second), 7)}}, ledger.HeldBatch + ledger.DueBatch + 2},
	} {
		c.scope.Accounts = scope.Accounts
		l := s.load(c.scope)
		seen := map[ledger.ID]bool{}
		for i, g := range l.Grants {
			if seen[g.ID] {
				t.Errorf("%s: grant %s is loaded twice", name, g.ID)
			}
			seen[g.ID] = true
			if i > 0 && g.IssuedAt.Before(l.Grants[i-1].IssuedAt) {
				t.Errorf("%s: grants are not oldest first", name)
			}
		}
		if len(l.Grants) != c.want {
			t.Errorf("%s: %d grants loaded, want %d", name, len(l.Grants), c.want)
		}
		if len(l.Participants) != 100 {
			t.Errorf("%s: %d participants, want the 50 of each start that were seen lately", name, len(l.Participants))
		}
	}
}

func start() time.Time { return time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC) }
