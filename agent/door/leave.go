package door

import (
	"context"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Departure gives up a place in the line of a tenant's operation.
type Departure struct{ Tenant, Operation, Ticket string }

// Leave tells the agent that a caller waits no more.
func Leave(ctx context.Context, a Agent, d Departure) error {
	if err := quota.ValidateTenant(d.Tenant); err != nil {
		return err
	}
	if quota.ValidateDimension(d.Operation) != nil {
		return &quota.FieldError{Field: "operation", Allowed: "that of the ticket"}
	}
	if d.Ticket == "" {
		return &quota.FieldError{Field: "ticket", Allowed: "one that a denial gave"}
	}
	return a.LeaveTurn(ctx, d.Ticket, d.Tenant, d.Operation)
}
