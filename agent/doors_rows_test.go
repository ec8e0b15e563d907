package agent_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// take posts a take and holds the answer's outcome and deciding dimension to what is wanted.
func (w *world) take(body, outcome, dimension string) told {
	w.t.Helper()
	v := w.post("take", body)
	if v.Outcome != outcome || v.Dimension != dimension {
		w.t.Errorf("%s: %s, want %s by %s", body, v, outcome, dimension)
	}
	return v
}

// left holds what a peek says of a key.
func (w *world) left(dimension string, want int64) {
	w.t.Helper()
	if v := w.post("take", of+strconv.Quote(dimension)+`,"cost":0}`); v.Remaining != want {
		w.t.Errorf("%s: %d left, want %d", dimension, v.Remaining, want)
	}
}

func (v told) retryAfter() string { return v.header.Get("Retry-After") }

// untilEnd is the Retry-After of a denial that lasts to the end of the day or month.
func untilEnd(end time.Time) string {
	left := time.Until(end)
	return fmt.Sprint(int64((left + time.Second - 1) / time.Second))
}

// REQUIREMENTS R2.14.
func TestR2_14ASpentQuotaDeniesOnlyWhatDrawsOnIt(t *testing.T) {
	t.Parallel()
	inWorld(t, `
tenants:
- {tenant: acme, plan: free}
dimensions:
- {name: calls, kind: period, limit: 50000, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}, plans: {free: {limit: 1000}}}
- {name: login, kind: rate, limit: 20/s, class: hard, overshoot: 20, cold: {wait: 500ms, then: deny}}
- {name: payments, kind: period, limit: 300, period: {every: month}, class: exact}
- {name: cancellations, kind: period, limit: unlimited, period: {every: day}, class: best_effort}
- {name: month_calls, kind: period, limit: 10000000, period: {every: month}, class: bounded, cold: {wait: 500ms, then: deny}}
- {name: egress_bytes, unit: bytes, kind: period, limit: 50000000000, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
operations:
- {name: call, takes: [{dimension: calls}, {dimension: month_calls}]}
- {name: cancel, takes: [{dimension: cancellations}]}
`, func(t *testing.T, w *world) {
		now := time.Now().UTC()
		tomorrow := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
		nextMonth := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if v := w.take(does+`"call","times":1000}`, "allowed", "calls"); v.Remaining != 0 || v.Limit != 1000 {
			t.Errorf("the free plan's day: %s", v)
		}
		denied := w.take(does+`"call"}`, "denied", "calls")
		if denied.Reason != "exhausted" || denied.retryAfter() != untilEnd(tomorrow) {
			t.Errorf("the 1,001st call: %s, Retry-After %s, want %s", denied, denied.retryAfter(), untilEnd(tomorrow))
		}
		w.left("month_calls", 10_000_000-1000)

		w.take(of+`"login","cost":20}`, "allowed", "login")
		if v := w.take(of+`"login","cost":20}`, "denied", "login"); v.retryAfter() != "1" {
			t.Errorf("20 more logins in the same second: Retry-After %s", v.retryAfter())
		}
		time.Sleep(time.Second)
		w.take(of+`"login"}`, "allowed", "login")
		w.take(of+`"payments"}`, "allowed", "payments")
		w.take(does+`"cancel"}`, "allowed", "cancellations")

		w.take(of+`"month_calls","cost":9999000}`, "allowed", "month_calls")
		if v := w.take(of+`"month_calls"}`, "denied", "month_calls"); v.retryAfter() != untilEnd(nextMonth) {
			t.Errorf("the month's 10,000,001st: Retry-After %s, want %s", v.retryAfter(), untilEnd(nextMonth))
		}
		w.take(of+`"egress_bytes","cost":49999999999}`, "allowed", "egress_bytes")
		w.take(of+`"egress_bytes","cost":2}`, "denied", "egress_bytes")
		w.take(of+`"egress_bytes"}`, "allowed", "egress_bytes")
		w.take(of+`"egress_bytes"}`, "denied", "egress_bytes")
		w.take(of+`"payments"}`, "allowed", "payments")
	})
}

// REQUIREMENTS R1.9: what one request costs differs by dimension.
func TestR1_9OneRequestCostsEachDimensionItsOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.take(several+`[{"dimension":"exports"},{"dimension":"tokens","cost":1200},{"dimension":"payments","cost":3}]}`, "allowed", "exports")
		w.left("exports", 9)
		w.left("tokens", 98_800)
		w.left("payments", 97)
	})
}

// CASES D4: all requests 1000 a minute, and exports 10 a minute.
func TestD4TwoRulesOneRequest(t *testing.T) {
	t.Parallel()
	inWorld(t, `
dimensions:
- {name: any_request, kind: period, limit: 1000, period: {every: minute}, class: hard, cold: {wait: 500ms, then: deny}}
- {name: export, kind: period, limit: 10, period: {every: minute}, class: hard, cold: {wait: 500ms, then: deny}}
`, func(t *testing.T, w *world) {
		const both = several + `[{"dimension":"any_request"},{"dimension":"export"}]}`
		for i := range int64(10) {
			w.take(both, "allowed", "export")
			w.left("any_request", 999-i)
			w.left("export", 9-i)
		}
		w.take(both, "denied", "export")
		w.left("any_request", 990)
	})
}

