package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// The types below read columns into the ledger's values without a copy in between. NULL and
// both infinities are the zero time: an endless window has neither start nor end.

type instant time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	if !v.Valid || v.InfinityModifier != pgtype.Finite {
		*i = instant{}
		return nil
	}
	*i = instant(quota.At(v.Time))
	return nil
}

type limit quota.Limit

// ScanInt64 implements pgtype.Int64Scanner. NULL is no limit.
func (l *limit) ScanInt64(v pgtype.Int8) error {
	*l = limit(quota.NoLimit)
	if v.Valid {
		*l = limit(quota.LimitOf(quota.Units(v.Int64)))
	}
	return nil
}

type identity ledger.ID

// ScanUUID implements pgtype.UUIDScanner. NULL is the nil id.
func (id *identity) ScanUUID(v pgtype.UUID) error {
	*id = identity(v.Bytes)
	return nil
}

func uuidOf(id ledger.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// uuidOrNull stores the nil id as NULL.
func uuidOrNull(id ledger.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsNil()} }

func uuidsOf(ids []ledger.ID) []pgtype.UUID {
	return column(ids, func(id *ledger.ID) pgtype.UUID { return uuidOf(*id) })
}

func timeOf(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: true} }

// timeOrNull stores the zero time as NULL.
func timeOrNull(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

func startOf(w quota.Window) pgtype.Timestamptz {
	if w.Start.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return timeOf(w.Start)
}

func endOf(w quota.Window) pgtype.Timestamptz {
	if w.End.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return timeOf(w.End)
}

func limitOf(l quota.Limit) pgtype.Int8 {
	return pgtype.Int8{Int64: int64(l.Units), Valid: !l.Unlimited}
}

// column is one value of each item, as an array for unnest. It is never nil: a nil slice
// would be NULL.
func column[T, V any](items []T, value func(*T) V) []V {
	values := make([]V, len(items))
	for i := range items {
		values[i] = value(&items[i])
	}
	return values
}

// tallyColumns are the counters of each item, in the order of ledger.TallyNames.
func tallyColumns[T any](items []T, tally func(*T) ledger.Tally) []any {
	columns := make([][]int64, ledger.Counters)
	for c := range columns {
		columns[c] = make([]int64, len(items))
	}
	for i := range items {
		for c, v := range tally(&items[i]).Values() {
			columns[c][i] = int64(v)
		}
	}
	args := make([]any, len(columns))
	for c := range columns {
		args[c] = columns[c]
	}
	return args
}

func tallyFields(t *ledger.Tally) []any {
	return []any{
		(*int64)(&t.Granted), (*int64)(&t.Leased), (*int64)(&t.Spent), (*int64)(&t.Unleased),
		(*int64)(&t.Outstanding), (*int64)(&t.Held), (*int64)(&t.Uncertain), (*int64)(&t.Expired),
		(*int64)(&t.Revoked), (*int64)(&t.Returned), (*int64)(&t.Emergency), (*int64)(&t.Extended),
	}
}

func accountIDFields(id *ledger.AccountID) []any {
	return []any{
		&id.Key.Tenant, &id.Key.Dimension, (*instant)(&id.Window.Start), (*instant)(&id.Window.End),
	}
}

// accountFields are the columns of an account without its surrogate id, in the order in
// which every statement selects them.
func accountFields(a *ledger.Account) []any {
	fields := append(accountIDFields(&a.ID),
		&a.PolicyVersion, (*int16)(&a.Kind), (*int16)(&a.Class), (*limit)(&a.Limit), (*limit)(&a.Budget),
		&a.TTL, &a.Grace)
	fields = append(fields, tallyFields(&a.Tally)...)
	return append(fields,
		&a.Generation, (*int64)(&a.Committed), (*limit)(&a.Largest), (*int64)(&a.Overshoot),
		(*instant)(&a.Clock), &a.Waiting,
		(*int64)(&a.Rate.Units), &a.Rate.Per, &a.MaxHold, (*int64)(&a.Pot), &a.FinalAfter,
		(*int64)(&a.Bucket.Spent), (*int64)(&a.Bucket.Part), (*instant)(&a.Bucket.At),
		(*int64)(&a.Credit), (*int64)(&a.Released), (*limit)(&a.Opening), (*instant)(&a.OpenedAt),
		(*instant)(&a.ClosedAt), (*instant)(&a.FinalAt), &a.Revision,
		(*instant)(&a.WantedAt))
}

// grantFields are the columns of a grant with the name of its account and without its tally, in
// the order in which every statement selects them.
func grantFields(g *ledger.Grant) []any {
	return append(accountIDFields(&g.Account), recordFields(g)...)
}

// recordFields are those columns without the account.
func recordFields(g *ledger.Grant) []any {
	return []any{
		(*identity)(&g.ID), (*int16)(&g.Kind), (*int16)(&g.State), (*int16)(&g.Class), (*identity)(&g.Agent),
		&g.Region, (*int64)(&g.Asked), (*int64)(&g.Need), (*int64)(&g.Amount), (*string)(&g.Reason),
		&g.Generation, &g.PolicyVersion, (*instant)(&g.IssuedAt), &g.TTL, (*instant)(&g.ExpiresAt),
		(*instant)(&g.ClosesAt), (*instant)(&g.RevokedAt), (*instant)(&g.UpdatedAt),
		(*int64)(&g.Taken), (*int64)(&g.Refunded), (*int64)(&g.Back), (*int64)(&g.Uncertain),
		(*instant)(&g.StartsAt), (*instant)(&g.EndsAt), &g.Delay, &g.Drip, &g.Seq, (*int64)(&g.InUse),
	}
}

func intervalOf(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}
