package postgres_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// fixture is a store on a database of its own, with policy version 1 in force.
type fixture struct {
	*testing.T
	dsn   string
	pool  *pgxpool.Pool
	store *postgres.Store
}

type setting func(*pgxpool.Config, *postgres.Options)

func newFixture(t *testing.T, settings ...setting) *fixture {
	t.Helper()
	f := &fixture{T: t, dsn: ledgertest.DB(t)}
	f.pool, f.store = f.open(settings...)
	f.exec("UPDATE policy_head SET version = 1")
	return f
}

// open makes one more store on the same database.
func (f *fixture) open(settings ...setting) (*pgxpool.Pool, *postgres.Store) {
	f.Helper()
	cfg, err := postgres.Config(f.dsn, 16)
	f.must(err)
	var opt postgres.Options
	for _, set := range settings {
		set(cfg, &opt)
	}
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	f.must(err)
	f.Cleanup(pool.Close)
	return pool, postgres.New(pool, opt)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	_, err := f.pool.Exec(f.Context(), sql, args...)
	f.must(err)
}

// number reads one number.
func (f *fixture) number(sql string, args ...any) int64 {
	f.Helper()
	var n int64
	f.must(f.pool.QueryRow(f.Context(), sql, args...).Scan(&n))
	return n
}

func endless(tenant string) ledger.AccountID {
	return ledger.AccountID{Key: quota.Key{Tenant: tenant, Dimension: "calls"}}
}

func terms() ledger.Terms {
	return ledger.Terms{
		PolicyVersion: 1, Kind: quota.Period, Class: quota.Bounded, Limit: quota.LimitOf(10_000),
		Budget: quota.LimitOf(5_000), TTL: 30 * time.Second, Grace: 5 * time.Second,
	}
}

func newID(t testing.TB) ledger.ID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// most hands out what is wanted, as far as it goes.
func most(r ledger.Room) ledger.Units { return min(r.Want, r.Headroom) }

// lease asks for n units of each account in one transaction, whose locks are named in the
// order of the accounts.
func lease(ctx context.Context, s *postgres.Store, asks []ledger.Ask, t ledger.Terms) ([]ledger.Answer, error) {
	var (
		scope   ledger.Scope
		answers []ledger.Answer
	)
	for _, ask := range asks {
		scope.Accounts = append(scope.Accounts, ask.Account)
		scope.Grants = append(scope.Grants, ask.ID)
		scope.Agents = append(scope.Agents, ask.Agent)
	}
	err := s.Update(ctx, scope, func(b *ledger.Book) error {
		answers = nil
		for _, ask := range asks {
			answer, err := b.Ask(ask, t, most)
			if err != nil {
				return err
			}
			answers = append(answers, answer)
		}
		return nil
	})
	return answers, err
}

func ask(t testing.TB, account ledger.AccountID, n ledger.Units) ledger.Ask {
	t.Helper()
	return ledger.Ask{ID: newID(t), Account: account, Agent: newID(t), Region: "eu", Want: n, Need: n}
}

func (f *fixture) account(id ledger.AccountID) ledger.Account {
	f.Helper()
	all, err := f.store.Accounts(f.Context(), ledger.AccountQuery{Tenant: id.Key.Tenant, Dimension: id.Key.Dimension})
	f.must(err)
	for _, a := range all {
		if a.ID == id {
			return a
		}
	}
	f.Fatalf("account %s does not exist", id)
	return ledger.Account{}
}

// verified fails the test unless every counter adds up.
func (f *fixture) verified() {
	f.Helper()
	_, err := f.store.Verify(f.Context(), func(d ledger.Difference) { f.Error(d) }, func(int, int) {})
	f.must(err)
}

// wires counts and breaks connections on their way to the server.
type wires struct {
	dials   atomic.Int64
	cancels atomic.Int64 // requests to cancel a statement
	trips   atomic.Int64 // times that a write followed a read
	onWrite func(w *wire, b []byte) (int, error)
}

// via puts the wires under a pool's connections.
func (ws *wires) via(cfg *pgxpool.Config, _ *postgres.Options) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ws.dials.Add(1)
		return &wire{Conn: conn, all: ws, fresh: true}, nil
	}
}

// wire is one connection. pgx writes and reads it from one goroutine at a time.
type wire struct {
	net.Conn
	all   *wires
	fresh bool        // nothing was written yet
	read  atomic.Bool // a read came after the last write
}

// cancelRequest begins the one message that asks to cancel a statement.
var cancelRequest = []byte{0x04, 0xd2, 0x16, 0x2e}

func (w *wire) Write(b []byte) (int, error) {
	if w.fresh && len(b) >= 8 && string(b[4:8]) == string(cancelRequest) {
		w.all.cancels.Add(1)
	}
	if w.fresh || w.read.Swap(false) {
		w.all.trips.Add(1)
	}
	w.fresh = false
	if w.all.onWrite != nil {
		return w.all.onWrite(w, b)
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.read.Store(true)
	return n, err
}
