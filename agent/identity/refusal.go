package identity

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Source is where a tenant's identity comes from.
type Source string

// The sources, and what a refusal has that is of no single one.
const (
	Proxy       Source = "proxy"
	Certificate Source = "certificate"
	Token       Source = "token"
	APIKey      Source = "api_key"
	Several     Source = "several" // that differ
	None        Source = "none"
)

// Reason is why a source is refused, in one word of a few: what a metric can be told.
type Reason string

// The reasons.
const (
	Absent    Reason = "absent"     // the request brings no evidence
	Ambiguous Reason = "ambiguous"  // given more than once, or it names more than one tenant
	Untimely  Reason = "untimely"   // expired, not valid yet, or never to expire
	Malformed Reason = "malformed"  // no token of an allowed kind
	Unknown   Reason = "unknown"    // a key, a signer or a proxy that is not on the list
	Elsewhere Reason = "elsewhere"  // a token of another issuer, or for another audience
	Nameless  Reason = "nameless"   // a good token that names no tenant
	BadTenant Reason = "bad_tenant" // it names what can be no tenant
)

func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quotalease_agent_identity_refused_total",
		Help: "Requests of which it is not known whose they are, by the source of identity that was refused. Source none, reason absent: they bring no identity.",
	}, []string{"source", "reason"})
}

// refuse completes a refusal, and counts it. No label has a word of the caller's.
func (v *Verifier) refuse(source Source, err error) error {
	var r *RefusedError
	if !errors.As(err, &r) {
		return err
	}
	r.Source, r.tokens = source, v.token != nil
	if v.refusals != nil {
		v.refusals.WithLabelValues(string(r.Source), string(r.Reason)).Inc()
	}
	return r
}
