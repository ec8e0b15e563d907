package controlplane

import (
	"errors"
	"fmt"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// ErrUnavailable is an outage: nothing was decided, and the same request may be sent again.
// It is never a denial.
var ErrUnavailable = errors.New("control plane is unavailable")

// outage marks an error of a store as an outage. Whatever a store returns that the rules did
// not say is one.
func outage(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}

// invalid names a field of a request and what is allowed there.
func invalid(field, format string, args ...any) error {
	return &quota.FieldError{Field: field, Allowed: fmt.Sprintf(format, args...)}
}

// Codes of faults that policy, not the ledger, finds.
const (
	codeUnknownDimension ledger.Code = "unknown_dimension"
	codeUnknownTenant    ledger.Code = "unknown_tenant"
)

func fault(code ledger.Code, field, allowed string) *pb.Fault {
	return &pb.Fault{Code: string(code), Field: field, Allowed: allowed}
}

// faultOf tells an agent what is wrong with one item. It returns nil for an error that is not
// the item's own.
func faultOf(err error) *pb.Fault {
	var protocol *ledger.ProtocolError
	var field *quota.FieldError
	switch {
	case errors.As(err, &protocol):
		return fault(protocol.Code, protocol.Field, protocol.Allowed)
	case errors.As(err, &field):
		return fault(ledger.CodeInvalid, field.Field, field.Allowed)
	case errors.Is(err, policy.ErrUnknownDimension):
		return fault(codeUnknownDimension, "dimension", "a dimension that policy defines")
	case errors.Is(err, policy.ErrUnknownTenant):
		return fault(codeUnknownTenant, "tenant", "a tenant that policy lists")
	}
	return nil
}
