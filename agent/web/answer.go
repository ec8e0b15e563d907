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
	Ticket        *ticket      `json:"ticket,omitempty"`  // of a denied caller who may wait
}

// ticket is a place in a line.
type ticket struct {
	ID           string `json:"id"`
	Place        int64  `json:"place"`
	RetryAfterMs int64  `json:"retry_after_ms"`
	ExpiresMs    int64  `json:"expires_ms"`
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
	if t := d.Ticket; t != nil {
		a.Ticket = &ticket{ID: t.ID, Place: t.Place, RetryAfterMs: agent.RoundUp(t.RetryIn, time.Millisecond), ExpiresMs: t.Expires.Milliseconds()}
	}
	return a
}

// outage is an answer that decides nothing: what it would say of the quota is not known.
type outage struct {
	Allowed      bool         `json:"allowed"`
	Reason       quota.Reason `json:"reason"`
	RetryAfterMs int64        `json:"retry_after_ms"`
}

func (h *handler) deny(w http.ResponseWriter, status int, d agent.Decision) {
	h.describe(w.Header(), d)
	if s := d.RetryAfter(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	writeJSON(w, status, answerOf(d))
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

func unavailable(w http.ResponseWriter, retryIn time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(agent.RoundUp(retryIn, time.Second), 10))
	writeJSON(w, http.StatusServiceUnavailable, outage{
		Reason: quota.Unavailable, RetryAfterMs: agent.RoundUp(retryIn, time.Millisecond),
	})
}

// problem is a refusal of a request, as RFC 9457 writes it, and the field it is about.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

func refuse(w http.ResponseWriter, status int, field, allowed string) {
	detail := allowed
	if field != "" {
		detail = field + ": " + allowed
	}
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Field: field})
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
