package web

import (
	"bytes"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
)

// readPlain reads a take as nearly all are written: text without escapes, whole numbers, nothing
// nested. It reports false of whatever is not, a faulty body too, and then r is to be forgotten:
// readObject reads it, more slowly, and says what is wrong. What it does read, it reads alike.
func readPlain(text []byte, r *door.Request) bool {
	p := plain{rest: text}
	if !p.next('{') {
		return false
	}
	var id string
	var cost, times int64
	var given [7]bool
	for again := true; again; again = p.next(',') {
		name, ok := p.text()
		if !ok || !p.next(':') {
			return false
		}
		at := 0
		switch string(name) {
		case "tenant":
			at, ok = 0, p.textInto(&r.Tenant)
		case "dimension":
			at, ok = 1, p.textInto(&r.Dimension)
		case "cost":
			at, ok = 2, p.whole(&cost, 0)
			r.Cost = &cost
		case "id":
			at, ok = 3, p.textInto(&id)
			r.ID = &id
		case "operation":
			at, ok = 4, p.textInto(&r.Operation)
		case "times":
			at, ok = 5, p.whole(&times, 1)
			r.Times = &times
		case "ticket":
			at, ok = 6, p.textInto(&r.Ticket)
		default:
			return false
		}
		if !ok || given[at] {
			return false
		}
		given[at] = true
	}
	return p.next('}') && p.space() == len(p.rest)
}

// plain reads the beginning of what is left of a body.
type plain struct{ rest []byte }

// space is how much white space comes first.
func (p *plain) space() (n int) {
	for n < len(p.rest) && (p.rest[n] == ' ' || p.rest[n] == '\t' || p.rest[n] == '\n' || p.rest[n] == '\r') {
		n++
	}
	return n
}

// next reads a mark, if it comes next.
func (p *plain) next(mark byte) bool {
	n := p.space()
	if n == len(p.rest) || p.rest[n] != mark {
		return false
	}
	p.rest = p.rest[n+1:]
	return true
}

// text reads text of printable ASCII without escapes.
func (p *plain) text() ([]byte, bool) {
	if !p.next('"') {
		return nil, false
	}
	n := bytes.IndexByte(p.rest, '"')
	if n < 0 {
		return nil, false
	}
	text := p.rest[:n]
	for _, c := range text {
		if c < 0x20 || c > 0x7e || c == '\\' {
			return nil, false
		}
	}
	p.rest = p.rest[n+1:]
	return text, true
}

func (p *plain) textInto(s *string) bool {
	text, ok := p.text()
	*s = string(text)
	return ok
}

// whole reads digits alone.
func (p *plain) whole(n *int64, least int64) bool {
	p.rest = p.rest[p.space():]
	digits := 0
	for ; digits < len(p.rest) && p.rest[digits] >= '0' && p.rest[digits] <= '9'; digits++ {
		if digits == len("9007199254740991") {
			return false
		}
		*n = *n*10 + int64(p.rest[digits]-'0')
	}
	zeroes := digits > 1 && p.rest[0] == '0' // in front, which is no JSON
	p.rest = p.rest[digits:]
	return digits > 0 && !zeroes && *n >= least && *n <= agent.MaxCost
}
