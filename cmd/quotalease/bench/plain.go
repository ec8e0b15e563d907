package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// plainTablesSQL are the ledger's own three tables again, with all their columns and indexes, for who
// writes the same rows and asks nothing.
const plainTablesSQL = `
CREATE TABLE plain_grant (LIKE lease_grant INCLUDING ALL) WITH (fillfactor = 70, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE plain_account (LIKE account INCLUDING ALL) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE plain_incarnation (LIKE incarnation INCLUDING ALL) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
INSERT INTO plain_account (window_start, window_end, kind, class, tenant, dimension)
SELECT date_trunc('day', now()), date_trunc('day', now()) + interval '1 day', 1, 2, 'plain-' || n, 'grants'
FROM generate_series(1, 10000) AS n`

const (
	// plainPlansSQL makes loops over the arrays, whatever the planner thinks of the tables' sizes.
	plainPlansSQL = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

	// What is the same in all rows is said once: to bind it would cost this yardstick more.
	plainGrantSQL = `INSERT INTO plain_grant (id, account_id, agent, region, kind, state, class, asked, need, amount, reason,
    generation, policy_version, issued_at, ttl, expires_at, closes_at, revoked_at, updated_at, taken, refunded, back, moved,
    starts_at, ends_at, delay, drip, seq, in_use, granted, consumed_reported, spent, unleased, outstanding, held,
    uncertain, expired, revoked, returned, emergency, extended)
SELECT w.id, w.account_id, w.agent, 'bench', 1, 1, 2, 1, 1, 1, '',
    1, 1, now(), '30 s', now() + interval '30 s', now() + interval '35 s', NULL, now(), 0, 0, 0, 0,
    NULL, NULL, '0', '0', 0, 0, 1, 0, 0, 0, 1, 0,
    0, 0, 0, 0, 0, 0
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS w (id, account_id, agent)`
	plainReportSQL = `UPDATE plain_grant g SET state = 3, updated_at = now(), taken = 1, consumed_reported = 1, outstanding = 0
FROM unnest($1::uuid[]) AS w (id) WHERE g.id = w.id`
	plainAccountSQL = `UPDATE plain_account a SET granted = a.granted + 1, consumed_reported = a.consumed_reported + 1, outstanding = 1,
    generation = a.generation + 1, committed = a.committed + 1, clock = now()
FROM unnest($1::bigint[]) AS w (id) WHERE a.id = w.id`
	plainTokenSQL = `UPDATE plain_incarnation i SET last_seen = now(), echoed = w.token, tokens = ARRAY[w.token]
FROM unnest($1::uuid[], $2::uuid[]) AS w (id, token) WHERE i.id = w.id`
	plainAgentsSQL = `INSERT INTO plain_incarnation (id, name, region, started_at, last_seen, policy_version, tokens)
SELECT w.id, 'plain', 'bench', now(), now(), 1, '{}' FROM unnest($1::uuid[]) AS w (id)`

	narrowGrantSQL = `INSERT INTO naive_grant (id, quota_id, agent, amount, issued_at, expires_at)
SELECT w.id, w.quota_id, w.agent, 1, now(), now() + interval '30 s'
FROM unnest($1::uuid[], $2::int[], $3::uuid[]) AS w (id, quota_id, agent)`
	narrowTakeSQL = `UPDATE naive_quota q SET granted = q.granted + 1 FROM unnest($1::int[]) AS w (id) WHERE q.id = w.id AND q.granted < q.cap`
)

// plainWriter writes grants of keys and agents that no other one writes, and reports the grant before
// of each as used up.
type plainWriter struct {
	keys   []int64 // from 1, in the order in which they have their turns
	next   int
	agents []pgtype.UUID
	held   map[int64]pgtype.UUID // the latest grant of a key
}

// plainBatch is what one transaction writes.
type plainBatch struct {
	grants, agents, over, tokens []pgtype.UUID // grants and agents go with keys, tokens with agents
	keys                         []int64
}

