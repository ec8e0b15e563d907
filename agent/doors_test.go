package agent_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const doorsPolicy = `
dimensions:
- {name: exports, kind: period, limit: 10, period: {every: day}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: payments, kind: period, limit: 100, period: {every: month}, class: exact}
- {name: views, kind: period, limit: unlimited, period: {every: minute}, class: best_effort}
- {name: tokens, kind: period, limit: 100000, period: {every: day}, class: bounded, overshoot: 10%, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: calls, kind: rate, limit: 2/s, burst: 4, class: hard, overshoot: 4, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: jobs, kind: concurrency, limit: 2, max_hold: 1h, class: hard, overshoot: 2, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
operations:
- {name: export, takes: [{dimension: exports, cost: 2}, {dimension: views}]}
- {name: start_job, takes: [{dimension: exports}, {dimension: jobs}]}
- {name: queue, takes: [{dimension: exports, cost: 10}], on_deny: defer, defer: {max_age: 2h}}
`

// step is one question to a door. In its body $ is the id that the last answer gave.
type step struct {
	what, body string
	want       string
}

// String is an answer in a few words: the outcome, and what belongs to it.
func (v told) String() string {
	words := []string{v.Outcome}
	switch v.Outcome {
	case "bad", "unknown id":
		return fmt.Sprintf("%s %s: %s", v.Outcome, v.Field, v.Detail)
	case "denied", "peeked":
		words = append(words, v.Reason)
	}
	if v.Dimension != "" {
		words = append(words, v.Dimension, fmt.Sprintf("%d/%d", v.Remaining, v.Limit))
	}
	for _, f := range []struct {
		name string
		n    int64
	}{{"largest", v.Largest}, {"estimate", v.Estimate}, {"actual", v.Actual}, {"expires", v.ExpiresMs}} {
		if f.n != 0 {
			words = append(words, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	if v.Ticket != nil {
		words = append(words, fmt.Sprintf("place %d", v.Ticket.Place))
	}
	return strings.Join(words, " ")
}

const (
	of      = `{"tenant":"acme","dimension":`
	several = `{"tenant":"acme","takes":`
	does    = `{"tenant":"acme","operation":`
)

var doorCases = []struct {
	name  string
	steps []step
}{
	{"one key", []step{
		{"take", of + `"exports","cost":9}`, "allowed exports 1/10"},
		{"take", of + `"exports","cost":2}`, "denied exhausted exports 1/10"},
		{"take", of + `"exports"}`, "allowed exports 0/10"},
		{"take", of + `"exports","cost":11}`, "denied too_large exports 0/10 largest 10"},
		{"take", of + `"views","cost":9007199254740991}`, "allowed views 0/-1"},
	}},
	{"A5 a peek", []step{
		{"take", of + `"exports","cost":0}`, "allowed exports 10/10"},
		{"take", of + `"exports","cost":10}`, "allowed exports 0/10"},
		{"take", of + `"exports","cost":0}`, "peeked exhausted exports 0/10"},
	}},
	{"repeats", []step{
		{"take", of + `"exports","cost":4,"id":"a"}`, "allowed exports 6/10"},
		{"take", of + `"exports","cost":4,"id":"a"}`, "allowed exports 6/10"},
		{"take", of + `"exports","cost":5,"id":"a"}`, "bad id: a repeat of the take that the id was used for, or a new id"},
		{"take", several + `[{"dimension":"exports","cost":2}],"id":"b"}`, "allowed exports 4/10"},
		{"take", several + `[{"dimension":"exports","cost":2}],"id":"b"}`, "allowed exports 4/10"},
		{"take", does + `"export","id":"c"}`, "allowed exports 2/10"},
		{"take", does + `"export","id":"c"}`, "allowed exports 2/10"},
		{"take", of + `"exports","cost":0}`, "allowed exports 2/10"},
	}},
	{"several keys", []step{
		{"take", several + `[{"dimension":"exports","cost":8},{"dimension":"payments","cost":3}]}`, "allowed exports 2/10"},
		{"take", several + `[{"dimension":"payments"},{"dimension":"exports","cost":3}]}`, "denied exhausted exports 2/10"},
		{"take", of + `"payments","cost":97}`, "allowed payments 0/100"},
		{"take", several + `[{"dimension":"exports"},{"dimension":"exports"},{"dimension":"views"}]}`, "allowed exports 0/10"},
	}},
	{"an operation", []step{
		{"take", does + `"export"}`, "allowed exports 8/10"},
		{"take", does + `"export","times":4}`, "allowed exports 0/10"},
		{"take", does + `"export"}`, "denied exhausted exports 0/10"},
	}},
	{"R4.5 a turn", []step{
		{"take", does + `"queue"}`, "allowed exports 0/10"},
		{"take", does + `"queue"}`, "denied exhausted exports 0/10 place 0"},
		{"take", does + `"queue"}`, "denied exhausted exports 0/10 place 1"},
		{"take", does + `"queue","ticket":"$"}`, "denied exhausted exports 0/10 place 1"},
		{"take", does + `"queue","ticket":"$","id":"a"}`, "denied exhausted exports 0/10 place 1"},
		{"take", does + `"queue","ticket":"$","times":2}`, "bad times: 1, as the ticket joined"},
		{"take", does + `"queue","times":2}`, "denied too_large exports 0/10 largest 10"},
		{"take", does + `"export"}`, "denied exhausted exports 0/10"},
		{"take", does + `"queue","ticket":"018f3c3e-0000-7000-8000-000000000000"}`, "unknown id ticket: one that is in the line: not served, not too old, and asked for in time"},
		{"take", does + `"queue","ticket":"first"}`, "bad ticket: one that a denial gave"},
		{"take", of + `"exports","ticket":"$"}`, "bad ticket: only with operation"},
		{"leave", does + `"queue","ticket":"$"}`, "allowed"},
		{"leave", does + `"queue","ticket":"$"}`, "allowed"},
		{"take", does + `"queue","ticket":"$"}`, "unknown id ticket: one that is in the line: not served, not too old, and asked for in time"},
		{"take", does + `"queue"}`, "denied exhausted exports 0/10 place 1"},
		{"leave", does + `"since_dropped","ticket":"$"}`, "allowed"},
		{"leave", does + `"queue","ticket":"first"}`, "bad ticket: one that a denial gave"},
	}},
	{"a rate", []step{
		{"take", of + `"calls","cost":4}`, "allowed calls 0/4"},
		{"take", of + `"calls","cost":5}`, "denied too_large calls 0/4 largest 4"},
	}},
	{"a reservation", []step{
		{"reserve", of + `"tokens","estimate":3000,"id":"chat-1"}`, "allowed tokens 97000/100000 estimate 3000"},
		{"reserve", of + `"tokens","estimate":3000,"id":"chat-1"}`, "allowed tokens 97000/100000 estimate 3000"},
		{"settle", `{"id":"$","actual":1000}`, "allowed actual 1000"},
		{"settle", `{"id":"$","actual":1000}`, "allowed actual 1000"},
		{"settle", `{"id":"$","actual":1001}`, "bad actual: what the reservation was settled with, 1000"},
		{"take", of + `"tokens","cost":0}`, "allowed tokens 99000/100000"},
		{"settle", `{"id":"chat-1","actual":1}`, "unknown id id: that of a reservation which this agent made, at most 1h0m0s ago"},
		{"settle", `{"id":"018f3c3e-0000-7000-8000-000000000000","actual":1}`, "unknown id id: that of a reservation which this agent made, at most 1h0m0s ago"},
		{"reserve", of + `"tokens","estimate":100001}`, "denied too_large tokens 99000/100000 largest 100000"},
		{"reserve", of + `"exports","estimate":2}`, "bad maximum: true, where the class is hard or exact"},
		{"reserve", of + `"exports","estimate":11,"maximum":true}`, "denied too_large exports 10/10 largest 10"},
		{"reserve", of + `"exports","estimate":2,"maximum":true}`, "allowed exports 8/10 estimate 2"},
		{"settle", `{"id":"$","actual":3}`, "bad actual: at most what was reserved as a maximum, 2"},
	}},
	{"slots", []step{
		{"acquire", of + `"jobs","id":"job-1","hold_ms":60000}`, "allowed jobs 1/2 expires 60000"},
		{"acquire", of + `"jobs","id":"job-1","hold_ms":60000}`, "allowed jobs 1/2 expires 60000"},
		{"acquire", does + `"start_job","id":"job-2"}`, "allowed jobs 0/2 expires 3600000"},
		{"acquire", does + `"start_job","id":"job-3"}`, "denied exhausted jobs 0/2"},
		{"take", of + `"exports","cost":0}`, "allowed exports 9/10"},
		{"acquire", of + `"jobs","cost":3}`, "denied too_large jobs 0/2 largest 2"},
		{"renew", `{"tenant":"acme","id":"job-1"}`, "allowed expires 60000"},
		{"renew", `{"tenant":"other","id":"job-1"}`, "unknown id id: that of a permit which this agent gave the tenant"},
		{"release", `{"tenant":"acme","id":"job-1"}`, "allowed"},
		{"release", `{"tenant":"acme","id":"job-1"}`, "allowed"},
		{"renew", `{"tenant":"acme","id":"job-1"}`, "unknown id id: that of a permit which was not released and has not lapsed"},
		{"release", `{"tenant":"acme","id":"job-9"}`, "unknown id id: that of a permit which this agent gave the tenant"},
		{"acquire", of + `"jobs","id":"job-1"}`, "bad id: a new id: that work has ended"},
		{"acquire", does + `"start_job","id":"job-3"}`, "allowed jobs 0/2 expires 3600000"},
		{"take", of + `"jobs"}`, "bad dimension: one without a concurrency limit: slots are acquired and released"},
		{"acquire", of + `"exports"}`, "bad dimension: one with a concurrency limit: anything else is taken"},
	}},
}

// TestDoorsAgree asks both doors the same, a take also as one of many, each of an agent of its own at the same moment.
func TestDoorsAgree(t *testing.T) {
	t.Parallel()
	for _, tc := range append(doorCases, badCases()) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			agree(t, doorsPolicy, tc.steps)
		})
	}
}

