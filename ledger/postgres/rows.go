package postgres

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// rows is an array of a composite type in the binary format (array_recv and record_recv in
// PostgreSQL's source). What every transaction writes goes to the server like that. It is
// written here, because the driver would go through reflection for each field.
type rows []byte

// BytesValue implements pgtype.BytesValuer: the codec for bytea passes them on as they are.
func (r rows) BytesValue() ([]byte, error) { return r, nil }

// rowTypesSQL finds the numbers that this database gave the types. They are the same on every
// connection to it, whatever a pooler does in between.
const rowTypesSQL = `-- name: row_types
SELECT 'grant_row_1'::regtype::oid, 'grant_row_1[]'::regtype::oid,
       'grant_change_1'::regtype::oid, 'grant_change_1[]'::regtype::oid,
       'account_change_1'::regtype::oid, 'account_change_1[]'::regtype::oid,
       'incarnation_row_1'::regtype::oid, 'incarnation_row_1[]'::regtype::oid,
       'participant_row_1'::regtype::oid, 'participant_row_1[]'::regtype::oid`

// rowTypes are the numbers of the types of rows.
type rowTypes struct{ grant, change, account, incarnation, participant uint32 }

const customRowTypes = "quotalease.row_types"

// rowTypesOf are those that the connection knows already.
func rowTypesOf(c *pgx.Conn) (rowTypes, bool) {
	known, ok := c.PgConn().CustomData()[customRowTypes].(rowTypes)
	return known, ok
}

// learnRowTypes reads rowTypesSQL's row, and keeps it with the connection.
func learnRowTypes(c *pgx.Conn, row pgx.Row) (t rowTypes, err error) {
	var arrays rowTypes
	err = row.Scan(&t.grant, &arrays.grant, &t.change, &arrays.change, &t.account, &arrays.account,
		&t.incarnation, &arrays.incarnation, &t.participant, &arrays.participant)
	if err != nil {
		return t, err
	}
	for name, array := range map[string]uint32{
		"grant_row_1[]": arrays.grant, "grant_change_1[]": arrays.change, "account_change_1[]": arrays.account,
		"incarnation_row_1[]": arrays.incarnation, "participant_row_1[]": arrays.participant,
	} {
		c.TypeMap().RegisterType(&pgtype.Type{Name: name, OID: array, Codec: pgtype.ByteaCodec{}})
	}
	c.PgConn().CustomData()[customRowTypes] = t
	return t, nil
}

// rowsOf writes items as an array of rows of one type.
func rowsOf[T any](element uint32, items []T, write func(*rowWriter, *T)) rows {
	const perRow = 768 // a new grant, which is the longest row, has about 700
	w := rowWriter{buf: make([]byte, 0, arrayHead+len(items)*perRow)}
	w.arrayHead(element, len(items))
	for i := range items {
		length := w.open()
		fields := w.open() // how many: known at the end
		w.fields = 0
		write(&w, &items[i])
		binary.BigEndian.PutUint32(w.buf[fields:], uint32(w.fields))
		w.close(length)
	}
	return w.buf
}

// rowWriter writes the fields of one row after the other: the number of each one's type, its
// length, its value; the length -1 is NULL.
type rowWriter struct {
	buf    []byte
	fields int
}

const arrayHead = 5 * 4

func (w *rowWriter) arrayHead(element uint32, n int) {
	dimensions := min(n, 1)
	w.word(uint32(dimensions))
	w.word(0) // no element is NULL
	w.word(element)
	if dimensions > 0 {
		w.word(uint32(n))
		w.word(1) // where it begins to count
	}
}

func (w *rowWriter) word(v uint32) { w.buf = binary.BigEndian.AppendUint32(w.buf, v) }

// open leaves room for a length, close fills it in.
func (w *rowWriter) open() (at int) {
	at = len(w.buf)
	w.word(0)
	return at
}

func (w *rowWriter) close(at int) { binary.BigEndian.PutUint32(w.buf[at:], uint32(len(w.buf)-at-4)) }

func (w *rowWriter) field(oid uint32, length int) {
	w.fields++
	w.word(oid)
	w.word(uint32(length))
}

func (w *rowWriter) null(oid uint32) {
	w.fields++
	w.word(oid)
	w.word(0xFFFFFFFF)
}

func (w *rowWriter) bigint(v int64) {
	w.field(pgtype.Int8OID, 8)
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v))
}

func (w *rowWriter) units(v quota.Units) { w.bigint(int64(v)) }

// limit writes no limit as NULL.
func (w *rowWriter) limit(l quota.Limit) {
	if l.Unlimited {
		w.null(pgtype.Int8OID)
		return
	}
	w.units(l.Units)
}

func (w *rowWriter) smallint(v int16) {
	w.field(pgtype.Int2OID, 2)
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(v))
}

func (w *rowWriter) boolean(v bool) {
	w.field(pgtype.BoolOID, 1)
	var b byte
	if v {
		b = 1
	}
	w.buf = append(w.buf, b)
}

func (w *rowWriter) text(s string) {
	w.field(pgtype.TextOID, len(s))
	w.buf = append(w.buf, s...)
}

func (w *rowWriter) uuid(id ledger.ID) {
	w.field(pgtype.UUIDOID, len(id))
	w.buf = append(w.buf, id[:]...)
}

// uuidOrNull writes the nil id as NULL.
func (w *rowWriter) uuidOrNull(id ledger.ID) {
	if id.IsNil() {
		w.null(pgtype.UUIDOID)
		return
	}
	w.uuid(id)
}

func (w *rowWriter) uuids(ids []ledger.ID) {
	w.fields++
	w.word(pgtype.UUIDArrayOID)
	length := w.open()
	w.arrayHead(pgtype.UUIDOID, len(ids))
	for _, id := range ids {
		w.word(uint32(len(id)))
		w.buf = append(w.buf, id[:]...)
	}
	w.close(length)
}

// epoch is where Postgres begins to count microseconds.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (w *rowWriter) time(t time.Time) {
	w.field(pgtype.TimestamptzOID, 8)
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(t.UnixMicro()-epoch))
}

// timeOrNull writes the zero time as NULL.
func (w *rowWriter) timeOrNull(t time.Time) {
	if t.IsZero() {
		w.null(pgtype.TimestamptzOID)
		return
	}
	w.time(t)
}

// interval writes microseconds; days and months stay 0.
func (w *rowWriter) interval(d time.Duration) {
	w.field(pgtype.IntervalOID, 16)
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(d.Microseconds()))
	w.buf = binary.BigEndian.AppendUint64(w.buf, 0)
}

// tally writes the counters in the order of ledger.TallyNames.
func (w *rowWriter) tally(t ledger.Tally) {
	for _, v := range t.Values() {
		w.units(v)
	}
}