// CASES F5: a user's limit of 5 within an organisation's of 10.
func TestF5ADeniedUserChargesTheOrganisationNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, `
dimensions:
- {name: org, kind: period, limit: 10, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
- {name: user_1, kind: period, limit: 5, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
- {name: user_2, kind: period, limit: 5, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
`, func(t *testing.T, w *world) {
		for i := range 8 {
			outcome, by := "allowed", "user_1"
			if i >= 5 {
				outcome = "denied"
			}
			w.take(several+`[{"dimension":"org"},{"dimension":"user_1"}]}`, outcome, by)
		}
		for range 5 {
			if v := w.post("take", several+`[{"dimension":"org"},{"dimension":"user_2"}]}`); v.Outcome != "allowed" {
				t.Errorf("user 2: %s", v)
			}
		}
		w.take(of+`"org"}`, "denied", "org")
	})
}

// REQUIREMENTS R1.10: a chain takes all or none and names the link that failed.
func TestR1_10AChainNamesTheLinkThatDenied(t *testing.T) {
	t.Parallel()
	inWorld(t, `
dimensions:
- {name: global, kind: rate, limit: 10000/s, class: hard, overshoot: 10000, cold: {wait: 500ms, then: deny}}
- {name: post, kind: period, limit: 1, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
- {name: add_friend, kind: period, limit: 100, period: {every: day}, class: exact}
- {name: like, kind: rate, limit: 5/m, class: hard, overshoot: 5, cold: {wait: 500ms, then: deny}}
operations:
- {name: post, takes: [{dimension: global}, {dimension: post}]}
- {name: add_friend, takes: [{dimension: global}, {dimension: add_friend}]}
- {name: like, takes: [{dimension: global}, {dimension: like}]}
- {name: everything, takes: [{dimension: global}, {dimension: post}, {dimension: add_friend}, {dimension: like}]}
`, func(t *testing.T, w *world) {
		denied := func(operation, by string) told { // and no other link is touched
			t.Helper()
			links := []string{"global", "post", "add_friend", "like"}
			var before []int64
			for _, l := range links {
				before = append(before, w.post("take", of+strconv.Quote(l)+`,"cost":0}`).Remaining)
			}
			v := w.take(does+strconv.Quote(operation)+`}`, "denied", by)
			for i, l := range links {
				w.left(l, before[i])
			}
			return v
		}
		w.take(does+`"post"}`, "allowed", "post")
		second := denied("post", "post")
		if second.header.Get("RateLimit-Policy") != `"post";q=1;w=86400` { // H3
			t.Errorf("headers %v", second.header)
		}
		denied("everything", "post")
		w.take(does+`"add_friend","times":100}`, "allowed", "add_friend")
		denied("add_friend", "add_friend")
		for range 5 {
			w.take(does+`"like"}`, "allowed", "like")
		}
		third := denied("like", "like")
		if got := third.header.Get("RateLimit-Policy"); got != `"like";q=5` {
			t.Errorf("policy of a rate: %s", got)
		}
	})
}

// CASES H1 and H3 for a rate: who waits as told succeeds, and the headers are those of the
// denier. H4 for slots and too_large: no time is named, because none is known or would help.
func TestH1WaitingAsToldForARate(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		const three = several + `[{"dimension":"views"},{"dimension":"calls","cost":3}]}`
		for range 5 {
			v := w.post("take", three)
			for range 3 { // what one wait too many has gathered
				if v.Outcome == "allowed" {
					v = w.post("take", three)
				}
			}
			if v.Outcome != "denied" || v.Dimension != "calls" {
				t.Fatalf("more than 2 a second: %s", v)
			}
			wait, err := strconv.Atoi(v.retryAfter())
			if err != nil || wait < 1 || wait > 2 {
				t.Fatalf("3 calls at 2 a second: Retry-After %q", v.retryAfter())
			}
			if p, l := v.header.Get("RateLimit-Policy"), v.header.Get("RateLimit"); p != `"calls";q=4` || l != fmt.Sprintf(`"calls";r=%d;t=%d`, v.Remaining, wait) {
				t.Errorf("headers: %s, %s", p, l)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			w.take(three, "allowed", "calls")
		}
	})
}

func TestH4NoMomentIsNamedWhereNoneIsKnown(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		for _, body := range []string{of + `"jobs","cost":2,"id":"j"}`} {
			if v := w.post("acquire", body); v.Outcome != "allowed" {
				t.Fatal(v)
			}
		}
		for what, body := range map[string]string{
			"acquire": of + `"jobs"}`, "take": of + `"calls","cost":5}`, "reserve": of + `"tokens","estimate":100001}`,
		} {
			v := w.post(what, body)
			if v.Outcome != "denied" || v.retryAfter() != "" || v.RetryAfterMs != 0 || v.Remaining < 0 {
				t.Errorf("%s %s: %s, Retry-After %q, %d ms", what, body, v, v.retryAfter(), v.RetryAfterMs)
			}
		}
		if v := w.post("acquire", of+`"jobs"}`); v.header.Get("RateLimit-Policy") != `"jobs";q=2` || v.header.Get("RateLimit") != `"jobs";r=0` {
			t.Errorf("headers of slots: %v", v.header)
		}
	})
}

// A caller who waits in line is served when work ends, and is told how long that took.
func TestAWaitingAcquireIsServedWhenWorkEnds(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.post("acquire", of+`"jobs","cost":2,"id":"first"}`)
		go func() {
			time.Sleep(45 * time.Second)
			w.post("release", `{"tenant":"acme","id":"first"}`)
		}()
		v := w.post("acquire", of+`"jobs","id":"second","wait_ms":60000}`)
		if v.Outcome != "allowed" || v.WaitedMs < 45_000 || v.WaitedMs > 45_100 {
			t.Errorf("%s after %d ms", v, v.WaitedMs)
		}
		began := time.Now()
		if v = w.post("acquire", of+`"jobs","cost":2,"wait_ms":5000}`); v.Outcome != "denied" || v.Reason != "exhausted" || time.Since(began) != 5*time.Second {
			t.Errorf("%s after %v, want denied after 5 s", v, time.Since(began))
		}
	})
}
