package httpquota

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
)

// Config says whose requests are whose, and what they take.
type Config struct {
	// Tenant is whose quota a request is charged to, by an identity that the program has
	// verified, or by what the agent's own door believes: see Verified. An error or an empty name is
	// nobody's, and answered with 401, as is everybody without Tenant or Takes.
	Tenant func(*http.Request) (string, error)
	// Takes is what a request takes: a dimension, several, or an operation; its Tenant is not
	// looked at. nil: nothing, and nobody is asked whose it is. A cost of 0 is told what is left.
	Takes        func(*http.Request) *door.Request
	Headers      answer.Headers // none: answer.IETF
	Challenge    string         // WWW-Authenticate of a 401; none: as the agent's own door says it
	PassInOutage bool           // else an outage is answered with 503, unless policy says otherwise
	Logger       *slog.Logger   // of what Takes says and the agent cannot take; none: discards
}

// Verified is a Config's Tenant: the one that a client's certificate, a token, an API key or a
// trusted proxy names, as v believes them. See identity.OfRequest for what must not stand before it.
func Verified(v *identity.Verifier) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) { return v.Tenant(identity.OfRequest(r, time.Now())) }
}

// New returns what makes of a handler one that is only reached by requests whose tenant's quota
// has room for them, and whose answers say what is left.
func New(a door.Agent, cfg Config) func(http.Handler) http.Handler {
	if cfg.Tenant == nil || cfg.Takes == nil {
		cfg.Tenant = func(*http.Request) (string, error) { return "", nil }
		cfg.Takes = func(*http.Request) *door.Request { return &door.Request{} }
	}
	return func(next http.Handler) http.Handler {
		return &limited{cfg, door.Guard{Agent: a, PassInOutage: cfg.PassInOutage, Logger: cfg.Logger}, next}
	}
}

type limited struct {
	cfg   Config
	guard door.Guard
	next  http.Handler
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	takes := l.cfg.Takes(r)
	if takes == nil {
		l.next.ServeHTTP(w, r)
		return
	}
	tenant, err := l.cfg.Tenant(r)
	d, err := l.guard.Admit(r.Context(), tenant, err, takes)
	if err == nil && d.Allowed {
		l.cfg.Headers.Describe(w.Header(), d)
		l.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // not of an answer of the program's own
	retryIn, outage := door.Outage(err)
	var nobody *identity.RefusedError
	switch {
	case err == nil:
		answer.Deny(w, l.cfg.Headers, d)
	case errors.As(err, &nobody):
		w.Header().Set("WWW-Authenticate", cmp.Or(l.cfg.Challenge, nobody.Challenge()))
		answer.Refuse(w, http.StatusUnauthorized, "", err.Error())
	case outage:
		answer.Unavailable(w, retryIn)
	case r.Context().Err() != nil: // the caller has left
		answer.Unavailable(w, time.Second)
	default:
		answer.Refuse(w, http.StatusInternalServerError, "", "no decision was made")
	}
}
