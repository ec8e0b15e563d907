package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tablesSQL are the yardsticks' own: a quota and its grants as anybody would begin them, and a
// table for the smallest commit that there is.
const tablesSQL = `
CREATE TABLE naive_quota (id int PRIMARY KEY, granted bigint NOT NULL, cap bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE naive_grant (
    id uuid PRIMARY KEY, quota_id int NOT NULL, agent uuid NOT NULL, amount bigint NOT NULL,
    issued_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
CREATE TABLE naive_single (n int NOT NULL);
INSERT INTO naive_quota SELECT n, 0, 1000000000000 FROM generate_series(0, 9999) AS n;
` + plainTablesSQL

const (
	takeSQL   = `UPDATE naive_quota SET granted = granted + 1 WHERE id = $1 AND granted + 1 <= cap`
	grantSQL  = `INSERT INTO naive_grant (id, quota_id, agent, amount, issued_at, expires_at) VALUES ($1, $2, $3, 1, now(), now() + interval '30 s')`
	singleSQL = `INSERT INTO naive_single (n) VALUES (1)`
)

// clients are the numbers of connections that a yardstick is tried with.
var clients = []int{1, 2, 4, 8, 16, 32}

// yardConnections is what the yardsticks of one scene hold at most: one with many, two that write batches,
// and one more to make something ready.
var yardConnections = slices.Max(clients) + 2*slices.Max(plainClients) + 1

// yardsticks are what anybody could do with the same Postgres and the same driver.
type yardsticks struct {
	pool  *pgxpool.Pool
	meter meter
	span  time.Duration
}

// naive is a transaction for every grant.
func (y *yardsticks) naive(callers, keys int) subject {
	agent := newID()
	return y.shared(naive, callers, func(ctx context.Context, c *pgx.Conn) error {
		key := rand.IntN(keys)
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
		if err := one(tx.Exec(ctx, takeSQL, key)); err != nil {
			return err
		}
		if err := one(tx.Exec(ctx, grantSQL, newID(), key, agent)); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

// update is a statement, which is a transaction, for every decision.
func (y *yardsticks) update(callers int) subject {
	return y.shared(update, callers, func(ctx context.Context, c *pgx.Conn) error {
		return one(c.Exec(ctx, takeSQL, 0))
	})
}

// single is the least that one connection can make durable.
func (y *yardsticks) single() subject {
	return subject{single, func(ctx context.Context) (*opened, error) {
		return y.open(ctx, 1, 1, func(ctx context.Context, c *pgx.Conn) error { return one(c.Exec(ctx, singleSQL)) })
	}}
}

// shared lets callers share connections: as many as suit it best.
func (y *yardsticks) shared(name string, callers int, do func(context.Context, *pgx.Conn) error) subject {
	return y.fastest(name, clients, func(ctx context.Context, connections int) (*opened, error) {
		return y.open(ctx, callers, connections, do)
	})
}

// fastest opens what is fastest of some numbers of connections, each tried for a while.
func (y *yardsticks) fastest(name string, counts []int, open func(ctx context.Context, connections int) (*opened, error)) subject {
	return subject{name, func(ctx context.Context) (*opened, error) {
		best, most := counts[0], 0.0
		for _, n := range counts {
			got, err := y.try(ctx, n, open)
			if err != nil {
				return nil, fmt.Errorf("try %d connections: %w", n, err)
			}
			if got.PerSecond > most {
				best, most = n, got.PerSecond
			}
		}
		return open(ctx, best)
	}}
}

func (y *yardsticks) try(ctx context.Context, connections int, open func(context.Context, int) (*opened, error)) (Sample, error) {
	o, err := open(ctx, connections)
	if err != nil {
		return Sample{}, err
	}
	got, err := y.meter.take(ctx, o, y.span/4)
	return got, errors.Join(err, o.close(ctx))
}

// open holds connections, for which callers wait in line.
func (y *yardsticks) open(ctx context.Context, callers, connections int, do func(context.Context, *pgx.Conn) error) (*opened, error) {
	free := make(chan *pgxpool.Conn, connections)
	release := func(context.Context) error {
		for range len(free) {
			(<-free).Release()
		}
		return nil
	}
	for range connections {
		c, err := y.pool.Acquire(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect: %w", err), release(ctx))
		}
		free <- c
	}
	return &opened{workers: callers, connections: connections, per: 1, close: release,
		do: func(ctx context.Context, _ int) error {
			c := <-free // all who have one give it back, whatever happens
			defer func() { free <- c }()
			return do(ctx, c.Conn())
		}}, nil
}

var errNoRow = errors.New("write a row of the yardstick: none was written")

func one(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return errNoRow
	}
	return err
}

// newID is an id as agents make them: they rise with time, so that an index grows at its end.
func newID() pgtype.UUID {
	id, err := uuid.NewV7()
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}
