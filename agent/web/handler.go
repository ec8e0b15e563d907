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
	document []byte // what describe answers
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
	h := &handler{agent: a, headers: cfg.Headers, identity: cfg.Identity, verify: cfg.VerifiedCallers, document: description(paths)}
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, http.StatusForbidden, "", "a page of another origin may not take")
	}))
	mux := http.NewServeMux()
	for _, p := range paths {
		serve := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(h, w, r) }))
		switch {
		case p.name == metricsPath && cfg.Metrics == nil:
			continue
		case p.name == metricsPath:
			serve = cfg.Metrics
		case p.method == http.MethodPost:
			serve = foreign.Handler(h.verified(serve.ServeHTTP))
		}
		methods := []string{p.method}
		if p.head {
			methods = append(methods, http.MethodHead)
		}
		mux.Handle(p.name, only(serve, methods...))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, http.StatusNotFound, "", "paths are "+pathNames())
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
func (*handler) live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "alive")
}

// describe answers GET /openapi.json.
func (h *handler) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(h.document) // a caller who has left cannot be told
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
