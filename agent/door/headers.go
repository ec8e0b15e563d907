package door

import (
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
)

// RateLimit writes the headers of draft-ietf-httpapi-ratelimit-headers, RateLimit-Policy and
// RateLimit, that describe the limit which decided. There is nothing to tell of one that is no
// limit, or that the agent has not heard of yet (no policy version). A dimension's name has no
// character that would need an escape.
func RateLimit(d agent.Decision) (policy, left string, ok bool) {
	if d.Limit.Unlimited || d.PolicyVersion == 0 {
		return "", "", false
	}
	var room [160]byte
	text := append(appendName(room[:0], d.Dimension), ";q="...)
	text = appendInteger(text, max(0, int64(d.Limit.Units)))
	if w := agent.RoundUp(d.Window, time.Second); w > 0 {
		text = appendInteger(append(text, ";w="...), w)
	}
	policy = string(text)
	text = append(appendName(text[:0], d.Dimension), ";r="...)
	text = appendInteger(text, max(0, int64(d.Remaining)))
	if t := More(d); t > 0 {
		text = appendInteger(append(text, ";t="...), t)
	}
	return policy, string(text), true
}

func appendName(text []byte, name string) []byte {
	return append(append(append(text, '"'), name...), '"')
}

// More is the seconds until there is more quota: for who was denied the moment to come back,
// so that Retry-After is never earlier, else the end of the window. 0: not known, or never.
func More(d agent.Decision) int64 {
	if s := d.RetryAfter(); s > 0 && !d.Allowed {
		return s
	}
	return agent.RoundUp(d.Reset, time.Second)
}

// maxInteger is the largest that a structured field may hold (RFC 9651). A limit above it is
// shown as it: no caller comes near.
const maxInteger = 999_999_999_999_999

func appendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(n, maxInteger), 10)
}
