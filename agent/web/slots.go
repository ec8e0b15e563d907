package web

import (
	"net/http"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
)

// acquired is the answer to an acquire that was allowed.
type acquired struct {
	answer.Decision
	ID        string `json:"id"`
	ExpiresMs int64  `json:"expires_ms"`
	WaitedMs  int64  `json:"waited_ms"`
}

// renewed is the answer to a renew.
type renewed struct {
	ID        string `json:"id"`
	ExpiresMs int64  `json:"expires_ms"`
}

// released is the answer to a release.
type released struct {
	ID string `json:"id"`
}

// acquire answers POST /v1/acquire. A denial is that of a take.
func (h *handler) acquire(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var req door.Acquisition
	var hold, wait *int64
	err := readBody(w, r, acquireFields(&req, &hold, &wait))
	if err == nil {
		err = own(r, &req.Tenant)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	if hold != nil {
		req.HoldMs = *hold
	}
	if wait != nil {
		req.WaitMs = *wait
	}
	if req.WaitMs > 0 {
		// The server's times are for requests that are answered at once; the body is here, and
		// the answer fits what a connection holds. Where there is no connection there are no times.
		conn := http.NewResponseController(w)
		_ = conn.SetReadDeadline(time.Time{})
		_ = conn.SetWriteDeadline(time.Time{})
	}
	p, err := door.Acquire(r.Context(), h.agent, &req)
	switch {
	case err != nil:
		h.noDecision(w, err)
	case !p.Allowed:
		answer.Deny(w, h.headers, p.Decision)
	default:
		h.headers.Describe(w.Header(), p.Decision)
		answer.JSON(w, http.StatusOK, acquired{answer.Of(p.Decision), p.ID, wholeMs(p.Expires), wholeMs(p.Waited)})
	}
}

// renew answers POST /v1/renew.
func (h *handler) renew(w http.ResponseWriter, r *http.Request) {
	tenant, id, err := readPermit(w, r)
	var left time.Duration
	if err == nil {
		left, err = door.Renew(h.agent, tenant, id)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, renewed{id, wholeMs(left)})
}

// release answers POST /v1/release.
func (h *handler) release(w http.ResponseWriter, r *http.Request) {
	tenant, id, err := readPermit(w, r)
	if err == nil {
		err = door.Release(h.agent, tenant, id)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, released{id})
}

func readPermit(w http.ResponseWriter, r *http.Request) (tenant, id string, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if err = readBody(w, r, permitFields(&tenant, &id)); err == nil {
		err = own(r, &tenant)
	}
	return tenant, id, err
}

func acquireFields(req *door.Acquisition, hold, wait **int64) []field {
	return append(requestFields(&req.Request), whole("hold_ms", hold, 0, door.MaxHoldMs), whole("wait_ms", wait, 0, door.MaxWaitMs))
}

func permitFields(tenant, id *string) []field { return []field{text("tenant", tenant), text("id", id)} }

// wholeMs rounds down: who renews within what is left comes in time.
func wholeMs(d time.Duration) int64 { return d.Milliseconds() }
