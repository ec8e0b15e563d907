package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// makeLineSQL inserts only what is missing: a conflict would burn an id each time.
const makeLineSQL = `-- name: make_line
INSERT INTO line (tenant, operation)
SELECT $1::text, $2::text
WHERE NOT EXISTS (SELECT 1 FROM line WHERE tenant = $1::text AND operation = $2::text)
ON CONFLICT (tenant, operation) DO NOTHING`

const lockLineSQL = `-- name: lock_line
SELECT id FROM line WHERE tenant = $1::text AND operation = $2::text FOR UPDATE`

// loadTicketsSQL is a statement of its own, so that it sees what the last holder of the lock
// wrote.
const loadTicketsSQL = `-- name: load_tickets
SELECT t.id, t.seq, t.times, t.joined_at, t.asked_at, t.ask_by, t.ends_at
FROM line l
JOIN ticket t ON t.line_id = l.id
WHERE l.tenant = $1::text AND l.operation = $2::text
ORDER BY t.seq`

const deleteTicketsSQL = `-- name: delete_tickets
DELETE FROM ticket WHERE line_id = $1::bigint AND seq = ANY ($2::bigint[])`

const upsertTicketsSQL = `-- name: upsert_tickets
INSERT INTO ticket (line_id, id, seq, times, joined_at, asked_at, ask_by, ends_at)
SELECT $1::bigint, w.id, w.seq, w.times, w.joined_at, w.asked_at, w.ask_by, w.ends_at
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::timestamptz[],
            $7::timestamptz[], $8::timestamptz[])
     AS w (id, seq, times, joined_at, asked_at, ask_by, ends_at)
ON CONFLICT (line_id, seq) DO UPDATE
SET asked_at = EXCLUDED.asked_at, ask_by = EXCLUDED.ask_by`

const updateLineSQL = `-- name: update_line
UPDATE line SET tickets = $2::bigint, oldest = $3::timestamptz, lapses_at = $4::timestamptz
WHERE id = $1::bigint`

// deleteLineSQL removes a line in which nobody waits any more. Who waits for its lock finds it
// gone, and makes it anew.
const deleteLineSQL = `-- name: delete_line
DELETE FROM line WHERE id = $1::bigint`

// listWaitingSQL numbers the places of all that it finds before the limit cuts the list.
const listWaitingSQL = `-- name: list_waiting
SELECT l.tenant, l.operation, row_number() OVER (PARTITION BY l.id ORDER BY t.seq) - 1,
       t.id, t.seq, t.times, t.joined_at, t.asked_at, t.ask_by, t.ends_at
FROM line l
JOIN ticket t ON t.line_id = l.id
WHERE ($1::text = '' OR l.tenant = $1::text) AND ($2::text = '' OR l.operation = $2::text)
  AND t.ask_by > $3::timestamptz AND t.ends_at > $3::timestamptz
ORDER BY l.tenant, l.operation, t.seq
LIMIT $4::integer`

const listLinesSQL = `-- name: list_lines
SELECT tenant, operation, tickets, oldest, lapses_at
FROM line
WHERE (tenant, operation) > ($1::text, $2::text)
ORDER BY tenant, operation
LIMIT $3::integer`

// UpdateLine implements ledger.Lines, in two round trips. What is retried is what Update
// retries: the steps of a line are idempotent by their tickets' ids.
func (s *Store) UpdateLine(ctx context.Context, id ledger.LineID, fn func(*ledger.Line) error) error {
	return s.persist(ctx, "update a line", func() error {
		return s.transact(ctx, nil, func(ctx context.Context, tx *transaction) (*pgx.Batch, error) {
			row, line, err := tx.lockLine(ctx, id)
			if err != nil {
				return nil, fmt.Errorf("lock line: %w", err)
			}
			if err := fn(line); err != nil {
				return nil, ruleError{err}
			}
			return lineWrites(row, line.Changes()), nil
		})
	})
}

