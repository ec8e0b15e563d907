package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
)

var (
	lineOf    = ledger.LineID{Tenant: "acme", Operation: "start_export"}
	lineTerms = ledger.LineTerms{MaxAge: time.Hour, MaxTickets: 3}
)

// lineWorld is a line between transactions.
type lineWorld struct {
	t       rapid.TB
	now     time.Time
	tickets []ledger.Ticket
}

// step runs fn in a transaction of its own and stores what it changed, as a store does.
func (w *lineWorld) step(fn func(*ledger.Line) (ledger.Standing, error)) (ledger.Standing, error) {
	line := ledger.NewLine(ledger.LoadedLine{ID: lineOf, Now: w.now, Tickets: slices.Clone(w.tickets)})
	s, err := fn(line)
	if err != nil {
		return s, err
	}
	c := line.Changes()
	kept := slices.DeleteFunc(slices.Clone(w.tickets), func(t ledger.Ticket) bool { return slices.Contains(c.Gone, t.Seq) })
	for _, p := range c.Put {
		if i := slices.IndexFunc(kept, func(t ledger.Ticket) bool { return t.Seq == p.Seq }); i >= 0 {
			kept[i] = p
		} else {
			kept = append(kept, p)
		}
	}
	if !slices.Equal(kept, line.Tickets()) {
		w.t.Fatalf("the changes %+v make %+v of %+v, and the line is %+v", c, kept, w.tickets, line.Tickets())
	}
	w.tickets = kept
	return s, nil
}

func (w *lineWorld) join(id ledger.ID, times int64, o ledger.Opening) (ledger.Standing, error) {
	return w.step(func(l *ledger.Line) (ledger.Standing, error) { return l.Join(id, times, lineTerms, o) })
}

func (w *lineWorld) ask(id ledger.ID, times int64, o ledger.Opening) (ledger.Standing, error) {
	return w.step(func(l *ledger.Line) (ledger.Standing, error) { return l.Ask(id, times, o) })
}

