package ledger

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// LineID names a line: those of a tenant's callers who wait their turn for one operation.
type LineID struct {
	Tenant    string
	Operation string
}

// CompareLines is the order of lines.
func CompareLines(x, y LineID) int {
	return cmp.Or(strings.Compare(x.Tenant, y.Tenant), strings.Compare(x.Operation, y.Operation))
}

// Ticket is a caller's place in a line. The work that waits is not here: it is in a queue of
// the caller's own.
type Ticket struct {
	ID       ID
	Seq      int64 // the order of the line
	Times    int64 // of the operation
	JoinedAt time.Time
	AskedAt  time.Time // last, as the ledger heard it
	AskBy    time.Time // who has not asked by then has lost the place
	EndsAt   time.Time // too old from then on
}

// AskAt is when its caller is told to ask again, from place i: sooner, as a rule, than it has to
// keep its place.
func (t *Ticket) AskAt(i int) time.Time {
	must := t.AskBy.Add(-LinePatience)
	if soon := t.AskedAt.Add(news(i)); soon.Before(must) {
		return soon
	}
	return must
}

// Lapsed reports a ticket that is too old, or whose caller has vanished.
func (t *Ticket) Lapsed(now time.Time) bool { return !now.Before(t.AskBy) || !now.Before(t.EndsAt) }

// LineTerms are what policy says of an operation's lines.
type LineTerms struct {
	MaxAge     time.Duration
	MaxTickets int
}

// Opening is what is known, at a step, of the quotas that a line waits for.
type Opening struct {
	Room   int64         // how often the operation fits into what is free
	Wait   time.Duration // until more is; 0: not known
	Denied bool          // the caller was denied just now: it does not go at once, whatever is free
}

// Standing is a ticket as it stands after a step.
type Standing struct {
	Place     int // tickets before it
	Admitted  bool
	RetryIn   time.Duration // when to ask again; 0 only if admitted
	ExpiresIn time.Duration // then it is too old
	Waiting   int           // tickets in the line
	Gone      bool          // it is not in the line
}

// Times of a line. Whoever is behind others asks a little later for each of them, so that a
// window that opens is not stormed, and they come in their order.
const (
	// LinePatience is how much later than told a caller may ask before it loses its place. For
	// so long one that vanished at the head can hold up those for whom there is no room besides.
	LinePatience = 15 * time.Second

	lineFirst = 100 * time.Millisecond // the least that a caller waits before it asks again
	lineEach  = 20 * time.Millisecond  // and more, for each ticket before it
	lineMost  = 30 * time.Second       // that adds up to, at most

	lineNews  = time.Minute // the longest that the first in line wait before they ask again
	lineHeads = 16          // so many are the first
)

// behind is how much later than the first the ticket at place i comes.
func behind(i int) time.Duration { return min(lineFirst+time.Duration(i)*lineEach, lineMost) }

// news is the longest that the ticket at place i waits before it asks again. A limit that is raised
// and a credit come when nobody was told, and the units must not lie idle until a window ends: the
// first look every minute, who is further back as much more rarely as more are before it. So a line
// of ten thousand asks about two times a second, all together.
func news(i int) time.Duration {
	return lineNews*time.Duration(max(i, lineHeads))/lineHeads + behind(i)
}

// joinWithin is how old the id of a new ticket may be. A join that was delayed for longer is
// one that nobody waits for any more.
const joinWithin = time.Minute

// LoadedLine is what a store read of one line, after its lock was held.
type LoadedLine struct {
	ID           LineID
	Now          time.Time
	ClockSuspect bool
	Tickets      []Ticket // by Seq
}

// Line is one locked line, and the rules that change it. It is pure, and used by one goroutine.
type Line struct {
	id      LineID
	now     time.Time
	suspect bool
	last    int64 // highest Seq that was given
	tickets []Ticket
	put     map[int64]bool // Seqs of tickets that are new or changed
	gone    []int64        // Seqs of tickets that were stored
	fresh   map[int64]bool // Seqs that were not
}

// NewLine opens a line. Those who are too old or have vanished are dropped first, so that
// nobody waits behind them, unless the clock cannot be believed.
func NewLine(l LoadedLine) *Line {
	line := &Line{id: l.ID, now: l.Now, suspect: l.ClockSuspect, put: map[int64]bool{}, fresh: map[int64]bool{}}
	if n := len(l.Tickets); n > 0 {
		line.last = l.Tickets[n-1].Seq
	}
	for _, t := range l.Tickets {
		if !l.ClockSuspect && t.Lapsed(l.Now) {
			line.gone = append(line.gone, t.Seq)
			continue
		}
		line.tickets = append(line.tickets, t)
	}
	return line
}

// Now is the ledger's time in this transaction.
func (l *Line) Now() time.Time { return l.now }

