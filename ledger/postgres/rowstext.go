package postgres

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/quotalease/quotalease/ledger"
)

// Without prepared statements the driver does not know the types of arguments, and sends all of
// them as text: behind a pooler that cannot keep statements.

// TextValue implements pgtype.TextValuer.
func (r rows) TextValue() (pgtype.Text, error) {
	var rowsText []string
	each := reader(r)
	for range each.arrayHead() {
		row := reader(each.value())
		fields := make([]string, row.word())
		for i := range fields {
			oid := row.word()
			value := row.value()
			if value == nil {
				continue // NULL is nothing between two commas
			}
			text, err := textOf(oid, value)
			if err != nil {
				return pgtype.Text{}, err
			}
			fields[i] = quoted(text)
		}
		rowsText = append(rowsText, quoted("("+strings.Join(fields, ",")+")"))
	}
	return pgtype.Text{String: "{" + strings.Join(rowsText, ",") + "}", Valid: true}, nil
}

// quoted makes any text one field of a row or one element of an array.
func quoted(s string) string { return `"` + escaper.Replace(s) + `"` }

var escaper = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

func textOf(oid uint32, value []byte) (string, error) {
	r := reader(value)
	switch oid {
	case pgtype.TextOID:
		return string(value), nil
	case pgtype.Int8OID:
		return strconv.FormatInt(r.long(), 10), nil
	case pgtype.Int2OID:
		return strconv.Itoa(int(int16(binary.BigEndian.Uint16(value)))), nil
	case pgtype.BoolOID:
		return strconv.FormatBool(value[0] != 0), nil
	case pgtype.UUIDOID:
		return ledger.ID(value).String(), nil
	case pgtype.TimestamptzOID:
		return time.UnixMicro(r.long() + epoch).UTC().Format("2006-01-02 15:04:05.999999Z07:00"), nil
	case pgtype.IntervalOID:
		return strconv.FormatInt(r.long(), 10) + " microseconds", nil
	case pgtype.UUIDArrayOID:
		ids := make([]string, 0, r.arrayHead())
		for range cap(ids) {
			ids = append(ids, ledger.ID(r.value()).String())
		}
		return "{" + strings.Join(ids, ",") + "}", nil
	default:
		return "", fmt.Errorf("write rows as text: type %d has no form", oid)
	}
}

// reader takes apart what rowWriter wrote.
type reader []byte

func (r *reader) word() (v uint32) {
	v = binary.BigEndian.Uint32(*r)
	*r = (*r)[4:]
	return v
}

func (r *reader) long() (v int64) {
	v = int64(binary.BigEndian.Uint64(*r))
	*r = (*r)[8:]
	return v
}

// value is what comes after its length; nil is NULL.
func (r *reader) value() []byte {
	n := int32(r.word())
	if n < 0 {
		return nil
	}
	v := (*r)[:n:n]
	*r = (*r)[n:]
	return v
}

// arrayHead is how many elements follow.
func (r *reader) arrayHead() (n int) {
	dimensions := r.word()
	r.word()
	r.word()
	if dimensions == 0 {
		return 0
	}
	n = int(r.word())
	r.word()
	return n
}
