package ledger

import (
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// within reports that something may be decided in a window: while it lasts, and for as long
// before it begins as lead says.
func within(w quota.Window, now time.Time, lead time.Duration) bool {
	return w.Contains(now) || now.Before(w.Start) && !now.Before(w.Start.Add(-lead))
}

// startsAt is when a lease granted now may first be used; zero: at once. It is never live in
// two windows: one for the next window waits for that to begin, and none outlives its own.
func startsAt(w quota.Window, now time.Time) time.Time {
	if now.Before(w.Start) {
		return w.Start
	}
	return time.Time{}
}
