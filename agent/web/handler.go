package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Limits of the http.Server around the handler. An idle connection outlives what proxies
// keep theirs for (nginx 60 s, Caddy 120 s), so that none sends into a closing one.
const (
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 10 * time.Second
	WriteTimeout      = 30 * time.Second // a take is over in two; metrics of many dimensions are not; who waits for slots has its own
	IdleTimeout       = 3 * time.Minute
	MaxHeaderBytes    = 32 << 10
)

// Agent decides, and knows whether it should be asked. *agent.Agent is one.
type Agent interface {
	door.Agent
	Ready() error
}

// Config is what a handler is told.
type Config struct {
	Headers answer.Headers // none: answer.IETF
	// Identity tells whose a request is; none: nobody's, and /v1/check answers nobody.
	Identity *identity.Verifier
	// VerifiedCallers makes the paths that name a tenant in their body ask who the caller is.
	VerifiedCallers bool
	Metrics         http.Handler // of /metrics; none: 404
}

type handler struct {
	agent    Agent
	headers  answer.Headers
	identity *identity.Verifier
	verify   bool
}

// New returns the handler of all paths.
func New(a Agent, cfg Config) (http.Handler, error) {
	switch cfg.Headers {
	case "":
		cfg.Headers = answer.IETF
	case answer.Off, answer.IETF, answer.XRateLimit:
	default:
		return nil, fmt.Errorf("configure HTTP door: %w", &quota.FieldError{Field: "headers", Allowed: "ietf, x-ratelimit or off"})
	}
	if cfg.Identity == nil {
		nobody, err := identity.New(identity.Config{})
		if err != nil {
			return nil, err
		}
		cfg.Identity = nobody
	}
	h := &handler{agent: a, headers: cfg.Headers, identity: cfg.Identity, verify: cfg.VerifiedCallers}
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, http.StatusForbidden, "", "a page of another origin may not take")
	}))
	mux := http.NewServeMux()
	for path, answer := range map[string]http.HandlerFunc{
		"/v1/take": h.take, "/v1/reserve": h.reserve, "/v1/settle": h.settle,
		"/v1/acquire": h.acquire, "/v1/renew": h.renew, "/v1/release": h.release,
	} {
		mux.Handle(path, only(foreign.Handler(h.verified(answer)), http.MethodPost))
	}
	mux.Handle("/v1/check", only(http.HandlerFunc(h.check), http.MethodGet))
	mux.Handle("/healthz", only(http.HandlerFunc(live), http.MethodGet, http.MethodHead))
	mux.Handle("/readyz", only(http.HandlerFunc(h.ready), http.MethodGet, http.MethodHead))
	if cfg.Metrics != nil {
		mux.Handle("/metrics", only(cfg.Metrics, http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, http.StatusNotFound, "", "paths are /v1/take, /v1/reserve, /v1/settle, /v1/acquire, /v1/renew, /v1/release, /v1/check, /healthz, /readyz and /metrics")
	})
	return mux, nil
}

func only(next http.Handler, methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, m := range methods {
			if r.Method == m {
				next.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("Allow", allow)
		answer.Refuse(w, http.StatusMethodNotAllowed, "", "allowed here: "+allow)
	})
}

// live answers as long as the process does.
func live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "alive")
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := h.agent.Ready(); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "not ready\n%v\n", err)
		return
	}
	fmt.Fprintln(w, "ready")
}
