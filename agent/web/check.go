package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Headers between a proxy and /v1/check. The first three are a proxy's word, and nothing in them
// is looked at unless the proxy is on the agent's list. It sets or clears all of them: one that
// it passes on from a client would let the client choose.
const (
	TenantHeader    = identity.TenantHeader
	DimensionHeader = "X-Quotalease-Dimension"
	CostHeader      = "X-Quotalease-Cost"
	StatusHeader    = "X-Quota-Status" // the real status, with the 403 of style=nginx
	ReasonHeader    = "X-Quota-Reason" // why denied, or what is special about the allowance
)

// check answers GET /v1/check: the status is the whole answer, because that is what a proxy
// acts on. So unlike at /v1/take, a peek that is denied is 429 here.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	from := identity.OfRequest(r, time.Now())
	tenant, err := h.identity.Tenant(from)
	if err != nil {
		unknown(w, err)
		return
	}
	switch style := r.URL.Query().Get("style"); style {
	case "":
	case "nginx":
		w = &nginxWriter{w}
	default:
		answer.Refuse(w, http.StatusBadRequest, "style", "nginx, or left out")
		return
	}
	req, err := checkOf(tenant, r, h.identity.Proxy(from))
	if err != nil {
		h.noDecision(w, err)
		return
	}
	d, err := door.Take(r.Context(), h.agent, &req)
	if err != nil {
		if _, out := door.Outage(err); out {
			w.Header().Set(ReasonHeader, string(quota.Unavailable))
		}
		h.noDecision(w, err)
		return
	}
	if d.Reason != quota.Allowed {
		w.Header().Set(ReasonHeader, string(d.Reason))
	}
	if d.Allowed {
		h.headers.Describe(w.Header(), d)
		w.WriteHeader(http.StatusOK)
		return
	}
	answer.Deny(w, h.headers, d)
}

// nginxWriter writes for auth_request, which passes on 401 and 403 and makes a 500 of everything
// else, as it does of an agent that cannot be reached. A proxy that lets a request pass when it
// reaches no agent must not do so because the agent said no, in whichever words.
type nginxWriter struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w *nginxWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader says what the real status is where it cannot be the status.
func (w *nginxWriter) WriteHeader(status int) {
	if status != http.StatusOK {
		w.Header().Set(StatusHeader, strconv.Itoa(status))
		status = http.StatusForbidden
	}
	w.ResponseWriter.WriteHeader(status)
}

// checkOf reads what is to be taken. A dimension in the URL, which the proxy wrote, counts
// before one in a header, which a careless proxy may pass on from its client.
func checkOf(tenant string, r *http.Request, proxy bool) (door.Request, error) {
	req := door.Request{Tenant: tenant}
	header := func(string) []string { return nil }
	if proxy {
		header = r.Header.Values
	}
	dimensions := r.URL.Query()["dimension"]
	if len(dimensions) == 0 {
		dimensions = header(DimensionHeader)
	}
	if len(dimensions) > 1 {
		return req, &quota.FieldError{Field: "dimension", Allowed: "given once"}
	}
	for _, d := range dimensions {
		req.Dimension = d
	}
	switch costs := header(CostHeader); len(costs) {
	case 0:
	case 1:
		cost, err := readCost(costs[0])
		if err != nil {
			return req, err
		}
		req.Cost = &cost
	default:
		return req, &quota.FieldError{Field: "cost", Allowed: "given once"}
	}
	return req, nil
}
