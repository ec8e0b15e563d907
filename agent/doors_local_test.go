package agent_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const localPolicy = `
local:
- {name: backend, algorithm: token_bucket, limit: 2/s, burst: 4, start: full}
- {name: per_caller, algorithm: fixed_window, limit: 3/h, key: [tenant, address], start: full}
- {name: bytes, algorithm: token_bucket, limit: 1000/h, counts: cost, start: full}
- {name: shaped, algorithm: leaky_bucket, limit: 10/s, queue: 5, start: full}
- {name: workers, algorithm: concurrency, limit: 1, queue: {count: 1, bytes: 100, age: 10s}}
- {name: cold_start, algorithm: token_bucket, limit: 1/s}
dimensions:
- {name: calls, kind: period, limit: 10, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}, local: [backend]}
- {name: pages, kind: period, limit: 100, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}, local: [per_caller]}
- {name: tokens, kind: period, limit: 100000, period: {every: day}, class: bounded, overshoot: 10%, cold: {wait: 500ms, then: deny}, local: [bytes]}
- {name: even, kind: period, limit: unlimited, period: {every: day}, class: best_effort, cold: {wait: 500ms, then: deny}, local: [shaped]}
- {name: new, kind: period, limit: unlimited, period: {every: day}, class: best_effort, cold: {wait: 500ms, then: deny}, local: [cold_start]}
- {name: jobs, kind: concurrency, limit: 3, max_hold: 1h, class: hard, overshoot: 3, cold: {wait: 500ms, then: deny}, local: [workers]}
- {name: spare, kind: concurrency, limit: 3, max_hold: 1h, class: hard, overshoot: 3, cold: {wait: 500ms, then: deny}}
operations:
- {name: call, takes: [{dimension: calls}]}
- {name: start, takes: [{dimension: spare}, {dimension: calls, cost: 4}], local: [workers]}
`

const from = `,"caller":{"address":"203.0.113.7"}}`

var localCases = []struct {
	name  string
	steps []step
}{
	{"a local limit denies by its own name", []step{
		{"take", of + `"calls","cost":2}`, "allowed calls 8/10"},
		{"take", does + `"call","times":3}`, "allowed calls 5/10"},
		{"take", of + `"calls"}`, "denied exhausted backend 0/4"},
		{"take", does + `"call","times":5}`, "denied too_large backend 0/4 largest 4"},
		{"take", of + `"calls","cost":0}`, "allowed calls 5/10"},
	}},
	{"what it gave goes back when the quota denies", []step{
		{"take", of + `"calls","cost":9}`, "allowed calls 1/10"},
		{"take", of + `"calls","cost":2}`, "denied exhausted calls 1/10"},
		{"take", of + `"calls","cost":2}`, "denied exhausted calls 1/10"},
		{"take", of + `"calls","cost":11}`, "denied too_large calls 1/10 largest 10"},
		{"take", several + `[{"dimension":"calls","cost":2},{"dimension":"even"}]}`, "denied exhausted calls 1/10"},
		{"take", does + `"call","times":3}`, "denied exhausted calls 1/10"},
		{"take", of + `"calls"}`, "allowed calls 0/10"},
	}},
	{"by caller", []step{
		{"take", of + `"pages"` + from, "allowed pages 99/100"},
		{"take", of + `"pages","cost":2` + from, "allowed pages 97/100"},
		{"take", of + `"pages"` + from, "allowed pages 96/100"},
		{"take", of + `"pages"` + from, "denied exhausted per_caller 0/3"},
		{"take", of + `"pages","caller":{"address":"203.0.113.8"}}`, "allowed pages 95/100"},
		{"take", `{"tenant":"other","dimension":"pages"` + from, "allowed pages 99/100"},
		{"take", several + `[{"dimension":"pages"}]` + from, "denied exhausted per_caller 0/3"},
		{"take", of + `"pages"}`, "bad caller.address: not left out: the local limit per_caller counts by it"},
		{"take", of + `"pages","caller":{"address":"203.0.113.7:80"}}`, "bad caller.address: an IPv4 or IPv6 address, without port and zone"},
		{"take", of + `"calls","caller":{"route":"` + strings.Repeat("x", 257) + `"}}`, "bad caller.route: at most 256 bytes of UTF-8 without control characters"},
	}},
	{"a repeat is charged once", []step{
		{"take", of + `"pages","id":"a"` + from, "allowed pages 99/100"},
		{"take", of + `"pages","id":"a"` + from, "allowed pages 99/100"},
		{"take", of + `"pages","id":"a"` + from, "allowed pages 99/100"},
		{"take", of + `"pages","id":"b"` + from, "allowed pages 98/100"},
		{"take", of + `"pages","id":"c"` + from, "allowed pages 97/100"},
		{"take", of + `"pages","id":"d"` + from, "denied exhausted per_caller 0/3"},
	}},
	{"a reservation counts its estimate", []step{
		{"reserve", of + `"tokens","estimate":900}`, "allowed tokens 99100/100000 estimate 900"},
		{"reserve", of + `"tokens","estimate":200}`, "denied exhausted bytes 100/1000"},
		{"reserve", of + `"tokens","estimate":1001}`, "denied too_large bytes 100/1000 largest 1000"},
		{"reserve", of + `"tokens","estimate":100,"caller":{"address":"?"}}`, "bad caller.address: an IPv4 or IPv6 address, without port and zone"},
		{"reserve", of + `"tokens","estimate":100}`, "allowed tokens 99000/100000 estimate 100"},
	}},
	{"slots", []step{
		{"acquire", of + `"jobs","id":"one"}`, "allowed jobs 2/3 expires 3600000"},
		{"acquire", of + `"jobs","id":"one"}`, "allowed jobs 2/3 expires 3600000"},
		{"acquire", of + `"jobs"}`, "denied exhausted workers 0/1"},
		{"acquire", does + `"start"}`, "denied exhausted workers 0/1"},
		{"take", of + `"calls","cost":0}`, "allowed calls 10/10"},
		{"release", `{"tenant":"acme","id":"one"}`, "allowed"},
		{"release", `{"tenant":"acme","id":"one"}`, "allowed"},
		{"acquire", does + `"start","id":"two","hold_ms":60000}`, "allowed spare 2/3 expires 60000"},
		{"acquire", of + `"jobs"}`, "denied exhausted workers 0/1"},
		{"acquire", of + `"spare","id":"three"}`, "allowed spare 1/3 expires 3600000"},
		{"acquire", of + `"jobs","wait_ms":5000,"caller":{"bytes":101}}`, "denied exhausted workers 0/1"},
		{"take", of + `"jobs"}`, "bad dimension: one without a concurrency limit: slots are acquired and released"},
		{"take", does + `"start"}`, "bad operation: one without a concurrency limit: slots are acquired and released"},
	}},
}

