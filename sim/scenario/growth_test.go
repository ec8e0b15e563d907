package scenario

import (
	"testing"
)

// trafficText is four agents on one key whose budget binds nobody.
const trafficText = `
name: traffic
description: the same key, however often it is used
params: {rate: 100}
duration: 40s
policy: |
  dimensions:
    - {name: api_calls, kind: period, limit: 1000000000, period: {every: day}, class: hard, overshoot: 10%, lease: {ttl: 4s}, cold: {wait: 1s}}
regions:
  - {name: eu, agents: 4, latency: 10ms}
demand:
  - {dimension: api_calls, rate: "${rate}/s each"}
`

// The reason to lease: a hundred times the decisions make as many round trips, and deny nobody.
func TestTheLedgerDoesNotNoticeMoreDecisions(t *testing.T) {
	t.Parallel()
	large(t)
	run := func(rate string) *Result {
		s, err := Parse("traffic", []byte(trafficText), []Param{{"rate", rate}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), s, &Progress{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Results[0]
	}
	few, many := run("25"), run("2500")
	if many.Calls < 90*few.Calls || few.Allowed < few.Calls || many.Allowed < many.Calls {
		t.Fatalf("%d of %d calls were allowed, then %d of %d", few.Allowed, few.Calls, many.Allowed, many.Calls)
	}
	if float64(many.RoundTrips) > 1.2*float64(few.RoundTrips) {
		t.Errorf("%d calls made %d round trips, %d calls %d: want at most a fifth more", few.Calls, few.RoundTrips, many.Calls, many.RoundTrips)
	}
}
