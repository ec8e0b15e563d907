package answer

import (
	"net/http"
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
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

// maxInteger is the largest that a structured field may hold (RFC 9651). A limit above it is
// shown as it: no caller comes near.
const maxInteger = 999_999_999_999_999

// Describe tells of the limit that decided. There is nothing to tell of one that is no limit,
// or that the agent has not heard of yet (no policy version). A dimension's name has no
// character that would need an escape.
func (h Headers) Describe(head http.Header, d agent.Decision) {
	if h == Off || d.Limit.Unlimited || d.PolicyVersion == 0 {
		return
	}
	limit, remaining := max(0, int64(d.Limit.Units)), max(0, int64(d.Remaining))
	name := `"` + d.Dimension + `"`
	policy := name + ";q=" + integer(limit)
	if w := agent.RoundUp(d.Window, time.Second); w > 0 {
		policy += ";w=" + integer(w)
	}
	head.Set("RateLimit-Policy", policy)
	item := name + ";r=" + integer(remaining)
	if t := more(d); t > 0 {
		item += ";t=" + integer(t)
	}
	head.Set("RateLimit", item)
	if h != XRateLimit {
		return
	}
	head.Set("X-RateLimit-Limit", strconv.FormatInt(limit, 10))
	head.Set("X-RateLimit-Remaining", strconv.FormatInt(remaining, 10))
	if s := d.RetryAfter(); s > 0 && !d.Allowed {
		head.Set("X-RateLimit-Retry-After", strconv.FormatInt(s, 10))
	}
}

// more is the seconds until there is more quota: for who was denied the moment to come back,
// so that Retry-After is never earlier, else the end of the window. 0: not known, or never.
func more(d agent.Decision) int64 {
	if s := d.RetryAfter(); s > 0 && !d.Allowed {
		return s
	}
	return agent.RoundUp(d.Reset, time.Second)
}

func integer(n int64) string { return strconv.FormatInt(min(n, maxInteger), 10) }
