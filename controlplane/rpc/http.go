package rpc

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quotalease/quotalease/controlplane"
)

// Handler serves /metrics, /healthz (the process lives) and /readyz (the replica should be
// asked). /readyz answers 503 with the reasons if not; what is wrong although the replica
// serves, such as a policy file that was refused, is a note in the body of its 200.
func Handler(c *controlplane.ControlPlane, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
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
	})
	return mux
}
