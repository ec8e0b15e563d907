package agent_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const rlsRandomPolicy = `
local:
- {name: per_client, algorithm: fixed_window, limit: 12/h, key: [address], start: full}
- {name: per_org_client, algorithm: sliding_log, limit: 9/h, key: [tenant, address], start: full}
- {name: backend, algorithm: fixed_window, limit: 40/h, start: full}
dimensions:
- {name: requests, kind: period, limit: 20, period: {every: day}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
- {name: guarded, kind: period, limit: 25, period: {every: day}, class: hard, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}, local: [backend]}
descriptors:
- {domain: edge, match: [{key: ip}], local: per_client, caller: {address: ip}}
- {domain: edge, match: [{key: org}, {key: ip}], local: per_org_client, caller: {address: ip}}
- {domain: edge, match: [{key: all}], local: backend}
- {domain: edge, match: [{key: watched}], local: per_client, caller: {address: watched}, shadow: true}
- {domain: edge, match: [{key: org}], dimension: requests}
- {domain: edge, match: [{key: guarded}], dimension: guarded}
`

// counted is what a step of a request is counted as, and how much that may be.
func counted(kind, org, ip string) (name string, most int) {
	switch kind {
	case "ip", "watched":
		return "per_client " + ip, 12
	case "both":
		return "per_org_client " + org + ip, 9
	case "all":
		return "backend", 40
	case "org":
		return "requests " + org, 20
	}
	return "guarded " + org, 25
}

// Whatever descriptors a request has, together they are taken or none is, what is watched neither
// denies nor is taken from a request that does not pass, and of each local limit is told what it
// has left.
func TestR1_10RequestsOfLocalLimitsAndQuotasAreAllOrNone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, rlsRandomPolicy, func(t *testing.T, w *world) {
				m := &countingModel{t, w, rand.New(rand.NewPCG(seed, 1)), map[string]int{}}
				for range 80 {
					m.step()
				}
			})
		})
	}
}

// countingModel knows what was used of each limit, by who is counted.
type countingModel struct {
	t    *testing.T
	w    *world
	rng  *rand.Rand
	used map[string]int
}

// countedPart is one descriptor of a request, as the model counts it.
type countedPart struct {
	kind, name string
	most, hits int
}

func (m *countingModel) pick(of ...string) string { return of[m.rng.IntN(len(of))] }

// draw makes a request, of which at most the last descriptor is watched.
func (m *countingModel) draw() (req *rlspb.RateLimitRequest, parts []countedPart) {
	req = &rlspb.RateLimitRequest{Domain: "edge"}
	for range 1 + m.rng.IntN(4) {
		kind, org, ip, hits := m.pick("ip", "watched", "both", "all", "org", "guarded"), m.pick("acme", "globex"), m.pick("203.0.113.7", "203.0.113.8"), m.rng.IntN(4)
		text := map[string]string{"ip": "ip=" + ip, "watched": "watched=" + ip, "both": "org=" + org + ",ip=" + ip, "all": "all=x", "org": "org=" + org, "guarded": "guarded=" + org}[kind]
		d := asked("edge", text).GetDescriptors()[0]
		d.HitsAddend = wrapperspb.UInt64(uint64(hits))
		name, most := counted(kind, org, ip)
		req.Descriptors, parts = append(req.Descriptors, d), append(parts, countedPart{kind, name, most, hits})
		if kind == "watched" {
			break
		}
	}
	return req, parts
}

func (m *countingModel) step() {
	req, parts := m.draw()
	wants, over := map[countedPart]int{}, false
	for _, p := range parts {
		switch of := (countedPart{name: p.name, most: p.most}); {
		case p.kind == "watched":
		case p.hits == 0:
			over = over || m.used[p.name] >= p.most
		default:
			wants[of] += p.hits
			if p.kind == "guarded" { // one request, whatever it takes
				wants[countedPart{name: "backend", most: 40}] += 0
			}
		}
	}
	for of, n := range wants {
		wants[of] = max(n, 1)
		over = over || m.used[of.name]+max(n, 1) > of.most
	}
	words, r := m.w.should(req)
	if strings.HasPrefix(words, "OVER_LIMIT cold") { // no lease came in time
		return
	}
	if got := r.GetOverallCode() == rlspb.RateLimitResponse_OVER_LIMIT; got != over {
		m.t.Fatalf("%v, used %v:\ngot  %s\nwant over: %t", req, m.used, words, over)
	}
	if over {
		return
	}
	for of, n := range wants {
		m.used[of.name] += n
	}
	last := parts[len(parts)-1]
	if last.kind == "watched" && m.used[last.name]+last.hits <= last.most {
		m.used[last.name] += last.hits
	}
	for i, p := range parts {
		s, left := r.GetStatuses()[i], p.most-m.used[p.name]
		leased := p.kind == "org" || p.kind == "guarded"
		if p.hits == 0 || leased || last.kind == "watched" && p != last && p.name == last.name || p == last && p.kind == "watched" && p.hits > left {
			continue // told before others were counted, or not by this agent alone
		}
		if int(s.GetCurrentLimit().GetRequestsPerUnit()) != p.most || int(s.GetLimitRemaining()) != left {
			m.t.Fatalf("%v, used %v:\n%s\nof %s %d are left", req, m.used, words, p.name, left)
		}
	}
}