// Join puts a ticket at the end of the line, and is Ask for one that is in it already. A line
// that is full takes nobody else.
func (l *Line) Join(id ID, times int64, terms LineTerms, o Opening) (Standing, error) {
	if l.suspect {
		return Standing{}, ErrClock
	}
	if l.find(id) >= 0 {
		return l.Ask(id, times, o)
	}
	switch {
	case id.Version() != 7:
		return Standing{}, refuse(CodeInvalid, id, "ticket_id", "a UUID of version 7")
	case times < 1:
		return Standing{}, refuse(CodeInvalid, id, "times", "1 or more")
	case idTime(id).Before(l.now.Add(-joinWithin)):
		return Standing{}, refuse(CodeTooOld, id, "ticket_id", "an id of the last %s", joinWithin)
	case len(l.tickets) >= terms.MaxTickets:
		return Standing{}, refuse(CodeLineFull, id, "ticket_id", "at most %d in one line", terms.MaxTickets)
	}
	l.last++
	l.fresh[l.last] = true
	l.tickets = append(l.tickets, Ticket{ID: id, Seq: l.last, Times: times, JoinedAt: l.now, EndsAt: l.now.Add(terms.MaxAge)})
	return l.stand(len(l.tickets)-1, o), nil
}

// Ask tells a ticket its place, and keeps it there for as long as it is told to wait and the
// patience of the line.
func (l *Line) Ask(id ID, times int64, o Opening) (Standing, error) {
	if l.suspect {
		return Standing{}, ErrClock
	}
	i := l.find(id)
	if i < 0 {
		return Standing{Gone: true, Waiting: len(l.tickets)}, nil
	}
	if l.tickets[i].Times != times {
		return Standing{}, refuse(CodeTerms, id, "times", "%d, as the ticket joined", l.tickets[i].Times)
	}
	return l.stand(i, o), nil
}

// Leave takes a ticket out of the line, if it is there.
func (l *Line) Leave(id ID) Standing {
	if i := l.find(id); i >= 0 {
		seq := l.tickets[i].Seq
		l.tickets = slices.Delete(l.tickets, i, i+1)
		delete(l.put, seq)
		if !l.fresh[seq] {
			l.gone = append(l.gone, seq)
		}
	}
	return Standing{Gone: true, Waiting: len(l.tickets)}
}

func (l *Line) find(id ID) int {
	return slices.IndexFunc(l.tickets, func(t Ticket) bool { return t.ID == id })
}

// stand decides on the ticket at place i. It goes if there is room for all before it and for
// itself, so that several may go at once and none takes what another is before it for. The
// head always may: whether it passes is for the quotas to say, and nobody else would ask.
func (l *Line) stand(i int, o Opening) Standing {
	var wait time.Duration
	t := &l.tickets[i]
	s := Standing{Place: i, Waiting: len(l.tickets), ExpiresIn: t.EndsAt.Sub(l.now)}
	s.Admitted = !o.Denied && (i == 0 || l.upTo(i) <= o.Room)
	if !s.Admitted {
		wait = max(o.Wait, 0) + behind(i)
		// Who would come when it is too old comes once more before.
		wait = min(wait, max(s.ExpiresIn/2, lineFirst))
	}
	t.AskedAt, t.AskBy = l.now, l.now.Add(wait+LinePatience)
	s.RetryIn = t.AskAt(i).Sub(l.now)
	l.put[t.Seq] = true
	return s
}

// upTo is how often the operation is wanted by the tickets up to and including that at i.
func (l *Line) upTo(i int) int64 {
	var sum int64
	for _, t := range l.tickets[:i+1] {
		if t.Times > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += t.Times
	}
	return sum
}

// Tickets are those in the line, in its order. They are read only.
func (l *Line) Tickets() []Ticket { return l.tickets }

// LineChanges is what a store writes.
type LineChanges struct {
	Put  []Ticket // new, or asked about
	Gone []int64  // Seqs of stored tickets
	LineState
}

// Changes returns what this line did.
func (l *Line) Changes() LineChanges {
	c := LineChanges{Gone: l.gone, LineState: StateOfLine(l.id, l.tickets)}
	for _, t := range l.tickets {
		if l.put[t.Seq] {
			c.Put = append(c.Put, t)
		}
	}
	return c
}

// LineState is a line in short.
type LineState struct {
	ID       LineID
	Tickets  int
	Oldest   time.Time // when the head joined
	LapsesAt time.Time // when the first ticket lapses, unless it is asked about
}

// StateOfLine sums a line up.
func StateOfLine(id LineID, tickets []Ticket) LineState {
	s := LineState{ID: id, Tickets: len(tickets)}
	for i, t := range tickets {
		if i == 0 {
			s.Oldest = t.JoinedAt
		}
		for _, at := range []time.Time{t.AskBy, t.EndsAt} {
			if s.LapsesAt.IsZero() || at.Before(s.LapsesAt) {
				s.LapsesAt = at
			}
		}
	}
	return s
}
