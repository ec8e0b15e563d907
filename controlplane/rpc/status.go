package rpc

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// statusOf chooses the code of an error. An outage is UNAVAILABLE whatever caused it: agents
// try again elsewhere, and never take it for a denial.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if violations := violationsOf(err); len(violations) > 0 {
		return withDetails(codes.InvalidArgument, err, &errdetails.BadRequest{FieldViolations: violations})
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	for _, c := range []struct {
		target error
		code   codes.Code
	}{
		{controlplane.ErrUnavailable, codes.Unavailable},
		{ledger.ErrClock, codes.Unavailable},
		{policy.ErrNoPolicy, codes.NotFound},
		{policy.ErrNoVersion, codes.NotFound},
		{policy.ErrNoOverride, codes.NotFound},
		{policy.ErrUnknownDimension, codes.NotFound},
		{policy.ErrUnknownTenant, codes.NotFound},
		{policy.ErrConflict, codes.Aborted},
		{ledger.ErrStalePolicy, codes.Aborted},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		if errors.Is(err, c.target) {
			return c.code
		}
	}
	if s, ok := status.FromError(err); ok {
		return s.Code() // what a stream's Send returned
	}
	return codes.Internal
}

// maxViolations keeps a refusal of a large policy within what a client accepts as trailers.
const maxViolations = 50

// violationsOf lists the fields that a request got wrong.
func violationsOf(err error) []*errdetails.BadRequest_FieldViolation {
	var field *quota.FieldError
	var faults policy.Faults
	var protocol *ledger.ProtocolError
	switch {
	case errors.As(err, &field):
		return []*errdetails.BadRequest_FieldViolation{{Field: field.Field, Description: field.Allowed}}
	case errors.As(err, &protocol):
		return []*errdetails.BadRequest_FieldViolation{{Field: protocol.Field, Description: protocol.Allowed}}
	case errors.As(err, &faults):
		var all []*errdetails.BadRequest_FieldViolation
		for _, f := range faults[:min(len(faults), maxViolations)] {
			all = append(all, &errdetails.BadRequest_FieldViolation{Field: placeOf(f), Description: f.Error()})
		}
		return all
	}
	return nil
}

func placeOf(f policy.Fault) string {
	place := f.File
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	if f.Field != "" {
		place += ": " + f.Field
	}
	return place
}

// maxMessage keeps a status within what a client accepts as trailers.
const maxMessage = 2048

func withDetails(code codes.Code, err error, details ...protoadapt.MessageV1) error {
	message := err.Error()
	if len(message) > maxMessage {
		message = message[:maxMessage] + " ..."
	}
	plain := status.New(code, message)
	detailed, detailErr := plain.WithDetails(details...)
	if detailErr != nil {
		return plain.Err()
	}
	return detailed.Err()
}
