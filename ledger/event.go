package ledger

import (
	"strconv"
	"time"
)

// EventKind says what an event records.
type EventKind string

// Kinds of events. Grew, Limit, Credit, Revoked, Drained and Wanted are what agents are told
// about at once; all of them are the audit trail.
const (
	EventGrew      EventKind = "grew"      // headroom grew after somebody was denied
	EventLimit     EventKind = "limit"     // a limit changed
	EventRevoked   EventKind = "revoked"   // a lease was revoked
	EventDrained   EventKind = "drained"   // nothing is left to lease or to spend
	EventWanted    EventKind = "wanted"    // somebody needs what others hold idle
	EventMoved     EventKind = "moved"     // held units went to uncertain (3.2)
	EventOvershoot EventKind = "overshoot" // realised overshoot reached a new height (3.8)
	EventCredit    EventKind = "credit"    // an operator added to the limit of a window
	EventReleased  EventKind = "released"  // an operator moved held units to uncertain (3.7)
)

// Event is one line of the ledger's journal. Events are kept for the ledger's retention.
type Event struct {
	ID         int64 // given by the store, rising
	At         time.Time
	Kind       EventKind
	Account    AccountID
	Grant      ID // zero when the event concerns no single grant
	Agent      ID // whose grant it was, or who wants some
	Units      Units
	Generation int64
	Note       string
}

func (b *Book) record(e Event) {
	e.At = b.loaded.Now
	b.events = append(b.events, e)
}

func formatUnits(u Units) string { return strconv.FormatInt(int64(u), 10) }
