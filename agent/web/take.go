package web

import (
	"encoding/json"
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
)

// take answers POST /v1/take. A denied take is 429, so that a caller who looks at nothing
// else is stopped; a denied peek is 200 with allowed false: it asked, and here is the answer.
func (h *handler) take(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noStore
	var req door.Request
	body, err := bodyOf(w, r)
	if err == nil {
		err = readTake(body, "body", &req)
	}
	if err == nil {
		err = own(r, &req.Tenant)
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	d, err := door.Take(r.Context(), h.agent, &req)
	switch {
	case err != nil:
		h.noDecision(w, err)
	case !d.Allowed && !req.Peek():
		answer.Deny(w, h.headers, d)
	default:
		h.headers.Describe(w.Header(), d)
		answer.Allow(w, d)
	}
}

// noStore is a header that no answer goes without, and that nobody changes.
var noStore = []string{"no-store"}

// readTake reads a take; whole names it in a refusal.
func readTake(text []byte, whole string, req *door.Request) error {
	if readPlain(text, req) {
		return nil
	}
	*req = door.Request{}
	return readObject(text, whole, "", inTurnFields(req))
}

// inTurnFields are those of a take, which may be of a caller who waits its turn.
func inTurnFields(req *door.Request) []field {
	return append(requestFields(req), text("ticket", &req.Ticket))
}

// requestFields are those that say what to take.
func requestFields(req *door.Request) []field {
	return []field{
		text("tenant", &req.Tenant), text("dimension", &req.Dimension), whole("cost", &req.Cost, 0, agent.MaxCost),
		optionalText("id", &req.ID), list("takes", "{dimension, cost}", agent.MaxTakes, takeFields(new(string), new(*int64)), func(name string, value json.RawMessage) error {
			var dimension string
			var cost *int64
			if err := readObject(value, name, name+".", takeFields(&dimension, &cost)); err != nil {
				return err
			}
			t := core.DimensionCost{Dimension: dimension, Cost: 1}
			if cost != nil {
				t.Cost = *cost
			}
			req.Takes = append(req.Takes, t)
			return nil
		}),
		text("operation", &req.Operation), whole("times", &req.Times, 1, agent.MaxCost), caller(&req.Caller),
	}
}

// takeFields are those of one of several takes.
func takeFields(dimension *string, cost **int64) []field {
	return []field{text("dimension", dimension), whole("cost", cost, 1, agent.MaxCost)}
}
