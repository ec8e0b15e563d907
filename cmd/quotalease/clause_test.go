package main

import (
	"slices"
	"strings"
	"testing"
)

// contractYAML has a dimension of each kind and class, and what a policy may add to them.
const contractYAML = `tenants:
  - {tenant: "*Acme* <b> [x](y)", plan: basic}
dimensions:
  - name: report_export
    unit: reports
    kind: period
    limit: 50000
    period: {every: day, timezone: Asia/Seoul}
    class: bounded
    overshoot: 0.5%
    lease: {ttl: 30s}
    outage: {mode: extend, rate: 1/s, budget: 2000}
  - name: payouts
    kind: period
    limit: 120000
    period: {every: month, timezone: America/New_York, anchor: {day: 31, time: "02:30"}}
    class: exact
  - name: llm_tokens
    unit: tokens
    kind: period
    limit: 10000000
    period: {every: month, timezone: UTC}
    class: hard
    plans: {basic: {limit: 1000000}}
  - name: page_views
    unit: views
    kind: period
    limit: unlimited
    period: {every: minute, timezone: UTC}
    class: best_effort
  - name: reads
    kind: period
    limit: 1000
    period: {every: hour, timezone: UTC}
    class: best_effort
    outage: {mode: open, for: 2h}
    cold: {then: debt, units: 50}
  - name: api_calls
    unit: calls
    kind: rate
    limit: 100/s
    burst: 200
    class: bounded
    overshoot: 10%
    lease: {ttl: 10s, schedule: [{from: "22:00", to: "06:00", ttl: 1m}]}
  - name: logins
    kind: rate
    limit: 20/s
    class: exact
  - name: batch_jobs
    unit: jobs
    kind: concurrency
    limit: 20
    max_hold: 2h
    class: hard
  - name: previews
    unit: jobs
    kind: concurrency
    limit: 20
    max_hold: 10m
    class: best_effort
operations:
  - {name: sync_calls, takes: [{dimension: api_calls}], outage: {mode: open, for: 5m}}
`

// TestR2_17WhatAContractCanQuote pins the wording: contracts compare it.
func TestR2_17WhatAContractCanQuote(t *testing.T) {
	t.Parallel()
	c := console{stdin: contractYAML}
	args := []string{"bound", "-f", "-", "--tenant", "*Acme* <b> [x](y)", "-o", "md"}
	r := c.run(t, args...)
	r.expect(t, exitDone)
	golden(t, "bound_contract", r.out)
	few, many := c.run(t, append(args, "--agents", "1")...), c.run(t, append(args, "--agents", "400")...)
	if few.out != r.out || many.out != r.out {
		t.Error("the number of agents changes what a contract says")
	}
	if got := strings.Count(r.out, "\n\n") + 1; got != 9 {
		t.Errorf("%d paragraphs, want one for each of 9 dimensions", got)
	}
	for _, bare := range []string{"*Acme*", "<b>", "[x](y)"} {
		if strings.Contains(r.out, bare) {
			t.Errorf("%s stands in the text as markup", bare)
		}
	}
}

// Where a reservation may be settled with more than its estimate the excess passes whatever is
// left, so that a contract which says "no more than" has to name it.
func TestAContractNamesWhatEstimatesLeaveOut(t *testing.T) {
	t.Parallel()
	r := console{stdin: contractYAML}.run(t, "bound", "-f", "-", "--tenant", "acme", "-o", "md")
	r.expect(t, exitDone)
	var named []string
	for _, paragraph := range strings.Split(r.out, "\n\n") {
		if strings.Contains(paragraph, "more than the estimate is counted afterwards, on top.") {
			name, _, _ := strings.Cut(paragraph, ".** ")
			named = append(named, strings.NewReplacer("*", "", `\`, "").Replace(name))
		}
	}
	slices.Sort(named)
	if want := []string{"api_calls", "reads", "report_export"}; !slices.Equal(named, want) {
		t.Errorf("named for %v, want for %v: bounded and best_effort, with a limit, in units", named, want)
	}
}

func TestAContractIsWithATenant(t *testing.T) {
	t.Parallel()
	r := console{stdin: contractYAML}.run(t, "bound", "-f", "-", "-o", "md")
	if r.code != exitRefused {
		t.Errorf("exit code %d", r.code)
	}
	wantText(t, "without a tenant", r.err, "--tenant: is missing; allowed: with -o md, the tenant that the contract is with")
	for _, command := range []string{"usage", "agents"} {
		r = console{}.run(t, command, "-o", "md")
		if r.code != exitRefused {
			t.Errorf("%s: exit code %d", command, r.code)
		}
		wantText(t, command, r.err, `--output: "md"; allowed: table, json`)
	}
	r = console{}.run(t, "bound", "-o", "yaml")
	wantText(t, "bound", r.err, `--output: "yaml"; allowed: table, json, md`)
}

// TestTheContractComesFromTheServerToo asks a control plane instead of files.
func TestTheContractComesFromTheServerToo(t *testing.T) {
	t.Parallel()
	r := busy().serve(t).run(t, "bound", "--tenant", "acme", "-o", "md")
	r.expect(t, exitDone)
	wantText(t, "paragraph", r.out, `**api\_calls.** The limit of acme is 120,000 units in each calendar `, "No more than 136,000 are let pass")
}