func (w *plainWriter) batch(n int) (b plainBatch) {
	for i := range min(n, len(w.keys), len(w.agents)) {
		key := w.keys[w.next]
		w.next = (w.next + 1) % len(w.keys)
		if was, ok := w.held[key]; ok {
			b.over = append(b.over, was)
		}
		id := newID()
		w.held[key] = id
		b.grants, b.keys, b.agents, b.tokens = append(b.grants, id), append(b.keys, key), append(b.agents, w.agents[i]), append(b.tokens, newID())
	}
	return b
}

// writeAlike writes what the ledger would: a grant, the report on the one before, the account and the
// agent's token.
func writeAlike(ctx context.Context, c *pgx.Conn, b plainBatch) error {
	n := int64(len(b.keys))
	return writePlainly(ctx, c, []plainStatement{
		{plainGrantSQL, []any{b.grants, b.keys, b.agents}, n},
		{plainReportSQL, []any{b.over}, int64(len(b.over))},
		{plainAccountSQL, []any{b.keys}, n},
		{plainTokenSQL, []any{b.agents, b.tokens}, n},
	})
}

// writeNarrow writes as many grants as anybody would begin them.
func writeNarrow(ctx context.Context, c *pgx.Conn, b plainBatch) error {
	keys := make([]int32, len(b.keys))
	for i, k := range b.keys {
		keys[i] = int32(k - 1)
	}
	n := int64(len(keys))
	return writePlainly(ctx, c, []plainStatement{
		{narrowGrantSQL, []any{b.grants, keys, b.agents}, n},
		{narrowTakeSQL, []any{keys}, n},
	})
}

// plainStatement is one, and how many rows it must write.
type plainStatement struct {
	sql  string
	args []any
	rows int64
}

func writePlainly(ctx context.Context, c *pgx.Conn, list []plainStatement) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(plainPlansSQL)
	for _, s := range list {
		b.Queue(s.sql, s.args...)
	}
	b.Queue("COMMIT")
	results := c.SendBatch(ctx, b)
	var failed error
	for i := range b.Len() {
		tag, err := results.Exec()
		if err == nil && i >= 2 && i-2 < len(list) && tag.RowsAffected() != list[i-2].rows {
			err = errNoRow
		}
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, results.Close())
}

// plainClients are the numbers of connections that batches are tried with: each has a batch under way.
var plainClients = []int{1, 2, 4}

// batches writes in one transaction as many grants as ours has in one, once that is known, with as many
// connections as suit it best.
func (y *yardsticks) batches(name string, keys int, size func() (int, error), write func(context.Context, *pgx.Conn, plainBatch) error) subject {
	return y.fastest(name, plainClients, func(ctx context.Context, connections int) (*opened, error) {
		n, err := size()
		if err != nil {
			return nil, err
		}
		return y.openBatches(ctx, connections, keys, max(1, n), write)
	})
}

func (y *yardsticks) openBatches(ctx context.Context, connections, keys, size int, write func(context.Context, *pgx.Conn, plainBatch) error) (*opened, error) {
	writers := make(chan *plainWriter, connections)
	size = min(size, keys/connections)
	for i := range connections {
		w := &plainWriter{held: map[int64]pgtype.UUID{}}
		for k := i; k < keys; k += connections {
			w.keys = append(w.keys, int64(k+1))
		}
		rand.Shuffle(len(w.keys), func(i, j int) { w.keys[i], w.keys[j] = w.keys[j], w.keys[i] })
		for range size {
			w.agents = append(w.agents, newID())
		}
		if _, err := y.pool.Exec(ctx, plainAgentsSQL, w.agents); err != nil {
			return nil, fmt.Errorf("make agents of a yardstick: %w", err)
		}
		writers <- w
	}
	o, err := y.open(ctx, connections, connections, func(ctx context.Context, c *pgx.Conn) error {
		w := <-writers
		defer func() { writers <- w }()
		return write(ctx, c, w.batch(size))
	})
	if err == nil {
		o.per = size
	}
	return o, err
}
