package web

import (
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
)

// reserved is the answer to a reserve that was allowed.
type reserved struct {
	answer.Decision
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
	err := readBody(w, r, reserveFields(&req, &estimate))
	if err == nil {
		err = own(r, &req.Tenant)
	}
	if err != nil {
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
		answer.Deny(w, h.headers, made.Decision)
	default:
		h.headers.Describe(w.Header(), made.Decision)
		answer.JSON(w, http.StatusOK, reserved{answer.Of(made.Decision), made.ID, req.Estimate})
	}
}

// settle answers POST /v1/settle.
func (h *handler) settle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var id string
	var actual *int64
	err := readBody(w, r, settleFields(&id, &actual))
	if err == nil {
		if caller, known := r.Context().Value(callerKey{}).(string); known {
			err = door.SettleOwn(h.agent, caller, id, actual)
		} else {
			err = door.Settle(h.agent, id, actual)
		}
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, settled{id, *actual})
}

func reserveFields(req *door.Reservation, estimate **int64) []field {
	return []field{
		text("tenant", &req.Tenant), text("dimension", &req.Dimension), whole("estimate", estimate, 1, agent.MaxCost),
		truth("maximum", &req.Maximum), optionalText("id", &req.ID), caller(&req.Caller),
	}
}

func settleFields(id *string, actual **int64) []field {
	return []field{text("id", id), whole("actual", actual, 0, agent.MaxCost)}
}
