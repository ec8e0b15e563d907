package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// used leases n units, reports half of them used and returns the grant.
func (f *fixture) used(id ledger.AccountID, n ledger.Units) ledger.Grant {
	f.Helper()
	a := ask(f, id, n)
	_, err := lease(f.Context(), f.store, []ledger.Ask{a}, terms())
	f.must(err)
	scope := ledger.Scope{Accounts: []ledger.AccountID{id}, Grants: []ledger.ID{a.ID}}
	var g ledger.Grant
	f.must(f.store.Update(f.Context(), scope, func(b *ledger.Book) (err error) {
		g, err = b.Report(ledger.Report{ID: a.ID, Account: id, Agent: a.Agent, Taken: n / 2})
		return err
	}))
	return g
}

// One counter changed by hand, in any of three places, is found and named.
func TestVerifyFindsOneChangedCounter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change, named string
		ofGrant       bool
	}{
		{"UPDATE lease_grant SET consumed_reported = consumed_reported + 1 WHERE id = $1", "consumed_reported", true},
		{"UPDATE lease_grant SET taken = taken + 1 WHERE id = $1", "consumed_reported", true},
		{"UPDATE account SET held = held + 1 WHERE id = (SELECT account_id FROM lease_grant WHERE id = $1)", "held", false},
		{"UPDATE lease_grant SET account_id = -1 WHERE id = $1", "grants, those without an account included", false},
	} {
		t.Run(c.change, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			g := f.used(endless("victim"), 10)
			f.used(endless("bystander"), 10)
			f.verified()
			f.exec(c.change, g.ID)
			var found []ledger.Difference
			v, err := f.store.Verify(f.Context(), func(d ledger.Difference) { found = append(found, d) }, func(int, int) {})
			f.must(err)
			named := false
			for _, d := range found {
				if d.Counter == c.named && (!c.ofGrant || d.Grant == g.ID) {
					named = true
				}
				if strings.Contains(d.String(), "bystander") {
					t.Errorf("an account that nobody changed is blamed: %s", d)
				}
			}
			if !named || v.Differences != len(found) {
				t.Errorf("differences (%d counted): %v, want one of %s", v.Differences, found, c.named)
			}
		})
	}
}

// More accounts than Verify holds at a time, some without grants.
func TestVerifyPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.used(endless("first"), 10)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end)
		SELECT 'empty' || n, 'calls', '-infinity', 'infinity' FROM generate_series(1, 1200) AS n`)
	f.used(endless("last"), 10)
	calls := 0
	v, err := f.store.Verify(f.Context(), func(d ledger.Difference) { t.Error(d) }, func(int, int) { calls++ })
	f.must(err)
	if v.Accounts != 1202 || v.Grants != 2 || calls != 3 {
		t.Errorf("verified %d accounts and %d grants, told of %d times, want 1202, 2 and 3", v.Accounts, v.Grants, calls)
	}
}

func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	today := ledger.AccountID{
		Key:    quota.Key{Tenant: "today", Dimension: "calls"},
		Window: quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour)),
	}
	f.used(today, 10)
	f.used(endless("endless"), 10)
	f.exec(`INSERT INTO account (tenant, dimension, window_start, window_end)
		SELECT 'old' || n, 'calls', '2020-01-01Z', '2020-01-02Z' FROM generate_series(1, 150) AS n`)
	f.exec(`INSERT INTO event (at, window_start, window_end, units, generation, kind, tenant, dimension, note)
		SELECT '2020-01-01Z', '-infinity', 'infinity', 0, 0, 'grew', 'a', 'b', '' FROM generate_series(1, 2500)`)
	f.exec(`INSERT INTO participant (tenant, dimension, agent, last_seen)
		SELECT 'a', 'b', gen_random_uuid(), '2020-01-01Z' FROM generate_series(1, 1500)`)
	f.exec(`INSERT INTO incarnation (id, name, region, started_at, last_seen, policy_version, tokens)
		SELECT gen_random_uuid(), '', '', '2020-01-01Z', '2020-01-01Z', 1, '{}' FROM generate_series(1, 20)`)
	n, err := f.store.Prune(f.Context(), now.Add(-time.Hour), now.Add(-time.Hour))
	f.must(err)
	if want := int64(150 + 2500 + 1500 + 20); n != want {
		t.Errorf("pruned %d rows, want %d", n, want)
	}
	if n := f.number("SELECT count(*) FROM account"); n != 2 {
		t.Errorf("%d accounts are left, want today's and the endless one", n)
	}
	if n := f.number("SELECT count(*) FROM participant"); n != 2 {
		t.Errorf("%d participants are left, want the 2 that were seen just now", n)
	}
	f.verified()
}

// Windows without beginning or end, and those with both, come back as they went in.
func TestInfinityWindows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	key := quota.Key{Tenant: "ünïcode/with a slash", Dimension: "calls"}
	for _, window := range []quota.Window{{}, quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour+time.Microsecond))} {
		id := ledger.AccountID{Key: key, Window: window}
		g := f.used(id, 10)
		if got := f.account(id); got.ID != id || got.Terms != terms() {
			t.Errorf("account came back as %v with %+v", got.ID, got.Terms)
		}
		grants, err := f.store.Grants(f.Context(), ledger.GrantQuery{ID: g.ID})
		f.must(err)
		if len(grants) != 1 || grants[0] != g {
			t.Errorf("grant came back as %+v, want %+v", grants, g)
		}
	}
	if n := f.number("SELECT count(*) FROM account WHERE window_start = '-infinity' AND window_end = 'infinity'"); n != 1 {
		t.Errorf("%d windows are endless in the database, want 1", n)
	}
	if n := f.number("SELECT count(*) FROM account"); n != 2 {
		t.Errorf("%d accounts were made, want 2", n)
	}
}

// Reports on a live lease and grants on an account change no index: the hot rows stay narrow.
func TestP5UpdatesAreHOT(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := endless("hot")
	a := ask(t, id, 1000)
	_, err := lease(f.Context(), f.store, []ledger.Ask{a}, terms())
	f.must(err)
	scope := ledger.Scope{Accounts: []ledger.AccountID{id}, Grants: []ledger.ID{a.ID}}
	for n := range ledger.Units(50) {
		f.must(f.store.Update(f.Context(), scope, func(b *ledger.Book) error {
			b.See(id.Key, a.Agent, "eu", n+1) // what it wants is written when it changes
			_, err := b.Report(ledger.Report{ID: a.ID, Account: id, Agent: a.Agent, Taken: n + 1})
			return err
		}))
	}
	f.pool.Close() // sessions hand in their statistics when they end
	pool, _ := f.open()
	for _, table := range []string{"account", "lease_grant", "participant"} {
		// An update that changes an indexed column is never HOT. One that changes none may yet not
		// be, when the page is full of versions that an ANALYZE at that moment still sees.
		f.eventually(table+" updated 50 times, nearly all HOT", func() bool {
			var updates, hot int64
			f.must(pool.QueryRow(f.Context(),
				"SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1", table).Scan(&updates, &hot))
			return updates >= 50 && hot*10 >= updates*9
		})
	}
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			f.Fatal("never came true: ", what)
		}
	}
}
