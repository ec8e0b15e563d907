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
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// domain is that of every ErrorInfo: its reasons are quotalease's own.
const domain = "quotalease"

// outagePause is what callers are told to wait in an outage whose next attempt is not known.
const outagePause = time.Second

// deniedStatus is the status of a denial: the answer itself, and the same again in the
// details that generic clients know.
func deniedStatus(key quota.Key, d agent.Decision) error {
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
	return withDetails(codes.ResourceExhausted, fmt.Sprintf("take %s: %s", key, d.Reason), details...)
}

// errorStatus is the status of a take that got no decision.
func errorStatus(key quota.Key, err error) error {
	var field *quota.FieldError
	var outage *agent.UnavailableError
	switch {
	case errors.As(err, &field):
		return withDetails(codes.InvalidArgument, err.Error(), &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field.Field, Description: field.Allowed}},
		})
	case errors.As(err, &outage):
		return outageStatus(key, err, outage.RetryIn)
	case errors.Is(err, agent.ErrStopped):
		return outageStatus(key, err, 0)
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

func outageStatus(key quota.Key, err error, retryIn time.Duration) error {
	if retryIn <= 0 {
		retryIn = outagePause
	}
	return withDetails(codes.Unavailable, err.Error(),
		infoOf(key, quota.Unavailable), &errdetails.RetryInfo{RetryDelay: durationpb.New(retryIn)})
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
		Allowed: d.Allowed, Reason: string(d.Reason), Limit: int64(d.Limit.Units), Remaining: max(0, int64(d.Remaining)),
		RetryAfterMs: agent.RoundUp(d.RetryIn, time.Millisecond), PolicyVersion: d.PolicyVersion, Shadow: d.Shadow,
		Largest: int64(d.Largest), ResetMs: agent.RoundUp(d.Reset, time.Millisecond),
	}
	if d.Limit.Unlimited {
		reply.Limit = -1
	}
	return reply
}
