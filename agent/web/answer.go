package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
)

// reason is why a request got no decision. What is not a fault of the request is an outage or a
// fault of ours, and never looks like a denial.
type reason struct {
	status         int
	field, allowed string        // of a refusal
	retryIn        time.Duration // of an outage
}

func reasonOf(err error) reason {
	var unknown *agent.UnknownIDError
	var field *quota.FieldError
	retryIn, out := door.Outage(err)
	switch {
	case errors.As(err, &unknown):
		return reason{status: http.StatusNotFound, field: unknown.Field, allowed: unknown.Allowed}
	case errors.Is(err, identity.ErrOthers) && errors.As(err, &field):
		return reason{status: http.StatusForbidden, field: field.Field, allowed: field.Allowed}
	case errors.As(err, &field):
		return reason{status: http.StatusBadRequest, field: field.Field, allowed: field.Allowed}
	case out:
		return reason{status: http.StatusServiceUnavailable, retryIn: retryIn}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller has left
		return reason{status: http.StatusServiceUnavailable, retryIn: time.Second}
	}
	return reason{status: http.StatusInternalServerError, allowed: "no decision was made"}
}

// noDecision answers a request that got none.
func (h *handler) noDecision(w http.ResponseWriter, err error) {
	r := reasonOf(err)
	if r.status == http.StatusServiceUnavailable {
		answer.Unavailable(w, r.retryIn)
		return
	}
	answer.Refuse(w, r.status, r.field, r.allowed)
}

// body is what the request would have been answered.
func (r reason) body() any {
	if r.status == http.StatusServiceUnavailable {
		return answer.OutageOf(r.retryIn)
	}
	return answer.RefusalOf(r.status, r.field, r.allowed)
}