// lockLine makes the line if need be, takes its lock, reads the clock under it, then the tickets.
func (tx *transaction) lockLine(ctx context.Context, id ledger.LineID) (row int64, line *ledger.Line, err error) {
	o := tx.store.opt
	loaded := ledger.LoadedLine{ID: id}
	var clock instant
	var version int64
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	batch.Queue(settingsSQL, millis(o.LockTimeout), millis(o.Timeout), millis(min(o.Timeout, idleTimeout)))
	batch.Queue(makeLineSQL, id.Tenant, id.Operation)
	batch.Queue(lockLineSQL, id.Tenant, id.Operation).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&row}, func() error { return nil })
		return err
	})
	batch.Queue(readClockSQL).QueryRow(func(r pgx.Row) error { return r.Scan(&clock, &version) })
	batch.Queue(loadTicketsSQL, id.Tenant, id.Operation).Query(func(rows pgx.Rows) error {
		loaded.Tickets, err = collect(rows, ticketFields)
		return err
	})
	sent := o.Now()
	if err := tx.conn.SendBatch(ctx, batch).Close(); err != nil {
		return 0, nil, err
	}
	if row == 0 {
		return 0, nil, fmt.Errorf("line removed while it was being locked: %w", errAgain)
	}
	loaded.Now = time.Time(clock)
	loaded.ClockSuspect = suspect(loaded.Now, sent, o.Now())
	return row, ledger.NewLine(loaded), nil
}

func ticketFields(t *ledger.Ticket) []any {
	return []any{
		(*identity)(&t.ID), &t.Seq, &t.Times, (*instant)(&t.JoinedAt), (*instant)(&t.AskedAt),
		(*instant)(&t.AskBy), (*instant)(&t.EndsAt),
	}
}

// lineWrites removes first: what is new stands where nothing else does.
func lineWrites(row int64, c ledger.LineChanges) *pgx.Batch {
	batch := &pgx.Batch{}
	if len(c.Gone) > 0 {
		batch.Queue(deleteTicketsSQL, row, c.Gone)
	}
	if len(c.Put) > 0 {
		batch.Queue(upsertTicketsSQL, row,
			column(c.Put, func(t *ledger.Ticket) pgtype.UUID { return uuidOf(t.ID) }),
			column(c.Put, func(t *ledger.Ticket) int64 { return t.Seq }),
			column(c.Put, func(t *ledger.Ticket) int64 { return t.Times }),
			column(c.Put, func(t *ledger.Ticket) pgtype.Timestamptz { return timeOf(t.JoinedAt) }),
			column(c.Put, func(t *ledger.Ticket) pgtype.Timestamptz { return timeOf(t.AskedAt) }),
			column(c.Put, func(t *ledger.Ticket) pgtype.Timestamptz { return timeOf(t.AskBy) }),
			column(c.Put, func(t *ledger.Ticket) pgtype.Timestamptz { return timeOf(t.EndsAt) }))
	}
	switch {
	case c.Tickets == 0:
		batch.Queue(deleteLineSQL, row)
	case len(c.Gone)+len(c.Put) > 0:
		batch.Queue(updateLineSQL, row, int64(c.Tickets), timeOf(c.Oldest), timeOf(c.LapsesAt))
	}
	return batch
}

// Lines implements ledger.Lines.
func (s *Store) Lines(ctx context.Context, after ledger.LineID, limit int) ([]ledger.LineState, error) {
	return read(ctx, s, "list lines", func(l *ledger.LineState) []any {
		return []any{&l.ID.Tenant, &l.ID.Operation, &l.Tickets, (*instant)(&l.Oldest), (*instant)(&l.LapsesAt)}
	}, listLinesSQL, after.Tenant, after.Operation, limitOrDefault(limit))
}

// Waiting implements ledger.Lines.
func (s *Store) Waiting(ctx context.Context, q ledger.WaitingQuery) ([]ledger.Waiting, error) {
	return read(ctx, s, "list who waits", func(w *ledger.Waiting) []any {
		return append([]any{&w.Line.Tenant, &w.Line.Operation, &w.Place}, ticketFields(&w.Ticket)...)
	}, listWaitingSQL, q.Tenant, q.Operation, timeOf(q.At), limitOrDefault(q.Limit))
}