// Both doors answer alike, whatever local limits say.
func TestDoorsAgreeAboutLocalLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range localCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			agree(t, localPolicy, tc.steps)
		})
	}
}

// REQUIREMENTS R1.10, with a local limit as the first link: whichever denies, every other is as it
// was.
func TestR1_10AChainThatBeginsWithALocalLimit(t *testing.T) {
	t.Parallel()
	inWorld(t, `
local:
- {name: backend, algorithm: sliding_log, limit: 8/m, start: full}
- {name: uploads, algorithm: token_bucket, limit: 3/h, key: [tenant, actor], start: full}
dimensions:
- {name: global, kind: rate, limit: 10000/s, class: hard, overshoot: 10000, cold: {wait: 500ms, then: deny}, local: [backend]}
- {name: post, kind: period, limit: 2, period: {every: day}, class: hard, cold: {wait: 500ms, then: deny}}
- {name: add_friend, kind: period, limit: 1, period: {every: day}, class: exact}
operations:
- {name: post, takes: [{dimension: global}, {dimension: post}], local: [uploads]}
- {name: befriend, takes: [{dimension: global}, {dimension: add_friend}]}
`, func(t *testing.T, w *world) {
		ask := func(operation, actor, outcome, by string) told {
			t.Helper()
			return w.take(does+strconv.Quote(operation)+`,"caller":{"actor":"`+actor+`"}}`, outcome, by)
		}
		ask("post", "ann", "allowed", "post")
		ask("post", "ann", "allowed", "post")
		for range 20 { // backend has six left, ann one upload; the day's quota denies
			ask("post", "ann", "denied", "post")
		}
		ask("befriend", "ann", "allowed", "add_friend")
		for range 20 {
			ask("befriend", "ann", "denied", "add_friend") // of the exact lane
		}
		for range 5 {
			w.take(of+`"global"}`, "allowed", "global")
		}
		before := w.post("take", of+`"global","cost":0}`).Remaining
		ask("befriend", "ann", "denied", "backend")
		w.left("global", before)
		v := w.take(of+`"global"}`, "denied", "backend")
		if v.Reason != "exhausted" || v.Limit != 8 || v.RetryAfterMs <= 0 || v.RetryAfterMs > 60_000 {
			t.Errorf("the ninth in a minute: %s, %d ms", v, v.RetryAfterMs)
		}
		if p, r := v.header.Get("RateLimit-Policy"), v.retryAfter(); p != `"backend";q=8;w=60` || r == "" {
			t.Errorf("headers of a local limit: %q, Retry-After %q", p, r)
		}
		time.Sleep(time.Duration(v.RetryAfterMs) * time.Millisecond)
		w.take(of+`"global"}`, "allowed", "global")
	})
}