// agree plays the same at every door, each before an agent of its own.
func agree(t *testing.T, policy string, steps []step) {
	t.Helper()
	var http []told
	inWorld(t, policy, func(t *testing.T, w *world) { http = play(t, steps, w.post) })
	for i := range http {
		http[i].header = nil
	}
	for name, door := range map[string]func(w *world) func(what, body string) told{
		"gRPC":              func(w *world) func(what, body string) told { return w.call },
		"HTTP, one of many": func(w *world) func(what, body string) told { return w.postMany },
		"gRPC, one of many": func(w *world) func(what, body string) told { return w.callMany },
	} {
		var others []told
		inWorld(t, policy, func(t *testing.T, w *world) { others = play(t, steps, door(w)) })
		for i, other := range others {
			if other.header = nil; !reflect.DeepEqual(http[i], other) {
				t.Errorf("%s %s:\nHTTP %+v\n%s %+v", steps[i].what, steps[i].body, http[i], name, other)
			}
		}
	}
}

// play asks a door one question after the other. An id that the agent made up is known by its
// length, and what is left of a hold or a window depends on how long the answers took.
func play(t *testing.T, steps []step, ask func(what, body string) told) (answers []told) {
	t.Helper()
	id := ""
	for _, s := range steps {
		v := ask(s.what, strings.ReplaceAll(s.body, "$", id))
		if v.ID != "" {
			id = v.ID
		}
		if len(v.ID) == 36 {
			v.ID = "made up"
		}
		if v.Ticket != nil {
			id = v.Ticket.ID
			if v.Ticket.RetryAfterMs != v.RetryAfterMs {
				t.Errorf("%s: the ticket says %d ms and the answer %d", s.body, v.Ticket.RetryAfterMs, v.RetryAfterMs)
			}
			v.Ticket.ID, v.Ticket.RetryAfterMs, v.Ticket.ExpiresMs = "made up", roundUp(v.Ticket.RetryAfterMs), roundUp(v.Ticket.ExpiresMs)
		}
		v.ExpiresMs = roundUp(v.ExpiresMs)
		if got := v.String(); got != s.want {
			t.Errorf("%s %s: %q, want %q", s.what, s.body, got, s.want)
		}
		v.ResetMs, v.RetryAfterMs, v.WaitedMs = roundUp(v.ResetMs), roundUp(v.RetryAfterMs), roundUp(v.WaitedMs)
		answers = append(answers, v)
	}
	return answers
}

