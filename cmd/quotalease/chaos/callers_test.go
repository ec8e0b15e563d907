//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// policyText has each class, with ttls that fit into a round. A year's window does not end in
// a round as a rule; a minute's does. The roomy ones never run out.
const policyText = `dimensions:
  - {name: export, kind: period, limit: 900, period: {every: year, timezone: UTC}, class: hard, overshoot: 20%,
     lease: {ttl: 2s, grace: 500ms}, outage: {mode: closed, after: 1s}, cold: {wait: 500ms, then: deny}}
  - {name: tick, kind: period, limit: 300, period: {every: minute, timezone: UTC}, class: hard, overshoot: 20%,
     lease: {ttl: 2s, grace: 500ms}, outage: {mode: closed, after: 1s}, cold: {wait: 500ms, then: deny}}
  - {name: call, kind: period, limit: 900, period: {every: year, timezone: UTC}, class: bounded, overshoot: 5%,
     lease: {ttl: 2s, grace: 500ms}, outage: {mode: closed, after: 1s}, cold: {wait: 500ms, then: deny}}
  - {name: view, kind: period, limit: 900, period: {every: year, timezone: UTC}, class: best_effort, overshoot: 10%,
     lease: {ttl: 2s, grace: 500ms}, outage: {mode: closed, after: 1s}, cold: {wait: 500ms, then: deny}}
  - {name: payout, kind: period, limit: 400, period: {every: year, timezone: UTC}, class: exact, outage: {mode: closed, after: 1s}}
  - {name: roomy_hard, kind: period, limit: 100000000, period: {every: year, timezone: UTC}, class: hard, overshoot: 1%,
     lease: {ttl: 2s, grace: 500ms}, outage: {mode: closed, after: 1s}, cold: {wait: 500ms, then: deny}}
  - {name: roomy_exact, kind: period, limit: 100000000, period: {every: year, timezone: UTC}, class: exact, outage: {mode: closed, after: 1s}}
`

// keys are what callers take from.
func keys() (all []quota.Key) {
	for _, tenant := range []string{"acme", "globex"} {
		for _, dimension := range []string{"export", "tick", "call", "view", "payout", "roomy_hard", "roomy_exact"} {
			all = append(all, quota.Key{Tenant: tenant, Dimension: dimension})
		}
	}
	return all
}

const (
	callersPerAgent = 3
	callPatience    = 3 * time.Second
	callPause       = 12 * time.Millisecond // between two takes of one caller, at most
)

// call takes at an agent until the context ends.
func (r *round) call(ctx context.Context, n *node, rng *rand.Rand) {
	client := newClient()
	defer client.CloseIdleConnections()
	all := keys()
	for ctx.Err() == nil {
		r.take(client, n, all[rng.IntN(len(all))], 1+rng.Int64N(3))
		rest(ctx, time.Duration(rng.Int64N(int64(callPause))))
	}
}

func newClient() *http.Client {
	return &http.Client{Timeout: callPatience, Transport: &http.Transport{MaxIdleConns: 2}}
}

// take makes one take and records what came of it. It is not hurried by the end of the round:
// an answer that nobody waits for would only blur the history.
func (r *round) take(client *http.Client, n *node, key quota.Key, cost int64) outcome {
	body, err := json.Marshal(map[string]any{"tenant": key.Tenant, "dimension": key.Dimension, "cost": cost})
	if err != nil {
		panic(err)
	}
	t := take{sent: r.history.now(), agent: n.name, key: key, cost: quota.Units(cost)}
	response, err := client.Post("http://"+n.web()+"/v1/take", "application/json", bytes.NewReader(body))
	if err == nil {
		t.outcome, t.reason, err = read(response)
	}
	t.answered = r.history.now()
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		t.outcome = unsent
	case err != nil:
		t.outcome = unknown
	case t.outcome == "":
		r.violated("%s answered a take of %s with status %d", n.name, key, response.StatusCode)
		t.outcome = unknown
	}
	r.history.took(t)
	return t.outcome
}

// read reads an answer; no outcome if it is none of the three that there are.
func read(response *http.Response) (outcome, quota.Reason, error) {
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", err
	}
	var said struct {
		Allowed bool         `json:"allowed"`
		Reason  quota.Reason `json:"reason"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return "", "", fmt.Errorf("read an answer: %w", err)
	}
	switch {
	case response.StatusCode == http.StatusOK && said.Allowed:
		return allowed, said.Reason, nil
	case response.StatusCode == http.StatusTooManyRequests && !said.Allowed:
		return denied, said.Reason, nil
	case response.StatusCode == http.StatusServiceUnavailable:
		return unavailable, said.Reason, nil
	}
	return "", said.Reason, nil
}
