package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Words of what happens to a denied caller of an operation.
const (
	onDenyDeny  = "deny"
	onDenyDefer = "defer"
)

// Defaults and ranges of the defer block. A line is read whole with every step of a ticket.
const (
	defaultMaxAge     = time.Hour
	minMaxAge         = time.Second
	maxMaxAge         = 31 * 24 * time.Hour
	defaultMaxTickets = 1_000
	maxMaxTickets     = 10_000
)

// Deferral says how denied callers of an operation wait their turn.
type Deferral struct {
	MaxAge     time.Duration // of a ticket
	MaxTickets quota.Units   // of one tenant's line
}

// deferral reads what happens to who is denied, nil if that is all.
func (o object) deferral() *Deferral {
	waits := false
	if f, ok := o.get("on_deny"); ok {
		word, _ := f.word(onDenyDeny, onDenyDefer)
		waits = word == onDenyDefer
	}
	f, given := o.get("defer")
	if !waits {
		if given {
			f.refuse("has no meaning with on_deny "+onDenyDeny, "only with on_deny "+onDenyDefer)
		}
		return nil
	}
	d := &Deferral{MaxAge: defaultMaxAge, MaxTickets: defaultMaxTickets}
	if !given {
		return d
	}
	in, ok := f.object("max_age", "max_tickets")
	if !ok {
		return d
	}
	if f, ok := in.get("max_age"); ok {
		d.MaxAge, _ = f.duration(spanOf(minMaxAge, maxMaxAge, ""))
	}
	if f, ok := in.get("max_tickets"); ok {
		allowed := fmt.Sprintf("a whole number from 1 to %d", maxMaxTickets)
		if d.MaxTickets, ok = f.whole(1, allowed); ok && d.MaxTickets > maxMaxTickets {
			f.refuse(fmt.Sprintf("%d is too large", d.MaxTickets), allowed)
		}
	}
	return d
}

// checkDeferral looks at a dimension that callers may wait for.
func (t taking) checkDeferral(d *Dimension) {
	w := t.waits
	switch {
	case w == nil:
	case d.Kind == quota.Concurrency:
		w.at.refuse("dimension "+d.Name+" is a concurrency limit, for which callers wait when they acquire",
			onDenyDeny+", or an operation without concurrency limits")
	case d.Kind == quota.Period && d.Period.Shortest() > w.d.MaxAge:
		w.at.warn(fmt.Sprintf("a ticket is too old after %s, and the window of %s is a %s: who is denied early in it waits in vain, unless units come back",
			short(w.d.MaxAge), d.Name, d.Period.Every()))
	}
}

// waiting is where an operation says that callers may wait.
type waiting struct {
	d  *Deferral
	at value
}

// facts are what a change of the policy is told by.
func (d *Deferral) facts() []fact {
	if d == nil {
		return []fact{optional("on_deny", onDenyDeny, onDenyDeny), optional("defer.max_age", none, none), optional("defer.max_tickets", none, none)}
	}
	return []fact{factOf("on_deny", onDenyDefer), factOf("defer.max_age", short(d.MaxAge)), factOf("defer.max_tickets", formatUnits(d.MaxTickets))}
}