// H1: who waits as a local limit says passes.
func TestH1WaitingAsToldByALocalLimit(t *testing.T) {
	t.Parallel()
	inWorld(t, localPolicy, func(t *testing.T, w *world) {
		v := w.take(of+`"new"}`, "denied", "cold_start") // an agent starts with everything used
		for range 3 {
			if v.RetryAfterMs < 1 || v.RetryAfterMs > 1000 {
				t.Fatalf("%s: %d ms", v, v.RetryAfterMs)
			}
			time.Sleep(time.Duration(v.RetryAfterMs-1) * time.Millisecond)
			w.take(of+`"new"}`, "denied", "cold_start")
			time.Sleep(time.Millisecond)
			w.take(of+`"new"}`, "allowed", "new")
			v = w.take(of+`"new"}`, "denied", "cold_start")
		}
	})
}

// A shaping queue answers each request when it is its turn.
func TestR1_8AShapedRequestIsAnsweredInItsTurn(t *testing.T) {
	t.Parallel()
	inWorld(t, localPolicy, func(t *testing.T, w *world) {
		w.take(of+`"even"}`, "allowed", "even") // learns of the key
		time.Sleep(time.Second)
		began := time.Now()
		answers := make(chan string, 7)
		for range 7 {
			go func() {
				v := w.post("take", of+`"even"}`)
				answers <- fmt.Sprint(v.Outcome, " ", v.Dimension, " ", time.Since(began).Milliseconds(), " ", v.RetryAfterMs)
			}()
		}
		synctest.Wait()
		var got []string
		for range 7 {
			got = append(got, <-answers)
		}
		want := []string{"denied shaped 0 100", "denied shaped 0 100", "allowed even 0 0", "allowed even 100 0", "allowed even 200 0", "allowed even 300 0", "allowed even 400 0"}
		seen := map[string]int{}
		for i := range want {
			seen[got[i]]++
			seen[want[i]]--
		}
		for what, n := range seen {
			if n != 0 {
				t.Errorf("%q: %d more than wanted, of %q", what, n, got)
			}
		}
	})
}

// REQUIREMENTS R1.11: tokens are left but permits are gone.
func TestR1_11WaitingForALocalSlot(t *testing.T) {
	t.Parallel()
	inWorld(t, localPolicy, func(t *testing.T, w *world) {
		w.post("acquire", of+`"jobs","id":"first","hold_ms":60000}`)
		second := make(chan told, 1)
		go func() { second <- w.post("acquire", of+`"jobs","id":"second","wait_ms":60000}`) }()
		time.Sleep(time.Second)
		if v := w.post("acquire", of+`"jobs","wait_ms":60000}`); v.Outcome != "denied" || v.Dimension != "workers" || v.RetryAfterMs != 0 || v.WaitedMs != 0 {
			t.Errorf("the queue holds one: %s", v)
		}
		time.Sleep(time.Second)
		w.post("release", `{"tenant":"acme","id":"first"}`)
		if v := <-second; v.Outcome != "allowed" || v.WaitedMs < 2000 || v.WaitedMs > 2100 {
			t.Errorf("served when the first had ended: %s after %d ms", v, v.WaitedMs)
		}
		began := time.Now()
		if v := w.post("acquire", of+`"jobs","wait_ms":60000}`); v.Outcome != "denied" || time.Since(began) != 10*time.Second {
			t.Errorf("the queue's age is 10 s: %s after %v", v, time.Since(began))
		}
		w.post("release", `{"tenant":"acme","id":"second"}`)
		// A permit that lapses gives its slot back, too.
		w.post("acquire", of+`"jobs","id":"third","hold_ms":5000}`)
		began = time.Now()
		if v := w.post("acquire", of+`"jobs","id":"fourth","wait_ms":60000}`); v.Outcome != "allowed" || time.Since(began).Round(time.Second) != 5*time.Second {
			t.Errorf("when the third has lapsed: %s after %v", v, time.Since(began))
		}
		w.post("release", `{"tenant":"acme","id":"fourth"}`)
		// Slots of the quota are gone: the local one is as it was.
		for i := range 3 {
			w.post("acquire", of+`"spare","id":"s`+strconv.Itoa(i)+`"}`)
		}
		if v := w.post("acquire", does+`"start"}`); v.Dimension != "spare" {
			t.Errorf("no slot of the quota is free: %s", v)
		}
		if v := w.post("acquire", of+`"jobs"}`); v.Outcome != "allowed" {
			t.Errorf("and the local one came back: %s", v)
		}
	})
}

// In an outage local limits go on, and what they gave to a request that the outage ended is back.
func TestO4LocalLimitsInAnOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, localPolicy, func(t *testing.T, w *world) {
		w.up.cut(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		for range 20 {
			if v := w.post("take", of+`"calls","cost":4}`); v.Outcome != "outage" {
				t.Fatalf("%s", v)
			}
			if v := w.post("acquire", of+`"jobs"}`); v.Outcome != "outage" {
				t.Fatalf("%s", v)
			}
		}
		if v := w.post("take", of+`"pages"}`); v.Outcome != "bad" || v.Field != "caller.address" {
			t.Errorf("%s", v)
		}
		w.up.cut(false)
	})
}
