package answer

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Decision is a decision as callers read it.
type Decision struct {
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
	Ticket        *Ticket      `json:"ticket,omitempty"`  // of a denied caller who may wait
}

// Ticket is a place in a line.
type Ticket struct {
	ID           string `json:"id"`
	Place        int64  `json:"place"`
	RetryAfterMs int64  `json:"retry_after_ms"`
	ExpiresMs    int64  `json:"expires_ms"`
}

// Of is what callers read of a decision.
func Of(d agent.Decision) Decision {
	a := Decision{
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
		a.Ticket = &Ticket{ID: t.ID, Place: t.Place, RetryAfterMs: agent.RoundUp(t.RetryIn, time.Millisecond), ExpiresMs: t.Expires.Milliseconds()}
	}
	return a
}

// The problem types of RFC 9457 that the IANA registry has for us, with their titles.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	QuotaExceededTitle   = "Request cannot be satisfied as assigned quota has been exceeded"
	ReducedCapacityTitle = "Request cannot be satisfied due to temporary server capacity constraints"
)

// Problem begins every answer that is no success, as RFC 9457 writes it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Denial is a decision that the answer is no.
type Denial struct {
	Problem
	Violated []string `json:"violated-policies"`
	Decision
}

// Deny answers a request that was denied.
func Deny(w http.ResponseWriter, headers Headers, d agent.Decision) {
	headers.Describe(w.Header(), d)
	if s := d.RetryAfter(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	writeProblem(w, http.StatusTooManyRequests, DenialOf(d))
}

// DenialOf is what callers read of a denial.
func DenialOf(d agent.Decision) Denial {
	return Denial{
		Problem: Problem{QuotaExceeded, QuotaExceededTitle,
			http.StatusTooManyRequests, d.Dimension + ": " + Why(d.Reason)},
		Violated: []string{d.Dimension}, Decision: Of(d),
	}
}

// Why is the reason of a denial or of an outage in words.
func Why(reason quota.Reason) string {
	switch reason {
	case quota.Exhausted:
		return "not enough is left"
	case quota.LeasedOut:
		return "what is left is with other agents"
	case quota.TooLarge:
		return "the cost is more than can ever pass"
	case quota.Cold:
		return "no lease has come yet"
	case quota.UnknownTenant:
		return "policy does not list the tenant"
	case quota.Waiting:
		return "others wait their turn before this caller"
	case quota.LineFull:
		return "as many as may wait their turn do already"
	case quota.Unavailable:
		return "the quota cannot be asked, and may have room"
	}
	return string(reason)
}

// Outage is an answer that decides nothing: what it would say of the quota is not known.
type Outage struct {
	Problem
	Allowed      bool         `json:"allowed"`
	Reason       quota.Reason `json:"reason"`
	RetryAfterMs int64        `json:"retry_after_ms"`
}

// Unavailable answers a request that got no decision, because of an outage.
func Unavailable(w http.ResponseWriter, retryIn time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(agent.RoundUp(retryIn, time.Second), 10))
	writeProblem(w, http.StatusServiceUnavailable, OutageOf(retryIn))
}

// OutageOf is what callers read of an outage.
func OutageOf(retryIn time.Duration) Outage {
	return Outage{
		Problem: Problem{ReducedCapacity, ReducedCapacityTitle,
			http.StatusServiceUnavailable, Why(quota.Unavailable)},
		Reason: quota.Unavailable, RetryAfterMs: agent.RoundUp(retryIn, time.Millisecond),
	}
}

// Refusal is a refusal of a request, and the field it is about.
type Refusal struct {
	Problem
	Field string `json:"field,omitempty"`
}

// Refuse answers a request that is refused for what it is. field may be empty.
func Refuse(w http.ResponseWriter, status int, field, allowed string) {
	writeProblem(w, status, RefusalOf(status, field, allowed))
}

// RefusalOf is what callers read of a refusal.
func RefusalOf(status int, field, allowed string) Refusal {
	detail := allowed
	if field != "" {
		detail = field + ": " + allowed
	}
	return Refusal{Problem{"about:blank", http.StatusText(status), status, detail}, field}
}

func writeProblem(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, body)
}

// JSON answers with a body.
func JSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, body)
}

// Allow answers with a decision that is no denial.
func Allow(w http.ResponseWriter, d agent.Decision) {
	var room [512]byte
	text, ok := appendDecision(room[:0], &d)
	if !ok {
		JSON(w, http.StatusOK, Of(d))
		return
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(text, '\n')) // a caller who has left cannot be told
}

var jsonType = []string{"application/json"} // nobody changes it

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own small structs
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a caller who has left cannot be told
}
