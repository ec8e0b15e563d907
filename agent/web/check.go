package web

import (
	"net/http"

	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Headers between a trusted proxy and /v1/check. The proxy sets or clears all of the first
// three: one that it passes on from a client would let the client choose.
const (
	TenantHeader    = "X-Quotalease-Tenant"
	DimensionHeader = "X-Quotalease-Dimension"
	CostHeader      = "X-Quotalease-Cost"
	StatusHeader    = "X-Quota-Status" // 429, with the 403 of style=nginx
	ReasonHeader    = "X-Quota-Reason" // why denied, or what is special about the allowance
)

// check answers GET /v1/check: the status is the whole answer, because that is what a proxy
// acts on. So unlike at /v1/take, a peek that is denied is 429 here.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	tenant := h.tenantOf(r)
	if tenant == "" {
		w.Header().Set("WWW-Authenticate", `Quotalease realm="tenant"`)
		refuse(w, http.StatusUnauthorized, "", "no verified tenant")
		return
	}
	denied := http.StatusTooManyRequests
	switch style := r.URL.Query().Get("style"); style {
	case "":
	case "nginx": // auth_request passes on 401 and 403, and makes a 500 of everything else
		denied = http.StatusForbidden
	default:
		refuse(w, http.StatusBadRequest, "style", "nginx, or left out")
		return
	}
	req, err := checkOf(tenant, r)
	if err != nil {
		h.noDecision(w, err)
		return
	}
	d, err := door.Take(r.Context(), h.agent, &req)
	if err != nil {
		h.noDecision(w, err)
		return
	}
	if d.Reason != quota.Allowed {
		w.Header().Set(ReasonHeader, string(d.Reason))
	}
	if d.Allowed {
		h.describe(w.Header(), d)
		w.WriteHeader(http.StatusOK)
		return
	}
	if denied == http.StatusForbidden {
		w.Header().Set(StatusHeader, "429")
	}
	h.deny(w, denied, d)
}

// tenantOf is the verified tenant, or nothing. Two headers are none: one of them is not the
// proxy's.
func (h *handler) tenantOf(r *http.Request) string {
	values := r.Header.Values(TenantHeader)
	if !h.trust || len(values) != 1 {
		return ""
	}
	return values[0]
}

// checkOf reads what is to be taken. A dimension in the URL, which the proxy wrote, counts
// before one in a header, which a careless proxy may pass on from its client.
func checkOf(tenant string, r *http.Request) (door.Request, error) {
	req := door.Request{Tenant: tenant}
	dimensions := r.URL.Query()["dimension"]
	if len(dimensions) == 0 {
		dimensions = r.Header.Values(DimensionHeader)
	}
	if len(dimensions) > 1 {
		return req, &quota.FieldError{Field: "dimension", Allowed: "given once"}
	}
	for _, d := range dimensions {
		req.Dimension = d
	}
	switch costs := r.Header.Values(CostHeader); len(costs) {
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
