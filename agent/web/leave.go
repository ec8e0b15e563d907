package web

import (
	"net/http"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
)

// left is the answer to a leave, with the ticket's id.
type left struct {
	ID string `json:"id"`
}

// leave answers POST /v1/leave.
func (h *handler) leave(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var req door.Departure
	err := readBody(w, r, leaveFields(&req))
	if err == nil {
		err = own(r, &req.Tenant)
	}
	if err == nil {
		err = door.Leave(r.Context(), h.agent, req)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, left{req.Ticket})
}

func leaveFields(req *door.Departure) []field {
	return []field{text("tenant", &req.Tenant), text("operation", &req.Operation), text("ticket", &req.Ticket)}
}
