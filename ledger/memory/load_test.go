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

// crowd is an account with 3,000 spends, 2,000 closed leases, 1,500 due ones and 100 live ones.
type crowd struct {
	*testing.T
	*Store
	now  time.Time
	id   ledger.AccountID
	made uint64
}

func (c *crowd) update(fn func(*ledger.Book) error) {
	c.Helper()
	if err := c.Update(context.Background(), ledger.Scope{Accounts: []ledger.AccountID{c.id}}, fn); err != nil {
		c.Fatal(err)
	}
}

var loose = ledger.Terms{
	Kind: quota.Period, Class: quota.Bounded, Limit: quota.NoLimit, Budget: quota.NoLimit, TTL: time.Minute, Grace: time.Second,
}

func (c *crowd) lease(n int) {
	c.Helper()
	c.update(func(b *ledger.Book) error {
		for range n {
			c.made++
			ask := ledger.Ask{ID: numbered(c.now, c.made), Account: c.id, Agent: numbered(c.now, c.made%50), Want: 1, Need: 1}
			if _, err := b.Ask(ask, loose, func(ledger.Room) ledger.Units { return 1 }); err != nil {
				return err
			}
		}
		return nil
	})
}

func gather(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{T: t, now: start(), id: ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "calls"}}}
	c.Store = New(func() time.Time { return c.now })
	for range 3_000 {
		c.update(func(b *ledger.Book) error {
			c.made++
			_, err := b.Spend(ledger.Spend{ID: numbered(c.now, c.made), Account: c.id, Agent: numbered(c.now, 1), Cost: 1}, loose)
			return err
		})
	}
	c.lease(1_000)
	c.lease(1_000)
	c.now = c.now.Add(time.Hour)
	for range 2 {
		c.update(func(b *ledger.Book) error { return b.Expire(c.id) })
	}
	c.lease(1_500)
	c.now = c.now.Add(50 * time.Second)
	c.lease(100)
	c.now = c.now.Add(20 * time.Second)
	return c
}

func TestLoadsAreBounded(t *testing.T) {
	t.Parallel()
	s := gather(t)
	old := s.now.Add(-30 * time.Minute)
	for name, c := range map[string]struct {
		scope ledger.Scope
		want  int
	}{
		"the account":       {ledger.Scope{}, ledger.HeldBatch + ledger.DueBatch},
		"a grant by id":     {ledger.Scope{Grants: []ledger.ID{numbered(start(), 1), numbered(start(), 1)}}, ledger.HeldBatch + ledger.DueBatch + 1},
		"settled grants":    {ledger.Scope{FoldOld: old}, ledger.HeldBatch + ledger.DueBatch + ledger.FoldBatch},
		"all live leases":   {ledger.Scope{Live: true}, ledger.HeldBatch + 1_600},
		"one agent's lease": {ledger.Scope{Holders: []ledger.Holder{{Account: s.id, Agent: numbered(start().Add(time.Hour+50*time.Second), 7)}}}, ledger.HeldBatch + ledger.DueBatch + 2},
	} {
		c.scope.Accounts = []ledger.AccountID{s.id}
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
		if all := l.Participants[s.id.Key]; len(all) == 0 || &all[0] != &s.participants[s.id.Key].list[0] {
			t.Errorf("%s: participants are copied", name)
		}
	}
}

func start() time.Time { return time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC) }
