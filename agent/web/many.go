package web

import (
	"encoding/json"
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
)

// takenMany is the answer to many takes: of each the body with which /v1/take would have answered.
type takenMany struct {
	Results []any `json:"results"`
}

// takeMany answers POST /v1/takes. It is 200 whatever its results are, which are told apart by what
// they say.
func (h *handler) takeMany(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var takes []json.RawMessage
	err := readBody(w, r, manyFields(&takes))
	if err == nil {
		err = door.ValidateMany(len(takes)) // left out
	}
	if err != nil {
		h.noDecision(w, err)
		return
	}
	results := make([]any, len(takes))
	door.TakeMany(r.Context(), h.agent, door.Many{
		Len: len(takes),
		Read: func(i int, req *door.Request) error {
			if err := readTake(takes[i], "take", req); err != nil {
				return err
			}
			return own(r, &req.Tenant)
		},
		Tell: func(i int, req *door.Request, d agent.Decision, err error) {
			switch {
			case err != nil:
				results[i] = reasonOf(err).body()
			case !d.Allowed && !req.Peek():
				results[i] = answer.DenialOf(d)
			default:
				results[i] = answer.Of(d)
			}
		},
	})
	answer.JSON(w, http.StatusOK, takenMany{results})
}

// manyFields are those of many takes, each of which is read when its turn comes: what is wrong with
// one is no fault of the others.
func manyFields(takes *[]json.RawMessage) []field {
	f := list("takes", "requests", door.MaxMany, nil, func(_ string, value json.RawMessage) error {
		*takes = append(*takes, value)
		return nil
	})
	f.schema = func() schema {
		return schema{"type": "array", "minItems": 1, "maxItems": door.MaxMany, "items": refTo("Take"), "description": "each as /v1/take reads it, and answered by itself"}
	}
	return []field{f}
}
