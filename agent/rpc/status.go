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
	"github.com/quotalease/quotalease/agent/identity"
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

// cause is why a request got no decision.
type cause struct {
	code    codes.Code
	field   *quota.FieldError // that is wrong with the request; nil: none
	retryIn time.Duration     // of an outage
}

func causeOf(err error) cause {
	var unknown *agent.UnknownIDError
	var field *quota.FieldError
	retryIn, outage := door.Outage(err)
	switch {
	case errors.As(err, &unknown):
		return cause{code: codes.NotFound, field: &unknown.FieldError}
	case errors.Is(err, identity.ErrOthers) && errors.As(err, &field):
		return cause{code: codes.PermissionDenied, field: field}
	case errors.As(err, &field):
		return cause{code: codes.InvalidArgument, field: field}
	case outage:
		return cause{code: codes.Unavailable, retryIn: retryIn}
	case errors.Is(err, context.Canceled):
		return cause{code: codes.Canceled}
	case errors.Is(err, context.DeadlineExceeded):
		return cause{code: codes.DeadlineExceeded}
	}
	return cause{code: codes.Internal}
}

// ErrorStatus is the status of a request that got no decision.
func ErrorStatus(key quota.Key, err error) error {
	switch c := causeOf(err); {
	case c.field != nil:
		return withDetails(c.code, err.Error(), badField(c.field))
	case c.code == codes.Unavailable:
		return withDetails(c.code, err.Error(), infoOf(key, quota.Unavailable), &errdetails.RetryInfo{RetryDelay: durationpb.New(c.retryIn)})
	default:
		return status.Error(c.code, err.Error())
	}
}

// faultOf says the same of one of many.
func faultOf(err error) *pb.TakeFault {
	c := causeOf(err)
	f := &pb.TakeFault{Code: int32(c.code), Message: err.Error(), RetryAfterMs: agent.RoundUp(c.retryIn, time.Millisecond)}
	if c.field != nil {
		f.Field, f.Allowed = c.field.Field, c.field.Allowed
	}
	return f
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
	reply := &pb.TakeReply{}
	writeReply(reply, &d)
	return reply
}

func writeReply(reply *pb.TakeReply, d *agent.Decision) {
	reply.Allowed, reply.Reason, reply.Dimension, reply.Shadow = d.Allowed, string(d.Reason), d.Dimension, d.Shadow
	reply.Limit, reply.Remaining, reply.Largest = int64(d.Limit.Units), max(0, int64(d.Remaining)), int64(d.Largest)
	reply.RetryAfterMs, reply.ResetMs = agent.RoundUp(d.RetryIn, time.Millisecond), agent.RoundUp(d.Reset, time.Millisecond)
	reply.PolicyVersion = d.PolicyVersion
	if d.Limit.Unlimited {
		reply.Limit = -1
	}
	if t := d.Ticket; t != nil {
		reply.Ticket = &pb.Ticket{Id: t.ID, Place: t.Place, RetryAfterMs: agent.RoundUp(t.RetryIn, time.Millisecond), ExpiresMs: t.Expires.Milliseconds()}
	}
}
