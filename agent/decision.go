package agent

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Decision is the answer to a take. A denial is a value; an outage is an error (see
// UnavailableError).
//
// Its size is a multiple of 16 bytes: that is how it is copied, and a copy of what is not ends in two
// moves that overlap, which the copy after it has to wait for.
type Decision struct {
	Allowed       bool
	Shadow        bool         // the limit is only watched
	Dimension     string       // of the key that decided: the denier, or, of several that passed, the one with the least left
	Reason        quota.Reason // why denied; or what is special about the allowance (open_mode, extended, cold)
	Limit         quota.Limit  // of the key's window
	Remaining     quota.Units  // as this agent knows it, never negative; 0 without a limit, where it means nothing
	RetryIn       time.Duration
	Reset         time.Duration // until the window ends; 0: not known, or never
	Window        time.Duration // how long the window is in all; 0: not known, or endless
	Largest       quota.Units   // with too_large: the largest cost that can pass
	PolicyVersion int64
	Ticket        *Ticket // of a denial: the caller may wait its turn; RetryIn is then the ticket's
}

// UnavailableError is an outage: the ledger cannot be asked and policy says not to go on
// without it. It is never a denial: the quota may well have room.
type UnavailableError struct {
	Key     quota.Key
	RetryIn time.Duration
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("take %s: the control plane cannot be reached and no units are in hand", e.Key)
}

// UnknownIDError is a *quota.FieldError about an id that this agent never gave, or has forgotten.
type UnknownIDError = core.UnknownIDError

// ErrStopped is returned by takes after the agent has stopped.
var ErrStopped = errors.New("the agent has stopped")

// MaxCost is the largest cost of one take.
const MaxCost = quota.MaxCost

// ValidateCost refuses what no take may cost.
func ValidateCost(cost int64) error {
	if cost < 0 || cost > MaxCost {
		return &quota.FieldError{Field: "cost", Allowed: "a whole number from 0 to " + strconv.Itoa(MaxCost)}
	}
	return nil
}

func decision(dimension string, t *core.Taken) Decision {
	d := Decision{Allowed: t.Allowed, Reason: t.Reason, RetryIn: t.RetryIn, Largest: quota.Units(t.Largest)}
	d.Dimension = dimension
	d.know(t.Limit, t.Remaining, t.Version, t.Reset, t.Window)
	return d
}

// know says of a key what is said whatever the verdict.
func (d *Decision) know(limit, remaining, version int64, reset, window time.Duration) {
	d.Limit.Units, d.Limit.Unlimited = quota.Units(max(0, limit)), limit < 0
	d.Remaining, d.Reset, d.Window, d.PolicyVersion = quota.Units(remaining), reset, window, version
}

// RetryAfter is RetryIn in whole seconds, rounded up, at least 1; 0 if no moment is known.
func (d Decision) RetryAfter() int64 { return RoundUp(d.RetryIn, time.Second) }

// RoundUp counts d in whole units: who waits exactly as long as told must not come too early.
func RoundUp(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/unit) + 1
}
