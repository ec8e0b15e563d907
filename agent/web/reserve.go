package web

import (
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
)

// reserved is the answer to a reserve that was allowed.
type reserved struct {
	answer
	ID       string `json:"id"`
	Estimate int64  `json:"estimate"`
}

// settled is the answer to a settle.
type settled struct {
	ID     string `json:"id"`
	Actual int64  `json:"actual"`
}

// reserve answers POST /v1/reserve. A denial is that of a take.
func (h *handler) reserve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var req door.Reservation
	var estimate *int64
	if err := readBody(w, r, []field{
		text("tenant", &req.Tenant), text("dimension", &req.Dimension), whole("estimate", &estimate, 1, agent.MaxCost),
		truth("maximum", &req.Maximum), optionalText("id", &req.ID), caller(&req.Caller),
	}); err != nil {
		h.noDecision(w, err)
		return
	}
	if estimate != nil {
		req.Estimate = *estimate
	}
	made, err := door.Reserve(r.Context(), h.agent, &req)
	switch {
	case err != nil:
		h.noDecision(w, err)
	case !made.Allowed:
		h.deny(w, http.StatusTooManyRequests, made.Decision)
	default:
		h.describe(w.Header(), made.Decision)
		writeJSON(w, http.StatusOK, reserved{answerOf(made.Decision), made.ID, req.Estimate})
	}
}

// settle answers POST /v1/settle.
func (h *handler) settle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var id string
	var actual *int64
	err := readBody(w, r, []field{text("id", &id), whole("actual", &actual, 0, agent.MaxCost)})
	if err == nil {
		err = door.Settle(h.agent, id, actual)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	writeJSON(w, http.StatusOK, settled{id, *actual})
}
