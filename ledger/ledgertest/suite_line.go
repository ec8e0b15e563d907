package ledgertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quotalease/quotalease/ledger"
)

var (
	exports   = ledger.LineID{Tenant: "acme", Operation: "start_export"}
	lineTerms = ledger.LineTerms{MaxAge: time.Hour, MaxTickets: 10}
)

func (r *room) inLine(id ledger.LineID, fn func(*ledger.Line) error) {
	r.Helper()
	r.must(r.Store.UpdateLine(r.Context(), id, fn))
}

func (r *room) join(line ledger.LineID, id ledger.ID, times int64) (s ledger.Standing) {
	r.Helper()
	r.inLine(line, func(l *ledger.Line) (err error) {
		s, err = l.Join(id, times, lineTerms, ledger.Opening{Wait: time.Minute})
		return err
	})
	return s
}

// tickets are those in a line, in its order.
func (r *room) tickets(line ledger.LineID) (all []ledger.Ticket) {
	r.Helper()
	r.inLine(line, func(l *ledger.Line) error { all = slices.Clone(l.Tickets()); return nil })
	return all
}

func (r *room) lines() []ledger.LineState {
	r.Helper()
	all, err := r.Store.Lines(r.Context(), ledger.LineID{}, 0)
	r.must(err)
	return all
}

// lineKeepsOrder: tickets come back whole and in order, each line alone, and go without a trace.
func lineKeepsOrder(r *room) {
	ids := []ledger.ID{r.id(), r.id(), r.id()}
	slices.Reverse(ids) // the order is that of joining, not of ids
	other := ledger.LineID{Tenant: "acme", Operation: "start_import"}
	r.join(other, ids[0], 1) // the same id in another line is another ticket
	for i, id := range ids {
		if s := r.join(exports, id, int64(i+1)); s.Place != i || s.Waiting != i+1 {
			r.Errorf("ticket %d: %+v", i, s)
		}
	}
	before := r.tickets(exports)
	if again := r.join(exports, ids[1], 2); again.Place != 1 || again.Waiting != 3 {
		r.Errorf("joined again: %+v, want place 1 of 3", again)
	}
	after := r.tickets(exports)
	for i, t := range after {
		was := before[i]
		if t.ID != ids[i] || t.Seq != was.Seq || t.Times != int64(i+1) || !t.JoinedAt.Equal(was.JoinedAt) || !t.EndsAt.Equal(t.JoinedAt.Add(time.Hour)) {
			r.Errorf("ticket %d is %+v, was %+v", i, t, was)
		}
		if moved := t.AskedAt.After(was.AskedAt) && t.AskBy.After(was.AskBy); moved != (i == 1) {
			r.Errorf("ticket %d was asked about at %s and %s", i, was.AskedAt, t.AskedAt)
		}
	}
	state := ledger.StateOfLine(exports, after)
	lines := r.lines()
	if len(lines) != 2 || lines[0].ID != exports || lines[0].Tickets != 3 || !lines[0].Oldest.Equal(state.Oldest) || !lines[0].LapsesAt.Equal(state.LapsesAt) {
		r.Errorf("lines are %+v, want %+v first", lines, state)
	}
	if page, err := r.Store.Lines(r.Context(), exports, 1); err != nil || len(page) != 1 || page[0].ID != other {
		r.Errorf("the lines after %v are %+v, %v", exports, page, err)
	}
	r.inLine(exports, func(l *ledger.Line) error {
		for _, id := range []ledger.ID{ids[1], ids[0], ids[1], ids[2]} {
			l.Leave(id)
		}
		return nil
	})
	if lines := r.lines(); len(lines) != 1 || lines[0].ID != other {
		r.Errorf("lines are %+v, want none of %v", lines, exports)
	}
	if s := r.join(exports, ids[2], 1); s.Place != 0 || s.Waiting != 1 {
		r.Errorf("first again: %+v", s)
	}
}

// lineErrors: a step that is refused changes nothing, and neither does a caller that has gone.
func lineErrors(r *room) {
	first, second := r.id(), r.id()
	r.join(exports, first, 1)
	broken := errors.New("no")
	err := r.Store.UpdateLine(r.Context(), exports, func(l *ledger.Line) error {
		l.Leave(first)
		_, err := l.Join(second, 1, lineTerms, ledger.Opening{})
		return errors.Join(broken, err)
	})
	if !errors.Is(err, broken) {
		r.Errorf("the error came back as %v", err)
	}
	gone, cancel := context.WithCancel(r.Context())
	cancel()
	if err := r.Store.UpdateLine(gone, exports, func(l *ledger.Line) error { l.Leave(first); return nil }); !errors.Is(err, context.Canceled) {
		r.Errorf("a caller that has gone was told %v", err)
	}
	if all := r.tickets(exports); len(all) != 1 || all[0].ID != first {
		r.Errorf("the line is %+v, want the first ticket alone", all)
	}
	r.inLine(ledger.LineID{Tenant: "acme", Operation: "idle"}, func(l *ledger.Line) error {
		if s, err := l.Ask(first, 1, ledger.Opening{}); err != nil || !s.Gone {
			r.Errorf("a ticket of another line: %+v, %v", s, err)
		}
		return nil
	})
	if lines := r.lines(); len(lines) != 1 {
		r.Errorf("lines are %+v: asking made one", lines)
	}
}

