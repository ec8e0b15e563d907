package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
)

// answer is a decision as callers read it.
type answer struct {
	Allowed       bool         `json:"allowed"`
	Reason        quota.Reason `json:"reason"`
	Dimension     string       `json:"dimension"` // which decided
	Limit         any          `json:"limit"`     // a number, or the word unlimited
	Remaining     any          `json:"remaining"`
	RetryAfterMs  int64        `json:"retry_after_ms"`
	PolicyVersion int64        `json:"policy_version"`
	Shadow        bool         `json:"shadow"`
	ResetMs       int64        `json:"reset_ms"`
	Largest       *int64       `json:"largest,omitempty"` // with too_large
}

func answerOf(d agent.Decision) answer {
	a := answer{
		Allowed: d.Allowed, Reason: d.Reason, Dimension: d.Dimension, Limit: int64(d.Limit.Units), Remaining: max(0, int64(d.Remaining)),
		RetryAfterMs: agent.RoundUp(d.RetryIn, time.Millisecond), PolicyVersion: d.PolicyVersion, Shadow: d.Shadow,
		ResetMs: agent.RoundUp(d.Reset, time.Millisecond),
	}
	if d.Limit.Unlimited {
		a.Limit, a.Remaining = "unlimited", "unlimited"
	}
	if d.Reason == quota.TooLarge {
		largest := max(0, int64(d.Largest))
		a.Largest = &largest
	}
	return a
}

// The problem types of RFC 9457 that the IANA registry has for us.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem begins every answer that is no success, as RFC 9457 writes it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// denial is a decision that the answer is no.
type denial struct {
	problem
	Violated []string `json:"violated-policies"`
	answer
}

func (h *handler) deny(w http.ResponseWriter, d agent.Decision) {
	h.describe(w.Header(), d)
	if s := d.RetryAfter(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	writeProblem(w, http.StatusTooManyRequests, denial{
		problem: problem{quotaExceeded, "Request cannot be satisfied as assigned quota has been exceeded",
			http.StatusTooManyRequests, d.Dimension + ": " + why(d)},
		Violated: []string{d.Dimension}, answer: answerOf(d),
	})
}

// why is a denial's reason in words.
func why(d agent.Decision) string {
	switch d.Reason {
	case quota.Exhausted:
		return "the quota is spent"
	case quota.LeasedOut:
		return "what is left is with other agents"
	case quota.TooLarge:
		return "the cost is more than can ever pass"
	case quota.Cold:
		return "no lease has come yet"
	case quota.UnknownTenant:
		return "policy does not list the tenant"
	}
	return string(d.Reason)
}

// outage is an answer that decides nothing: what it would say of the quota is not known.
type outage struct {
	problem
	Allowed      bool         `json:"allowed"`
	Reason       quota.Reason `json:"reason"`
	RetryAfterMs int64        `json:"retry_after_ms"`
}

func unavailable(w http.ResponseWriter, retryIn time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(agent.RoundUp(retryIn, time.Second), 10))
	writeProblem(w, http.StatusServiceUnavailable, outage{
		problem: problem{reducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints",
			http.StatusServiceUnavailable, "the quota cannot be asked, and may have room"},
		Reason: quota.Unavailable, RetryAfterMs: agent.RoundUp(retryIn, time.Millisecond),
	})
}

// noDecision answers a request that got none. What is not a fault of the request is an outage
// or a fault of ours, and never looks like a denial.
func (h *handler) noDecision(w http.ResponseWriter, err error) {
	var unknown *agent.UnknownIDError
	var field *quota.FieldError
	retryIn, out := door.Outage(err)
	switch {
	case errors.As(err, &unknown):
		refuse(w, http.StatusNotFound, unknown.Field, unknown.Allowed)
	case errors.Is(err, identity.ErrOthers) && errors.As(err, &field):
		refuse(w, http.StatusForbidden, field.Field, field.Allowed)
	case errors.As(err, &field):
		refuse(w, http.StatusBadRequest, field.Field, field.Allowed)
	case out:
		unavailable(w, retryIn)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller has left
		unavailable(w, time.Second)
	default:
		refuse(w, http.StatusInternalServerError, "", "no decision was made")
	}
}

// refusal is a refusal of a request, and the field it is about.
type refusal struct {
	problem
	Field string `json:"field,omitempty"`
}

func refuse(w http.ResponseWriter, status int, field, allowed string) {
	detail := allowed
	if field != "" {
		detail = field + ": " + allowed
	}
	writeProblem(w, status, refusal{problem{"about:blank", http.StatusText(status), status, detail}, field})
}

func writeProblem(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own small structs
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a caller who has left cannot be told
}
