package quota

import (
	"fmt"
	"time"
)

// Window is one period of a period quota, half-open: [Start, End). An endless window has
// a zero End. Times are UTC with microseconds, so windows may be compared and used as map
// keys; NewWindow makes them so.
type Window struct {
	Start time.Time
	End   time.Time
}

// NewWindow returns [start, end) in the canonical form.
func NewWindow(start, end time.Time) Window { return Window{Start: At(start), End: At(end)} }

// At returns t in the form in which the ledger keeps instants: UTC, whole microseconds
// (what Postgres stores), no monotonic reading. A zero time stays zero.
func At(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Contains reports whether t lies in the window.
func (w Window) Contains(t time.Time) bool {
	return !t.Before(w.Start) && (w.End.IsZero() || t.Before(w.End))
}

// Endless reports whether the window never ends.
func (w Window) Endless() bool { return w.End.IsZero() }

func (w Window) String() string {
	if w.Endless() {
		return "endless"
	}
	return fmt.Sprintf("%s/%s", w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339))
}