func (w *lineWorld) leave(id ledger.ID) ledger.Standing {
	s, err := w.step(func(l *ledger.Line) (ledger.Standing, error) { return l.Leave(id), nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *lineWorld) id(serial uint64) ledger.ID { return idAt(w.now, serial) }

func newLineWorld(t rapid.TB) *lineWorld {
	return &lineWorld{t: t, now: time.UnixMilli(1_800_000_000_000)}
}

func TestR4_5TicketsGoWhenThereIsRoomForAllBeforeThem(t *testing.T) {
	t.Parallel()
	w := newLineWorld(t)
	ids := []ledger.ID{w.id(1), w.id(2), w.id(3)}
	for i, times := range []int64{1, 3, 2} {
		s, err := w.join(ids[i], times, ledger.Opening{Denied: true, Wait: time.Minute})
		if err != nil || s.Place != i || s.Admitted || s.RetryIn != time.Minute+100*time.Millisecond+time.Duration(i)*20*time.Millisecond {
			t.Fatalf("ticket %d: %+v, %v", i, s, err)
		}
	}
	for _, c := range []struct {
		room     int64
		admitted [3]bool
	}{
		{0, [3]bool{true, false, false}}, // the head always may
		{3, [3]bool{true, false, false}}, // 1 + 3 do not fit
		{4, [3]bool{true, true, false}},
		{5, [3]bool{true, true, false}},
		{6, [3]bool{true, true, true}},
	} {
		for i, times := range []int64{1, 3, 2} {
			s, err := w.ask(ids[i], times, ledger.Opening{Room: c.room})
			if err != nil || s.Admitted != c.admitted[i] || (s.RetryIn == 0) != s.Admitted {
				t.Errorf("room for %d, ticket %d: %+v, %v", c.room, i, s, err)
			}
		}
	}
	if s := w.leave(ids[0]); !s.Gone || s.Waiting != 2 {
		t.Errorf("left: %+v", s)
	}
	if s, err := w.ask(ids[1], 3, ledger.Opening{}); err != nil || s.Place != 0 || !s.Admitted {
		t.Errorf("the next: %+v, %v", s, err)
	}
	if s, err := w.ask(ids[1], 3, ledger.Opening{Room: 100, Denied: true, Wait: time.Second}); err != nil || s.Admitted || s.RetryIn != 1100*time.Millisecond {
		t.Errorf("denied just now: %+v, %v", s, err)
	}
}

func TestR4_5WhoVanishedOrIsTooOldBlocksNobody(t *testing.T) {
	t.Parallel()
	w := newLineWorld(t)
	head, next := w.id(1), w.id(2)
	told, err := w.join(head, 1, ledger.Opening{Denied: true})
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(5 * time.Second)
	if _, err := w.join(next, 1, ledger.Opening{}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(told.RetryIn + ledger.LinePatience - 5*time.Second - time.Microsecond)
	if s, err := w.ask(next, 1, ledger.Opening{}); err != nil || s.Place != 1 || s.Admitted {
		t.Errorf("before the head's patience is over: %+v, %v", s, err)
	}
	w.now = w.now.Add(time.Microsecond)
	if s, err := w.ask(next, 1, ledger.Opening{}); err != nil || s.Place != 0 || !s.Admitted {
		t.Errorf("after it: %+v, %v", s, err)
	}
	if s, err := w.ask(head, 1, ledger.Opening{}); err != nil || !s.Gone || s.Waiting != 1 {
		t.Errorf("the head came back: %+v, %v, want it gone", s, err)
	}
	began := w.tickets[0].JoinedAt
	for w.now.Sub(began) < time.Hour-time.Second { // asks as told, until it is too old
		s, err := w.ask(next, 1, ledger.Opening{Denied: true, Wait: 20 * time.Minute})
		if err != nil || s.Gone || s.ExpiresIn != time.Hour-w.now.Sub(began) {
			t.Fatalf("after %s: %+v, %v", w.now.Sub(began), s, err)
		}
		w.now = w.now.Add(s.RetryIn)
	}
	w.now = began.Add(time.Hour)
	if s, err := w.ask(next, 1, ledger.Opening{Room: 9}); err != nil || !s.Gone || s.Waiting != 0 {
		t.Errorf("after an hour: %+v, %v, want it gone", s, err)
	}
}

func TestR4_5ALineRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	w := newLineWorld(t)
	for i := range 3 {
		if _, err := w.join(w.id(uint64(i)), 1, ledger.Opening{}); err != nil {
			t.Fatal(err)
		}
	}
	v4 := w.id(9)
	v4.SetVersion(4)
	before := slices.Clone(w.tickets)
	for _, c := range []struct {
		id    ledger.ID
		times int64
		code  ledger.Code
		field string
	}{
		{w.id(3), 1, ledger.CodeLineFull, "ticket_id"},
		{w.id(0), 2, ledger.CodeTerms, "times"},
		{v4, 1, ledger.CodeInvalid, "ticket_id"},
		{w.id(3), 0, ledger.CodeInvalid, "times"},
		{idAt(w.now.Add(-61*time.Second), 1), 1, ledger.CodeTooOld, "ticket_id"},
	} {
		_, err := w.join(c.id, c.times, ledger.Opening{})
		var refused *ledger.ProtocolError
		if !errors.As(err, &refused) || refused.Code != c.code || refused.Field != c.field || !slices.Equal(w.tickets, before) {
			t.Errorf("%s x %d: %v, want %s of %s and nothing changed", c.id, c.times, err, c.code, c.field)
		}
	}
	if s, err := w.join(w.id(2), 1, ledger.Opening{}); err != nil || s.Place != 2 {
		t.Errorf("a repeat in a full line: %+v, %v", s, err)
	}
	suspect := ledger.NewLine(ledger.LoadedLine{ID: lineOf, Now: w.now.Add(2 * time.Hour), ClockSuspect: true, Tickets: w.tickets})
	if _, err := suspect.Ask(w.id(2), 1, ledger.Opening{}); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("asked while the clocks disagree: %v", err)
	}
	if _, err := suspect.Join(w.id(5), 1, lineTerms, ledger.Opening{}); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("joined while the clocks disagree: %v", err)
	}
	if len(suspect.Tickets()) != 3 {
		t.Error("tickets lapsed by a clock that cannot be believed")
	}
}

