package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// domain is that of every ErrorInfo: its reasons are quotalease's own.
const domain = "quotalease"

// DeniedStatus is the status of a denial: the answer itself, and the same again in the
// details that generic clients know.
func DeniedStatus(what, tenant string, d agent.Decision) error {
	key := quota.Key{Tenant: tenant, Dimension: d.Dimension}
	violation := &errdetails.QuotaFailure_Violation{
		Subject: "tenant:" + key.Tenant, Description: string(d.Reason), ApiService: pb.DecisionService_ServiceDesc.ServiceName,
		QuotaMetric: key.Dimension, QuotaId: key.Dimension, QuotaDimensions: map[string]string{"tenant": key.Tenant},
		QuotaValue: int64(d.Limit.Units),
	}
	details := []protoadapt.MessageV1{
		replyOf(d),
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}},
		infoOf(key, d.Reason),
	}
	if d.RetryIn > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryIn)})
	}
	return withDetails(codes.ResourceExhausted, fmt.Sprintf("%s %s: %s", what, key, d.Reason), details...)
}

// ErrorStatus is the status of a request that got no decision.
func ErrorStatus(key quota.Key, err error) error {
	var unknown *agent.UnknownIDError
	var field *quota.FieldError
	retryIn, outage := door.Outage(err)
	switch {
	case errors.As(err, &unknown):
		return withDetails(codes.NotFound, err.Error(), badField(&unknown.FieldError))
	case errors.As(err, &field):
		return withDetails(codes.InvalidArgument, err.Error(), badField(field))
	case outage:
		return withDetails(codes.Unavailable, err.Error(),
			infoOf(key, quota.Unavailable), &errdetails.RetryInfo{RetryDelay: durationpb.New(retryIn)})
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

// errorStatusOfOthers is the status of a request for another's quota than the caller's.
func errorStatusOfOthers(err error) error {
	var field *quota.FieldError
	if !errors.As(err, &field) {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return withDetails(codes.PermissionDenied, err.Error(), badField(field))
}

func badField(field *quota.FieldError) *errdetails.BadRequest {
	return &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field.Field, Description: field.Allowed}},
	}
}

func infoOf(key quota.Key, reason quota.Reason) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{
		Reason: strings.ToUpper(string(reason)), Domain: domain,
		Metadata: map[string]string{"tenant": key.Tenant, "dimension": key.Dimension},
	}
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	plain := status.New(code, message)
	detailed, err := plain.WithDetails(details...)
	if err != nil { // only a message that cannot be marshalled, or code OK
		return plain.Err()
	}
	return detailed.Err()
}

// replyOf is a decision on the wire.
func replyOf(d agent.Decision) *pb.TakeReply {
	reply := &pb.TakeReply{
		Allowed: d.Allowed, Reason: string(d.Reason), Dimension: d.Dimension, Limit: int64(d.Limit.Units), Remaining: max(0, int64(d.Remaining)),
		RetryAfterMs: agent.RoundUp(d.RetryIn, time.Millisecond), PolicyVersion: d.PolicyVersion, Shadow: d.Shadow,
		Largest: int64(d.Largest), ResetMs: agent.RoundUp(d.Reset, time.Millisecond),
	}
	if d.Limit.Unlimited {
		reply.Limit = -1
	}
	if t := d.Ticket; t != nil {
		reply.Ticket = &pb.Ticket{Id: t.ID, Place: t.Place, RetryAfterMs: agent.RoundUp(t.RetryIn, time.Millisecond), ExpiresMs: t.Expires.Milliseconds()}
	}
	return reply
}
