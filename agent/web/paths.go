package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
)

const metricsPath = "/metrics"

// path is one path of the door: how it is served, and what the description says of it.
type path struct {
	name, method string
	head         bool // HEAD is allowed too
	serve        func(*handler, http.ResponseWriter, *http.Request)
	does         string
	body         string      // the name of its body's schema
	fields       []field     // of its body
	needs        [][]string  // of its fields, one of these groups, whose names are all needed
	query        []field     // of its URL
	headers      []string    // of its request
	ok           any         // the body of a success; nil: it has none; a string: text
	answers      map[int]any // the bodies of other statuses; a list: one of them
}

// What may be asked for: one of three.
var anyTake = [][]string{{"dimension"}, {"takes"}, {"operation"}}

var paths = []path{
	{name: "/v1/take", method: http.MethodPost, serve: (*handler).take, body: "Take", fields: inTurnFields(new(door.Request)), needs: anyTake,
		does: "Take a cost from a quota, from several, or what an operation draws on: all or none. A cost of 0 asks and charges nothing.",
		ok:   answer.Decision{}, answers: inTurn},
	{name: "/v1/takes", method: http.MethodPost, serve: (*handler).takeMany, body: "Takes", fields: manyFields(new([]json.RawMessage)), needs: [][]string{{"takes"}},
		does: "Take many times with one request: each take is answered by itself, whatever becomes of the others. Those that have to wait do so together.",
		ok:   takenMany{}, answers: together},
	{name: "/v1/reserve", method: http.MethodPost, serve: (*handler).reserve, body: "Reserve",
		fields: reserveFields(new(door.Reservation), new(*int64)), needs: [][]string{{"dimension", "estimate"}},
		does: "Take an estimate of a cost that is not known yet. It is settled within an hour, at the same agent.",
		ok:   reserved{}, answers: deciding},
	{name: "/v1/settle", method: http.MethodPost, serve: (*handler).settle, body: "Settle",
		fields: settleFields(new(string), new(*int64)), needs: [][]string{{"id", "actual"}},
		does: "Say what a reservation used; what was less goes back. A repeat changes nothing.",
		ok:   settled{}, answers: naming},
	{name: "/v1/acquire", method: http.MethodPost, serve: (*handler).acquire, body: "Acquire",
		fields: acquireFields(new(door.Acquisition), new(*int64), new(*int64)), needs: anyTake,
		does: "Start work under a concurrency limit, with whatever else it takes: all or none.",
		ok:   acquired{}, answers: deciding},
	{name: "/v1/renew", method: http.MethodPost, serve: (*handler).renew, body: "Permit",
		fields: permitFields(new(string), new(string)), needs: [][]string{{"id"}},
		does: "Say that a permit's work goes on.",
		ok:   renewed{}, answers: naming},
	{name: "/v1/release", method: http.MethodPost, serve: (*handler).release, body: "Permit",
		fields: permitFields(new(string), new(string)), needs: [][]string{{"id"}},
		does: "Say that a permit's work has ended. A repeat changes nothing.",
		ok:   released{}, answers: naming},
	{name: "/v1/leave", method: http.MethodPost, serve: (*handler).leave, body: "Leave",
		fields: leaveFields(new(door.Departure)), needs: [][]string{{"operation", "ticket"}},
		does: "Give up a place in line, so that those behind move up. A repeat changes nothing, nor does a ticket that was served.",
		ok:   left{}, answers: asking},
	{name: "/v1/check", method: http.MethodGet, serve: (*handler).check,
		does:    "Take for a proxy, which acts on the status alone, so that here a denied cost of 0 is 429 too. With style=nginx everything but 200 and 401 is 403, and X-Quota-Status has the real status.",
		query:   []field{text("dimension", new(string)), {name: "style", schema: func() schema { return schema{"enum": []string{"nginx"}} }}},
		headers: []string{TenantHeader, DimensionHeader, CostHeader},
		answers: map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: []any{answer.Denial{}, answer.Outage{}, answer.Refusal{}}, 429: answer.Denial{}, 500: answer.Refusal{}, 503: answer.Outage{}}},
	{name: "/healthz", method: http.MethodGet, head: true, serve: (*handler).live, does: "Answers as long as the process lives.", ok: ""},
	{name: "/readyz", method: http.MethodGet, head: true, serve: (*handler).ready,
		does: "Says whether the agent knows its policy and is not stopping.", ok: "", answers: map[int]any{503: ""}},
	{name: metricsPath, method: http.MethodGet, head: true, does: "Metrics in Prometheus' formats, if the agent has them.", ok: ""},
	{name: "/openapi.json", method: http.MethodGet, head: true, serve: (*handler).describe, does: "This description.", ok: struct{}{}},
}

// What is said of a request that takes, of one that may bring a ticket, of one that cannot be denied,
// of one that names what was taken by its id, and of one that holds others.
var (
	deciding = map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: answer.Refusal{}, 429: answer.Denial{}, 500: answer.Refusal{}, 503: answer.Outage{}}
	inTurn   = map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: answer.Refusal{}, 404: answer.Refusal{}, 429: answer.Denial{}, 500: answer.Refusal{}, 503: answer.Outage{}}
	asking   = map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: answer.Refusal{}, 500: answer.Refusal{}, 503: answer.Outage{}}
	together = map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: answer.Refusal{}}
	naming   = map[int]any{400: answer.Refusal{}, 401: answer.Refusal{}, 403: answer.Refusal{}, 404: answer.Refusal{}, 500: answer.Refusal{}, 503: answer.Outage{}}
)

// pathNames are all paths, for who asked for another.
func pathNames() string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = p.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
