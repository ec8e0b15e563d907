package answer

import (
	"net/http"
	"strconv"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
)

// Headers says which headers describe the limit, beside Retry-After, which every denial with
// a known moment has.
type Headers string

// The choices. IETF is draft-ietf-httpapi-ratelimit-headers.
const (
	Off        Headers = "off"
	IETF       Headers = "ietf"        // RateLimit-Policy and RateLimit
	XRateLimit Headers = "x-ratelimit" // those, and X-RateLimit-Limit, -Remaining and -Retry-After
)

// Describe tells of the limit that decided, if there is anything to tell.
func (h Headers) Describe(head http.Header, d agent.Decision) {
	policy, left, ok := door.RateLimit(d)
	if h == Off || !ok {
		return
	}
	values := []string{policy, left}
	head["Ratelimit-Policy"], head["Ratelimit"] = values[:1:1], values[1:] // as http.Header spells them
	if h != XRateLimit {
		return
	}
	head.Set("X-RateLimit-Limit", strconv.FormatInt(max(0, int64(d.Limit.Units)), 10))
	head.Set("X-RateLimit-Remaining", strconv.FormatInt(max(0, int64(d.Remaining)), 10))
	if s := d.RetryAfter(); s > 0 && !d.Allowed {
		head.Set("X-RateLimit-Retry-After", strconv.FormatInt(s, 10))
	}
}
