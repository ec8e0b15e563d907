package web

import (
	"encoding/json"
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
)

// take answers POST /v1/take. A denied take is 429, so that a caller who looks at nothing
// else is stopped; a denied peek is 200 with allowed false: it asked, and here is the answer.
func (h *handler) take(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var req door.Request
	if err := readBody(w, r, append(requestFields(&req), text("ticket", &req.Ticket))); err != nil {
		h.noDecision(w, err)
		return
	}
	d, err := door.Take(r.Context(), h.agent, &req)
	switch {
	case err != nil:
		h.noDecision(w, err)
	case !d.Allowed && !req.Peek():
		h.deny(w, http.StatusTooManyRequests, d)
	default:
		h.describe(w.Header(), d)
		writeJSON(w, http.StatusOK, answerOf(d))
	}
}

// requestFields are those that say what to take.
func requestFields(req *door.Request) []field {
	return []field{
		text("tenant", &req.Tenant), text("dimension", &req.Dimension), whole("cost", &req.Cost, 0, agent.MaxCost),
		optionalText("id", &req.ID), list("takes", "{dimension, cost}", agent.MaxTakes, func(name string, value json.RawMessage) error {
			var dimension string
			var cost *int64
			if err := readObject(value, name, name+".", []field{text("dimension", &dimension), whole("cost", &cost, 1, agent.MaxCost)}); err != nil {
				return err
			}
			t := core.DimensionCost{Dimension: dimension, Cost: 1}
			if cost != nil {
				t.Cost = *cost
			}
			req.Takes = append(req.Takes, t)
			return nil
		}),
		text("operation", &req.Operation), whole("times", &req.Times, 1, agent.MaxCost),
	}
}