func roundUp(ms int64) int64 { return (ms + 9_999) / 10_000 * 10_000 }

// badCases are requests that make no sense: their field is named, and nothing is charged.
func badCases() (c struct {
	name  string
	steps []step
}) {
	const (
		whole = ": a whole number from 1 to 9007199254740991"
		dim   = ": 1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"
	)
	c.name = "bad requests"
	add := func(what, body, want string) { c.steps = append(c.steps, step{what, body, "bad " + want}) }
	for _, what := range []string{"take", "acquire"} {
		add(what, `{"dimension":"jobs"}`, "tenant: 1 to 256 bytes of UTF-8 without control characters")
		add(what, `{"tenant":"acme"}`, "dimension"+dim)
		add(what, of+`"jobs","operation":"export"}`, "dimension: one of dimension, takes and operation")
		add(what, of+`"jobs","takes":[{"dimension":"jobs"}]}`, "dimension: one of dimension, takes and operation")
		add(what, does+`"export","takes":[{"dimension":"jobs"}]}`, "takes: one of dimension, takes and operation")
		add(what, does+`"export","cost":1}`, "cost: only with dimension")
		add(what, of+`"jobs","times":2}`, "times: only with operation")
		add(what, does+`"export","times":0}`, "times"+whole)
		add(what, does+`"Export"}`, "operation: one that policy defines")
		add(what, does+`"import"}`, "operation: one that policy defines")
		add(what, several+`[{"dimension":"views"},{"dimension":"views","cost":0}]}`, "takes[1].cost"+whole)
		add(what, several+`[{"cost":1}]}`, "takes[0].dimension"+dim)
		add(what, several+`[`+strings.Repeat(`{"dimension":"views"},`, 16)+`{"dimension":"views"}]}`, "takes: a list of 1 to 16 {dimension, cost}")
		add(what, of+`"views","id":"`+strings.Repeat("x", 129)+`"}`, "id: 1 to 128 bytes")
	}
	add("take", of+`"expotrs"}`, "dimension: one that policy defines: calls, exports, jobs, payments, tokens, views")
	add("take", does+`"start_job"}`, "operation: one without a concurrency limit: slots are acquired and released")
	add("acquire", of+`"jobs","cost":0}`, "cost"+whole)
	add("acquire", of+`"jobs","hold_ms":2592000001}`, "hold_ms: a whole number from 0 to 2592000000")
	add("acquire", of+`"jobs","wait_ms":3600001}`, "wait_ms: a whole number from 0 to 3600000")
	add("reserve", of+`"tokens"}`, "estimate"+whole)
	add("reserve", `{"dimension":"tokens","estimate":1}`, "tenant: 1 to 256 bytes of UTF-8 without control characters")
	add("settle", `{"actual":1}`, "id: 1 to 128 bytes")
	add("settle", `{"id":"x"}`, "actual: a whole number from 0 to 9007199254740991")
	add("leave", `{"operation":"queue","ticket":"x"}`, "tenant: 1 to 256 bytes of UTF-8 without control characters")
	add("leave", `{"tenant":"acme","ticket":"x"}`, "operation: that of the ticket")
	add("leave", does+`"queue"}`, "ticket: one that a denial gave")
	for _, what := range []string{"renew", "release"} {
		add(what, `{"id":"x"}`, "tenant: 1 to 256 bytes of UTF-8 without control characters")
		add(what, `{"tenant":"acme"}`, "id: 1 to 128 bytes")
	}
	return c
}

// An outage is an outage at every door and for every question; what runs is renewed and ends.
func TestO4EveryQuestionInAnOutage(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"http", "grpc"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
				ask := w.post
				if door == "grpc" {
					ask = w.call
				}
				play(t, []step{{"acquire", of + `"jobs","id":"job-1"}`, "allowed jobs 1/2 expires 3600000"}}, ask)
				w.up.cut(true)
				time.Sleep(time.Minute)
				synctest.Wait()
				play(t, []step{
					{"take", of + `"payments"}`, "outage"},
					{"take", several + `[{"dimension":"exports"},{"dimension":"payments"}]}`, "outage"},
					{"take", does + `"export"}`, "outage"},
					{"reserve", of + `"tokens","estimate":5}`, "outage"},
					{"acquire", of + `"jobs"}`, "outage"},
					{"leave", does + `"queue","ticket":"018f3c3e-0000-7000-8000-000000000000"}`, "outage"},
					{"renew", `{"tenant":"acme","id":"job-1"}`, "allowed expires 3600000"},
					{"release", `{"tenant":"acme","id":"job-1"}`, "allowed"},
				}, ask)
				w.up.cut(false)
			})
		})
	}
}