// modelTicket is a ticket as its caller remembers it.
type modelTicket struct {
	id           ledger.ID
	times        int64
	askBy, endAt time.Time
}

// Any history of steps is that of a plain list: joined at the end, dropped when its time is
// over, admitted when what is before it fits.
func TestALineIsAListWithTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, model, known := newLineWorld(t), []modelTicket{}, []ledger.ID{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 90, 16_000, 1_000_000}).Draw(t, "ms")) * time.Millisecond)
			model = slices.DeleteFunc(model, func(m modelTicket) bool { return !w.now.Before(m.askBy) || !w.now.Before(m.endAt) })
			o := drawOpening(t)
			times := rapid.Int64Range(1, 3).Draw(t, "times")
			fresh := len(known) == 0 || rapid.Bool().Draw(t, "fresh")
			if fresh {
				known = append(known, w.id(uint64(len(known)+1)))
			}
			id := known[len(known)-1]
			if !fresh {
				id = rapid.SampledFrom(known).Draw(t, "id")
			}
			at := slices.IndexFunc(model, func(m modelTicket) bool { return m.id == id })
			if at >= 0 {
				times = model[at].times
			}
			switch rapid.SampledFrom([]string{"join", "ask", "leave"}).Draw(t, "step") {
			case "leave":
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
				if s := w.leave(id); !s.Gone || s.Waiting != len(model) {
					t.Fatalf("left a line of %d: %+v", len(model), s)
				}
				continue
			case "ask":
				s, err := w.ask(id, times, o)
				switch {
				case err != nil:
					t.Fatal(err)
				case at >= 0:
					checkStanding(t, w.now, model, at, o, s)
				case !s.Gone || s.Admitted:
					t.Fatalf("asked for a ticket that is not there: %+v", s)
				}
			case "join":
				s, err := w.join(id, times, o)
				if at < 0 {
					if full, late := len(model) == lineTerms.MaxTickets, !fresh; full || err != nil {
						if err == nil || !full && !late {
							t.Fatalf("joined a line of %d: %+v, %v", len(model), s, err)
						}
						continue
					}
					at = len(model)
					model = append(model, modelTicket{id: id, times: times, endAt: w.now.Add(lineTerms.MaxAge)})
				} else if err != nil {
					t.Fatal(err)
				}
				checkStanding(t, w.now, model, at, o, s)
			}
		}
	})
}

func drawOpening(t *rapid.T) ledger.Opening {
	return ledger.Opening{
		Room: rapid.Int64Range(0, 8).Draw(t, "room"), Denied: rapid.Bool().Draw(t, "denied"),
		Wait: time.Duration(rapid.SampledFrom([]int64{0, 300, 4_000_000}).Draw(t, "wait")) * time.Millisecond,
	}
}

// checkStanding compares what a ticket was told with its place in the list, and notes by when
// it has to ask again.
func checkStanding(t *rapid.T, now time.Time, model []modelTicket, at int, o ledger.Opening, s ledger.Standing) {
	sum := int64(0)
	for _, m := range model[:at+1] {
		sum += m.times
	}
	admitted := !o.Denied && (at == 0 || sum <= o.Room)
	left := model[at].endAt.Sub(now)
	if s.Place != at || s.Waiting != len(model) || s.Admitted != admitted || s.Gone || s.ExpiresIn != left {
		t.Fatalf("ticket %d of %d, with room for %d of %d: %+v", at, len(model), o.Room, sum, s)
	}
	// It keeps its place until there is room, and its turn, as far as anybody knows now; but it is
	// told to look sooner, in case a limit is raised: of the first sixteen each minute.
	var wait, told time.Duration
	if !admitted {
		turn := min(100*time.Millisecond+time.Duration(at)*20*time.Millisecond, 30*time.Second)
		wait = min(o.Wait+turn, max(left/2, 100*time.Millisecond))
		told = min(wait, max(time.Minute, time.Duration(at)*time.Minute/16)+turn)
	}
	if s.RetryIn != told {
		t.Fatalf("ticket %d is told to ask in %s, want %s: %+v", at, s.RetryIn, told, o)
	}
	model[at].askBy = now.Add(wait + ledger.LinePatience)
}
