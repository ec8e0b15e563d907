package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// rows reads CSV, one row a line. A quoted field cannot span lines: one that is never
// closed would otherwise swallow the rest of the file.
type rows struct {
	width int
	plan  plan
	src   *strings.Reader // src and buf serve one line after the other
	buf   *bufio.Reader
}

func newRows(head string, c Columns) (*rows, error) {
	r := &rows{src: strings.NewReader("")}
	r.buf = bufio.NewReader(r.src)
	names, err := r.split(head)
	if err != nil {
		return nil, fmt.Errorf("read header of trace: %w", err)
	}
	r.width = len(names)
	r.plan, err = c.resolve(names)
	return r, err
}

// split cuts a line into fields, without the spaces around them.
func (r *rows) split(line string) ([]string, error) {
	r.src.Reset(line)
	r.buf.Reset(r.src)
	c := csv.NewReader(r.buf)
	c.FieldsPerRecord = -1 // parse counts them, in words that fit
	fields, err := c.Read()
	if err != nil {
		// Its line number is always 1 here; the Problem has the real one.
		if p, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("csv: column %d: %w", p.Column, p.Err)
		}
		return nil, fmt.Errorf("csv: %w", err)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields, nil
}

func (r *rows) parse(line string) (Event, error) {
	fields, err := r.split(line)
	if err != nil {
		return Event{}, err
	}
	if len(fields) != r.width {
		return Event{}, fmt.Errorf("csv: %d fields in a file of %d columns", len(fields), r.width)
	}
	e := Event{Tenant: r.plan.tenant.text(fields), Dimension: r.plan.dimension.text(fields), Cost: r.plan.constantCost}
	if e.At, err = parseTimestamp(r.plan.timestamp.text(fields)); err != nil {
		return Event{}, err
	}
	if err := quota.ValidateTenant(e.Tenant); err != nil {
		return Event{}, err
	}
	if e.Dimension == "" {
		return Event{}, quota.ValidateDimension("")
	}
	e.Dimension = DimensionName(e.Dimension)
	for _, i := range r.plan.cost.columns {
		term, err := parseCost(fields[i])
		if err != nil {
			return Event{}, err
		}
		if e.Cost, err = e.Cost.Add(term); err != nil {
			return Event{}, fmt.Errorf("add up cost: %w", err)
		}
	}
	return e, nil
}

func (p part) text(fields []string) string {
	if p.columns == nil {
		return p.constant
	}
	return fields[p.columns[0]]
}

// parseCost reads a whole number. A fraction is refused: rounding is for those to decide
// who know the unit.
func parseCost(s string) (quota.Units, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, &quota.FieldError{Field: "cost", Allowed: "a whole number, 0 or above, within int64"}
	}
	return quota.Units(n), nil
}
