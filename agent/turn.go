package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Ticket is a caller's place in the line of a tenant's operation. The work waits in a queue of
// the caller's own.
type Ticket struct {
	ID      string        // for TakeInTurn, at any agent
	Place   int64         // callers before this one
	RetryIn time.Duration // when to come back; much later the place is lost
	Expires time.Duration // from now; then the ticket is too old
}

// turn is one take of an operation whose callers may wait.
type turn struct {
	tenant, operation string
	times             int64
	first             string // dimension of the operation
	ticket            core.ID
	fresh             bool // the ticket is one that nobody was given yet
}

// TakeInTurn is TakeOperation for a caller who waits: it passes when its turn has come and the
// quotas have room, and is told its place and the time to come back else. A repeat of one that
// was allowed gets its decision again, as TakeOnce does with an id. A ticket that is not in the
// line (any more) is an *UnknownIDError.
func (a *Agent) TakeInTurn(ctx context.Context, ticket, tenant, operation string, times int64) (Decision, error) {
	id, err := ticketOf(ticket, tenant)
	if err != nil {
		return Decision{}, err
	}
	op, err := a.operation(operation, times)
	if err != nil {
		return Decision{}, err
	}
	r, err := a.onceOf(ctx, &a.turns, id.String(), tenant, terms{"operation " + operation, times}, func() (r Reservation, err error) {
		if op == nil || !op.Waits {
			r.Decision, err = a.takeOperation(ctx, op, tenant, operation, times)
			return r, err
		}
		r.Decision, err = a.inTurn(ctx, op, &turn{tenant: tenant, operation: operation, times: times, ticket: id})
		return r, err
	})
	return r.Decision, err
}

// LeaveTurn gives up a place in line: those behind move up, and the ticket is one that is not in
// the line. One that is not there (any more), as it was served or is too old, is left as it is: what
// was taken with it stays taken. In an outage the place is given up when nobody asks for it.
func (a *Agent) LeaveTurn(ctx context.Context, ticket, tenant, operation string) error {
	id, err := ticketOf(ticket, tenant)
	if err != nil {
		return err
	}
	if quota.ValidateDimension(operation) != nil { // policy may have dropped it: who waits may leave all the same
		return &quota.FieldError{Field: "operation", Allowed: "that of the ticket"}
	}
	t := &turn{tenant: tenant, operation: operation, ticket: id}
	s, err := a.step(ctx, t, t.item(pb.DeferItem_STEP_LEAVE, nil))
	if err == nil && s.GetFault() != nil { // a step of ours that the ledger does not understand
		err = t.outage()
	}
	return err
}

// ticketOf reads a ticket, and checks whose it is to be.
func ticketOf(ticket, tenant string) (core.ID, error) {
	id, err := uuid.FromString(ticket)
	if err != nil || id.Version() != 7 || len(ticket) > maxIDBytes {
		return core.ID{}, &quota.FieldError{Field: "ticket", Allowed: "one that a denial gave"}
	}
	return id, quota.ValidateTenant(tenant)
}

// inTurn takes an operation, unless others wait before the caller or the quotas have no room:
// then it says where in the line the caller is.
func (a *Agent) inTurn(ctx context.Context, op *core.Operation, t *turn) (Decision, error) {
	t.first = op.Takes[0].Dimension
	do := pb.DeferItem_STEP_ASK
	var denied *Decision // the last that the quotas said, if it was no
	if t.fresh = t.ticket.IsNil(); t.fresh {
		if !a.lines.waits(a.now(), lineKey{t.tenant, t.operation}) {
			d, err := a.takeOperation(ctx, op, t.tenant, t.operation, t.times)
			if err != nil || d.Allowed || !waitsFor(op, d) {
				return d, err
			}
			denied = &d
		}
		do = pb.DeferItem_STEP_JOIN
		a.mu.Lock()
		t.ticket = a.core.NewID(a.now())
		a.mu.Unlock()
	}
	for {
		s, err := a.step(ctx, t, t.item(do, denied))
		if err != nil || s.GetFault() != nil || s.GetGone() {
			return a.noPlace(ctx, op, t, s, denied, err)
		}
		if !s.GetAdmitted() {
			return a.told(t, s, denied), nil
		}
		d, err := a.takeOperation(ctx, op, t.tenant, t.operation, t.times)
		if err != nil {
			a.giveAway(t)
			return d, err
		}
		if d.Allowed || d.Reason == quota.TooLarge || d.Reason == quota.UnknownTenant { // served, or never
			a.leave(t)
			return d, nil
		}
		// Not admitted again for this denial, so that the next answer ends the loop.
		denied, do = &d, pb.DeferItem_STEP_ASK
	}
}

