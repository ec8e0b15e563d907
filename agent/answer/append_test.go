package answer

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
)

// A decision that is written by hand is what the JSON writer makes of it.
func TestDecisionsAreWrittenAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := agent.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Shadow: rapid.Bool().Draw(t, "shadow"),
			Reason:    rapid.SampledFrom([]quota.Reason{quota.Allowed, quota.Exhausted, quota.TooLarge, quota.OpenMode, quota.UnknownTenant, "<b>"}).Draw(t, "reason"),
			Dimension: rapid.OneOf(rapid.StringMatching(`[a-z0-9_.-]{1,63}`), rapid.String()).Draw(t, "dimension"),
			Limit:     quota.Limit{Units: quota.Units(rapid.Int64().Draw(t, "limit")), Unlimited: rapid.Bool().Draw(t, "unlimited")},
			Remaining: quota.Units(rapid.Int64().Draw(t, "remaining")), RetryIn: time.Duration(rapid.Int64().Draw(t, "retry in")),
			Reset: time.Duration(rapid.Int64().Draw(t, "reset")), PolicyVersion: rapid.Int64().Draw(t, "version"),
		}
		if rapid.Bool().Draw(t, "waits") {
			d.Ticket = &agent.Ticket{ID: "t"}
		}
		want, err := json.Marshal(Of(d))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := appendDecision(nil, &d)
		if ok && string(got) != string(want) {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
		if special := d.Ticket != nil || d.Reason == quota.TooLarge || d.Reason == "<b>" || !isPlain(d.Dimension); ok == special {
			t.Errorf("%+v is written by hand: %v", d, ok)
		}
	})
}
