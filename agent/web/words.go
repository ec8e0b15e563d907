package web

import (
	"net/http"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

// What the description says of names, beside what their types and fields say.

const aboutDoor = `Decisions of a regional agent, from units that it holds already.

A denial is 429 and an outage 503, and neither is ever written as the other. Other methods than
those described are answered with 405, other paths with 404, both with a problem. A listener that others can reach
holds its callers to their own tenant, by a token, an API key or a client certificate, as it is
told; then the tenant may be left out. One on the machine's loopback asks nobody.`

// about is what a name means, and the form of its value.
type about struct {
	words   string
	form    schema
	answers bool // a header of answers
}

const dimensionForm = `^[a-z0-9][a-z0-9_.-]{0,62}$`

var amount = schema{"oneOf": []schema{{"type": "integer", "minimum": 0}, {"const": "unlimited"}}}

// reasons are the words that a door uses.
var reasons = []quota.Reason{quota.Allowed, quota.Exhausted, quota.LeasedOut, quota.TooLarge, quota.Cold, quota.UnknownTenant,
	quota.Unavailable, quota.OpenMode, quota.Extended, quota.Waiting, quota.LineFull}

var memberWords = map[string]about{
	"tenant":    {words: "whose quota: at most 256 bytes without control characters; may be left out where callers are verified", form: schema{"minLength": 1, "maxLength": quota.MaxTenantBytes}},
	"dimension": {words: "what is counted; in an answer the one that decided", form: schema{"pattern": dimensionForm}},
	"cost":      {words: "1 if left out; in /v1/take of one dimension 0 asks and charges nothing"},
	"takes":     {words: "several dimensions of the tenant, all or none"},
	"operation": {words: "one that policy defines, which says what it draws on", form: schema{"pattern": dimensionForm}},
	"times":     {words: "of the operation; 1 if left out"},
	"id":        {words: "at most 128 bytes; of a request, so that a repeat is not charged again; of an answer, to settle, renew or release, or of the place that was given up", form: schema{"minLength": 1, "maxLength": 128}},
	"estimate":  {words: "of the cost"},
	"maximum":   {words: "no more than the estimate will be used; hard and exact dimensions accept nothing else"},
	"actual":    {words: "the cost, now that it is known"},
	"hold_ms":   {words: "the permit lapses so long after the last renewal; 0: the limit's max_hold"},
	"ticket":    {words: "the place in line of a caller who waits its turn; in a request its id"},
	"place":     {words: "callers before this one"},
	"caller":    {words: "for whom the request is made: what local limits count by"},
	"route":     {words: "what is called"},
	"actor":     {words: "who calls, within the tenant"},
	"api_key":   {words: "the key that was used; only a keyed hash of it is kept"},
	"address":   {words: "the caller's verified address; only a keyed hash of it is kept"},
	"bytes":     {words: "how large the request is, for queues that are bounded by bytes"},
	"wait_ms":   {words: "the longest wait in line; 0: none"},
	"style":     {words: "how the asking proxy wants to be answered"},

	"allowed":           {words: "charged, or not at all"},
	"reason":            {words: "why it was denied, or what is special about an allowance; else empty", form: schema{"enum": reasons}},
	"limit":             {words: "of the window, the burst of a rate, or slots", form: amount},
	"remaining":         {words: "as this agent knows it: no promise", form: amount},
	"retry_after_ms":    {words: "when to come back, rounded up; 0: no moment is known"},
	"policy_version":    {words: "that decided; 0: the limit is not known yet"},
	"shadow":            {words: "the limit is only watched: the reason is what would have been said"},
	"results":           {words: "of each take, in their order, the body with which /v1/take would have answered", form: schema{"items": schema{"anyOf": []schema{refTo("Decision"), refTo("Denial"), refTo("Outage"), refTo("Refusal")}}}},
	"reset_ms":          {words: "until the window ends, rounded up; 0: never, or not known"},
	"largest":           {words: "with too_large: the largest cost that can pass"},
	"expires_ms":        {words: "until the permit lapses, unless it is renewed"},
	"waited_ms":         {words: "spent in line"},
	"type":              {words: "of the problem (RFC 9457)"},
	"title":             {words: "of the type of problem"},
	"status":            {words: "that of the answer"},
	"detail":            {words: "for people"},
	"field":             {words: "that is wrong with the request"},
	"violated-policies": {words: "the dimension that denied"},
}

var wholeForm = schema{"type": "integer", "minimum": 0}

var headerWords = map[string]about{
	TenantHeader:              {words: "the tenant, as a trusted proxy has verified it", form: schema{"type": "string"}},
	DimensionHeader:           {words: "what is counted, by a trusted proxy's word, unless the URL says it", form: schema{"type": "string", "pattern": dimensionForm}},
	CostHeader:                {words: "by a trusted proxy's word; 1 if not sent", form: schema{"type": "integer", "minimum": 0, "maximum": agent.MaxCost}},
	"Cache-Control":           {words: "no answer is for anybody else", form: schema{"const": "no-store"}, answers: true},
	"RateLimit":               {words: "what is left of the limit that decided, and when there is more", form: schema{"type": "string"}, answers: true},
	"RateLimit-Policy":        {words: "the limit that decided, and its window", form: schema{"type": "string"}, answers: true},
	"X-RateLimit-Limit":       {words: "the limit, if the agent is told to say so", form: wholeForm, answers: true},
	"X-RateLimit-Remaining":   {words: "what is left, if the agent is told to say so", form: wholeForm, answers: true},
	"X-RateLimit-Retry-After": {words: "Retry-After of a denial, if the agent is told to say so", form: wholeForm, answers: true},
	"Retry-After":             {words: "seconds, rounded up; missing where no moment is known or would help", form: schema{"type": "integer", "minimum": 1}, answers: true},
	"WWW-Authenticate":        {words: "how a caller can say who it is", form: schema{"type": "string"}, answers: true},
	ReasonHeader:              {words: "the reason, where it is not empty", form: schema{"type": "string"}, answers: true},
	StatusHeader:              {words: "the real status", form: schema{"type": "integer", "enum": []int{400, 403, 429, 500, 503}}, answers: true},
}

var statusWords = map[int]string{
	http.StatusOK:                  "allowed, or done; a cost of 0 is answered with 200 whatever the answer is, but for /v1/check; of /v1/takes each result speaks for itself",
	http.StatusBadRequest:          "the request makes no sense: its field is named, and nothing was charged",
	http.StatusUnauthorized:        "nobody knows whose the request is",
	http.StatusForbidden:           "not this caller's to ask; with style=nginx whatever is not allowed",
	http.StatusNotFound:            "the agent does not know the id, or the ticket is not in the line",
	http.StatusTooManyRequests:     "denied",
	http.StatusInternalServerError: "no decision was made",
	http.StatusServiceUnavailable:  "an outage: the quota may have room; of /readyz: not ready",
}
