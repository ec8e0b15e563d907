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

// noDecision answers a request that got none. What is not a fault of the request is an outage
// or a fault of ours, and never looks like a denial.
func (h *handler) noDecision(w http.ResponseWriter, err error) {
	var unknown *agent.UnknownIDError
	var field *quota.FieldError
	retryIn, out := door.Outage(err)
	switch {
	case errors.As(err, &unknown):
		answer.Refuse(w, http.StatusNotFound, unknown.Field, unknown.Allowed)
	case errors.Is(err, identity.ErrOthers) && errors.As(err, &field):
		answer.Refuse(w, http.StatusForbidden, field.Field, field.Allowed)
	case errors.As(err, &field):
		answer.Refuse(w, http.StatusBadRequest, field.Field, field.Allowed)
	case out:
		answer.Unavailable(w, retryIn)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller has left
		answer.Unavailable(w, time.Second)
	default:
		answer.Refuse(w, http.StatusInternalServerError, "", "no decision was made")
	}
}
