package answer

import (
	"strconv"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

// appendDecision writes what json.Marshal makes of Of(d), for decisions as they mostly are. It
// reports false of others: those with a ticket or a largest cost, and names that need an escape.
func appendDecision(text []byte, d *agent.Decision) ([]byte, bool) {
	if d.Ticket != nil || d.Reason == quota.TooLarge || !isPlain(string(d.Reason)) || !isPlain(d.Dimension) {
		return nil, false
	}
	text = strconv.AppendBool(append(text, `{"allowed":`...), d.Allowed)
	text = append(append(text, `,"reason":"`...), d.Reason...)
	text = append(append(text, `","dimension":"`...), d.Dimension...)
	if d.Limit.Unlimited {
		text = append(text, `","limit":"unlimited","remaining":"unlimited"`...)
	} else {
		text = strconv.AppendInt(append(text, `","limit":`...), int64(d.Limit.Units), 10)
		text = strconv.AppendInt(append(text, `,"remaining":`...), max(0, int64(d.Remaining)), 10)
	}
	text = strconv.AppendInt(append(text, `,"retry_after_ms":`...), agent.RoundUp(d.RetryIn, time.Millisecond), 10)
	text = strconv.AppendInt(append(text, `,"policy_version":`...), d.PolicyVersion, 10)
	text = strconv.AppendBool(append(text, `,"shadow":`...), d.Shadow)
	text = strconv.AppendInt(append(text, `,"reset_ms":`...), agent.RoundUp(d.Reset, time.Millisecond), 10)
	return append(text, '}'), true
}

// isPlain reports text of which JSON needs no escape.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}
