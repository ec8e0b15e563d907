package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

const maxBody = 64 << 10

// request is one take.
type request struct {
	id   *string // of a take that may be repeated
	key  quota.Key
	cost int64
}

// decide asks the agent.
func (h *handler) decide(ctx context.Context, req request) (agent.Decision, error) {
	if req.id != nil {
		return h.agent.TakeOnce(ctx, *req.id, req.key.Tenant, req.key.Dimension, req.cost)
	}
	return h.agent.Take(ctx, req.key.Tenant, req.key.Dimension, req.cost)
}

// take answers POST /v1/take. A denied take is 429, so that a caller who looks at nothing
// else is stopped; a denied peek is 200 with allowed false: it asked, and here is the answer.
func (h *handler) take(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var large *http.MaxBytesError
		allowed := "sent whole, in time"
		if errors.As(err, &large) {
			allowed = "at most " + strconv.Itoa(maxBody) + " bytes"
		}
		refuse(w, http.StatusBadRequest, "body", allowed)
		return
	}
	req, err := readTake(body)
	if err != nil {
		h.noDecision(w, err)
		return
	}
	d, err := h.decide(r.Context(), req)
	if err != nil {
		h.noDecision(w, err)
		return
	}
	h.describe(w.Header(), req.key.Dimension, d)
	if d.Allowed || req.cost == 0 {
		writeJSON(w, http.StatusOK, answerOf(d))
		return
	}
	h.deny(w, http.StatusTooManyRequests, d)
}

func badBody() error {
	return &quota.FieldError{Field: "body", Allowed: `one JSON object in UTF-8: {"tenant": text, "dimension": text, "cost": whole number, "id": text}`}
}

// readTake reads a body. It is stricter than a JSON reader: names are compared exactly and
// may appear once, and text that a reader would mend is refused, because two tenants whose
// names are mended alike would share a quota.
func readTake(body []byte) (request, error) {
	req := request{cost: 1}
	if !utf8.Valid(body) {
		return req, badBody()
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return req, badBody()
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, isName := token.(string)
		if err != nil || !isName {
			return req, badBody()
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return req, badBody()
		}
		if seen[name] {
			return req, &quota.FieldError{Field: clip(name), Allowed: "given once"}
		}
		seen[name] = true
		if err := req.set(name, value); err != nil {
			return req, err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return req, badBody()
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, badBody()
	}
	return req, req.key.Validate()
}

func (req *request) set(name string, value json.RawMessage) (err error) {
	switch name {
	case "tenant":
		req.key.Tenant, err = readText(name, value)
	case "dimension":
		req.key.Dimension, err = readText(name, value)
	case "id":
		var id string
		id, err = readText(name, value)
		req.id = &id
	case "cost":
		req.cost, err = readCost(string(value))
	default:
		err = &quota.FieldError{Field: clip(name), Allowed: "not a field; fields are tenant, dimension, cost and id"}
	}
	return err
}

func readText(name string, value json.RawMessage) (string, error) {
	var text string
	if value[0] != '"' || json.Unmarshal(value, &text) != nil || strings.ContainsRune(text, utf8.RuneError) {
		return "", &quota.FieldError{Field: name, Allowed: "text, without U+FFFD and unpaired surrogates"}
	}
	return text, nil
}

// readCost accepts digits alone: no sign, no fraction, no exponent.
func readCost(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, agent.ValidateCost(-1) // no number is refused like one out of range
	}
	return int64(n), agent.ValidateCost(int64(n))
}

// clip keeps a caller's own words in an answer short, and visible.
func clip(name string) string {
	const most = 64
	switch {
	case name == "":
		return `""`
	case len(name) <= most:
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}