// lineAtOnce: callers who join and leave at the same moment all get a place of their own.
func lineAtOnce(r *room) {
	const callers = 8
	ids := make([]ledger.ID, callers)
	for i := range ids {
		ids[i] = r.id()
	}
	for range 3 { // the line is made and removed between rounds
		var wg sync.WaitGroup
		var mu sync.Mutex // guards places
		places := map[int]bool{}
		for _, id := range ids {
			wg.Go(func() {
				err := r.Store.UpdateLine(r.Context(), exports, func(l *ledger.Line) error {
					s, err := l.Join(id, 1, lineTerms, ledger.Opening{})
					mu.Lock()
					defer mu.Unlock()
					places[s.Place] = true
					return err
				})
				if err != nil {
					r.Error(err)
				}
			})
		}
		wg.Wait()
		if len(places) != callers {
			r.Errorf("%d callers have the places %v", callers, places)
		}
		for _, id := range ids {
			wg.Go(func() {
				if err := r.Store.UpdateLine(r.Context(), exports, func(l *ledger.Line) error { l.Leave(id); return nil }); err != nil {
					r.Error(err)
				}
			})
		}
		wg.Wait()
		if lines := r.lines(); len(lines) != 0 {
			r.Errorf("when all have left lines are %+v", lines)
		}
	}
}

// lineLapses: tickets that are too old go by the store's own clock, and a line of such alone
// goes with whatever step looks at it next.
func lineLapses(r *room) {
	old, young := r.id(), r.id()
	r.inLine(exports, func(l *ledger.Line) error {
		_, err := l.Join(old, 1, ledger.LineTerms{MaxAge: 50 * time.Millisecond, MaxTickets: 2}, ledger.Opening{})
		return err
	})
	r.join(exports, young, 1)
	deadline := time.Now().Add(patience)
	for {
		if all := r.tickets(exports); len(all) == 1 && all[0].ID == young {
			break
		}
		if time.Now().After(deadline) {
			r.Fatalf("the line is still %+v", r.tickets(exports))
		}
	}
	if lines := r.lines(); len(lines) != 1 || lines[0].Tickets != 1 || !lines[0].Oldest.Equal(r.tickets(exports)[0].JoinedAt) {
		r.Errorf("lines are %+v, want the younger ticket alone", lines)
	}
}

// lineListed: who waits is listed by line and place, with what the line keeps of it, and whoever
// has lapsed by the moment asked about stands before nobody.
func lineListed(r *room) {
	imports, globex := ledger.LineID{Tenant: "acme", Operation: "start_import"}, ledger.LineID{Tenant: "globex", Operation: "start_export"}
	for _, line := range []ledger.LineID{globex, imports, exports} {
		for times := range 3 {
			r.join(line, r.id(), int64(times+1))
		}
	}
	now := r.tickets(exports)[2].JoinedAt
	list := func(q ledger.WaitingQuery) []ledger.Waiting {
		r.Helper()
		all, err := r.Store.Waiting(r.Context(), q)
		r.must(err)
		return all
	}
	for _, c := range []struct {
		q    ledger.WaitingQuery
		want []ledger.LineID
	}{
		{ledger.WaitingQuery{At: now}, []ledger.LineID{exports, imports, globex}},
		{ledger.WaitingQuery{At: now, Tenant: "acme"}, []ledger.LineID{exports, imports}},
		{ledger.WaitingQuery{At: now, Operation: "start_export"}, []ledger.LineID{exports, globex}},
		{ledger.WaitingQuery{At: now, Tenant: "acme", Operation: "start_import"}, []ledger.LineID{imports}},
		{ledger.WaitingQuery{At: now, Tenant: "nobody"}, nil},
		{ledger.WaitingQuery{At: now.Add(time.Hour)}, nil}, // all have lapsed
	} {
		var want []ledger.Waiting
		for _, line := range c.want {
			for place, t := range r.tickets(line) {
				want = append(want, ledger.Waiting{Line: line, Place: place, Ticket: t})
			}
		}
		if got := list(c.q); !slices.EqualFunc(got, want, sameWaiting) {
			r.Errorf("%+v: listed are\n%+v, want\n%+v", c.q, got, want)
		}
	}
	if got := list(ledger.WaitingQuery{At: now, Limit: 4}); len(got) != 4 || got[2].Place != 2 || got[3].Line != imports || got[3].Place != 0 {
		r.Errorf("the first four are %+v", got)
	}
	// The first comes again, the others have lapsed once they are over their patience.
	first := r.tickets(exports)[0]
	lapsed := r.tickets(exports)[1].AskBy
	r.inLine(exports, func(l *ledger.Line) error {
		_, err := l.Ask(first.ID, first.Times, ledger.Opening{Wait: time.Hour, Denied: true})
		return err
	})
	if got := list(ledger.WaitingQuery{At: lapsed, Tenant: "acme", Operation: "start_export"}); len(got) != 2 || got[0].ID != first.ID || got[1].Place != 1 || got[1].Times != 3 {
		r.Errorf("when the second has lapsed listed are %+v", got)
	}
}

func sameWaiting(a, b ledger.Waiting) bool {
	return a.Line == b.Line && a.Place == b.Place && a.ID == b.ID && a.Seq == b.Seq && a.Times == b.Times &&
		a.JoinedAt.Equal(b.JoinedAt) && a.AskedAt.Equal(b.AskedAt) && a.AskBy.Equal(b.AskBy) && a.EndsAt.Equal(b.EndsAt)
}