// waitsFor reports a denial that a line can help with: of units of the operation's own, not of a
// local limit's.
func waitsFor(op *core.Operation, d Decision) bool {
	return (d.Reason == quota.Exhausted || d.Reason == quota.LeasedOut) &&
		slices.ContainsFunc(op.Takes, func(t core.DimensionCost) bool { return t.Dimension == d.Dimension })
}

func (t *turn) item(do pb.DeferItem_Step, denied *Decision) *pb.DeferItem {
	x := &pb.DeferItem{TicketId: t.ticket.Bytes(), Tenant: t.tenant, Operation: t.operation, Times: t.times, Step: do}
	if denied != nil {
		x.Reason, x.RetryInUs = string(denied.Reason), RoundUp(denied.RetryIn, time.Microsecond)
	}
	return x
}

// told is the denial of a caller who waits.
func (a *Agent) told(t *turn, s *pb.Standing, denied *Decision) Decision {
	d := a.behind(t, s)
	if denied != nil {
		d = *denied
	}
	retryIn := time.Duration(s.GetRetryInUs()) * time.Microsecond
	d.RetryIn = retryIn
	d.Ticket = &Ticket{ID: t.ticket.String(), Place: s.GetPlace(), RetryIn: retryIn, Expires: time.Duration(s.GetExpiresInUs()) * time.Microsecond}
	return d
}

// behind is the denial of a caller whom the quotas were not asked for: as the ledger says that
// they would deny it, or because others are before it.
func (a *Agent) behind(t *turn, s *pb.Standing) Decision {
	dimension, reason := s.GetDimension(), quota.Reason(s.GetReason())
	if reason == quota.Allowed {
		dimension, reason = t.first, quota.Waiting
	}
	a.mu.Lock()
	known := a.core.Known(a.now(), quota.Key{Tenant: t.tenant, Dimension: dimension})
	a.mu.Unlock()
	d := decision(dimension, &known)
	d.Reason = reason
	a.seen.denied(dimension, reason, time.Duration(s.GetRetryInUs())*time.Microsecond)
	return d
}

// Codes of faults that steps have.
const (
	faultLineFull         = "line_full"
	faultUnknownOperation = "unknown_operation"
	faultUnknownTenant    = "unknown_tenant"
	faultTerms            = "terms_mismatch"
)

// lineFullRetry is when to try a line again that was full.
const lineFullRetry = time.Second

// noPlace answers a caller who has no place in the line, or cannot be told it.
func (a *Agent) noPlace(ctx context.Context, op *core.Operation, t *turn, s *pb.Standing, denied *Decision, err error) (Decision, error) {
	gone := &UnknownIDError{FieldError: quota.FieldError{Field: "ticket",
		Allowed: "one that is in the line: not served, not too old, and asked for in time"}}
	if err != nil {
		a.giveAway(t)
		if away := (*UnavailableError)(nil); errors.As(err, &away) {
			err = a.lineOutage(t)
		}
		return Decision{}, err
	}
	switch s.GetFault().GetCode() {
	case "":
		if t.fresh { // too large for any turn, which the quotas say too
			return a.takeOperation(ctx, op, t.tenant, t.operation, t.times)
		}
		return Decision{}, gone
	case faultLineFull:
		d := a.behind(t, s)
		if denied != nil {
			d = *denied
		}
		d.Reason, d.RetryIn = quota.LineFull, max(d.RetryIn, lineFullRetry)
		return d, nil
	case faultTerms:
		return Decision{}, &quota.FieldError{Field: "times", Allowed: s.GetFault().GetAllowed()}
	case faultUnknownTenant:
		return a.takeOperation(ctx, op, t.tenant, t.operation, t.times) // which says so
	case faultUnknownOperation: // no longer one to wait for, and this agent has not heard it yet
		switch {
		case !t.fresh:
			return Decision{}, gone
		case denied != nil:
			return *denied, nil
		}
		return a.takeOperation(ctx, op, t.tenant, t.operation, t.times)
	}
	return Decision{}, a.lineOutage(t) // a step of ours that the ledger does not understand
}

// lineOutage is what a caller is told who cannot be given a place, or told it. One that has a
// place keeps it.
func (a *Agent) lineOutage(t *turn) error {
	a.seen.unavailable(a.label(t.first))
	return t.outage()
}

func (t *turn) outage() error {
	return &UnavailableError{Key: quota.Key{Tenant: t.tenant, Dimension: t.operation}, RetryIn: time.Second}
}

// giveAway takes a ticket out of the line that its caller will never hear of.
func (a *Agent) giveAway(t *turn) {
	if t.fresh {
		a.leave(t)
	}
}

// leave takes a ticket out of the line. Nobody waits for that: it is tried until it is done, and
// if it never is, the ticket lapses.
func (a *Agent) leave(t *turn) {
	a.lines.add(&lineCall{item: t.item(pb.DeferItem_STEP_LEAVE, nil), until: a.now() + leaveFor})
}
