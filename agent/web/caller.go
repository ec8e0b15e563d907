package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/identity"
)

type callerKey struct{}

// verified lets only callers pass who are known to be a tenant, where the agent is told so. Who
// they are is known before a byte of the body is read.
func (h *handler) verified(next http.HandlerFunc) http.Handler {
	if !h.verify {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, err := h.identity.Tenant(identity.OfRequest(r, time.Now()))
		if err != nil {
			w.Header().Set("Cache-Control", "no-store")
			unknown(w, err)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, tenant)))
	})
}

// own holds the tenant that a body names to the caller, where callers are known.
func own(r *http.Request, tenant *string) (err error) {
	if caller, known := r.Context().Value(callerKey{}).(string); known {
		*tenant, err = identity.Own(caller, *tenant)
	}
	return err
}

// unknown answers a request that is nobody's.
func unknown(w http.ResponseWriter, err error) {
	var refused *identity.RefusedError
	if errors.As(err, &refused) {
		w.Header().Set("WWW-Authenticate", refused.Challenge())
	}
	answer.Refuse(w, http.StatusUnauthorized, "", err.Error())
}
