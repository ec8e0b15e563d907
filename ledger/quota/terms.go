package quota

import "fmt"

// Class says how exact a dimension must be, and with it where an unconfirmed remainder of
// a closed lease goes. The zero value is not a class.
type Class int16

// The four classes. Their numbers are stored: they never change.
const (
	Exact      Class = 1 // every spend is recorded before it is allowed; no leases
	Hard       Class = 2 // an unconfirmed remainder stays charged
	Bounded    Class = 3 // charged first, given back within the overshoot budget when needed
	BestEffort Class = 4 // given back at once
)

var classNames = map[Class]string{Exact: "exact", Hard: "hard", Bounded: "bounded", BestEffort: "best_effort"}

func (c Class) String() string { return nameOf(classNames, c, "class") }

// ParseClass reads a class as policy files and the protocol write it.
func ParseClass(s string) (Class, error) {
	return parse(classNames, s, "class", "exact, hard, bounded or best_effort")
}

// Kind says which question a limit answers. The zero value is not a kind.
type Kind int16

// The kinds. Their numbers are stored: they never change.
const (
	Period      Kind = 1 // how much in this window
	RateLimit   Kind = 2 // how fast, now: a rate and a burst
	Concurrency Kind = 3 // how many at once
)

var kindNames = map[Kind]string{Period: "period", RateLimit: "rate", Concurrency: "concurrency"}

func (k Kind) String() string { return nameOf(kindNames, k, "kind") }

// ParseKind reads a kind as policy files and the protocol write it.
func ParseKind(s string) (Kind, error) {
	return parse(kindNames, s, "kind", "period, rate or concurrency")
}

// Reason says why something was denied, in the words that every door uses.
type Reason string

// Reasons. Exhausted and LeasedOut are different answers: the second is retried soon.
const (
	Allowed       Reason = ""
	Exhausted     Reason = "exhausted"      // the quota of this window is spent
	LeasedOut     Reason = "leased_out"     // units are free, but in other agents' hands
	TooLarge      Reason = "too_large"      // the cost is above the whole limit
	ExactLane     Reason = "exact_lane"     // only exposure forbids a lease: spend instead
	Stale         Reason = "stale"          // the request was older than it allowed
	Cancelled     Reason = "cancelled"      // the asker withdrew it before it was decided
	Cold          Reason = "cold"           // no lease yet, and the wait for one is over
	Unavailable   Reason = "unavailable"    // the control plane cannot be reached: an outage
	UnknownTenant Reason = "unknown_tenant" // policy admits only listed tenants
	OpenMode      Reason = "open_mode"      // allowed without a lease during an outage
	Extended      Reason = "extended"       // allowed from the emergency allowance during an outage
	Waiting       Reason = "waiting"        // others wait their turn before this caller
	LineFull      Reason = "line_full"      // it would wait its turn, but as many as may do already
)

func nameOf[T ~int16](names map[T]string, v T, what string) string {
	if s, ok := names[v]; ok {
		return s
	}
	return fmt.Sprintf("%s(%d)", what, int16(v))
}

func parse[T ~int16](names map[T]string, s, field, allowed string) (T, error) {
	for v, name := range names {
		if name == s {
			return v, nil
		}
	}
	return 0, &FieldError{Field: field, Allowed: allowed}
}
