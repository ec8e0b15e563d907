package rpc

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quotalease/quotalease/controlplane"
)

// Handler serves /metrics, /healthz (the process lives) and /readyz (the replica should be
// asked). /readyz answers 503 with the reasons if not; what is wrong although the replica
// serves, such as a policy file that was refused, is a note in the body of its 200. Any other
// path or method gets a problem (RFC 9457) that names those that are there.
func Handler(c *controlplane.ControlPlane, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", reading(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})))
	mux.Handle("/healthz", reading(http.HandlerFunc(live)))
	mux.Handle("/readyz", reading(ready(c)))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "paths are /healthz, /readyz and /metrics; operators and agents use gRPC on its own port")
	})
	return mux
}

func live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "alive")
}

func ready(c *controlplane.ControlPlane) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := c.Ready(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "not ready\n%v\n", err)
		} else {
			fmt.Fprintln(w, "ready")
		}
		if notes := c.Notes(); notes != nil {
			fmt.Fprintf(w, "note: %v\n", notes)
		}
	}
}

// reading admits the methods that change nothing.
func reading(next http.Handler) http.Handler {
	const allow = http.MethodGet + ", " + http.MethodHead
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, "allowed here: "+allow)
	})
}

func refuse(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // our own small struct
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a caller who has left cannot be told
}
