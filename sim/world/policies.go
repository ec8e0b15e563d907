package world

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// The quotas of every world: one of each class in windows of a minute, and one whose windows
// are as short as they come.
var (
	dimensions = []string{"hard", "bounded", "best", "exact", "brief", "fast", "slow", "slots", "few"}
	tenants    = []string{"acme", "bolt"}
)

// Of dimensions, the quotas of a window come first, and those that are acquired last.
const quotas, slotsFrom = 5, 7

const longestTTL, longestGrace = 2 * time.Second, 500 * time.Millisecond

// terms are what a document says of a dimension.
type terms struct {
	class     quota.Class
	limit     int
	overshoot int // percent
	rate      int // a second; 0: no rate limit
	kind      quota.Kind
}

// base is what histories begin with and come back to.
var base = map[string]terms{
	"hard": {quota.Hard, 300, 40, 0, quota.Period}, "bounded": {quota.Bounded, 400, 30, 0, quota.Period}, "best": {quota.BestEffort, 400, 50, 0, quota.Period},
	"exact": {quota.Exact, 120, 0, 0, quota.Period}, "brief": {quota.Bounded, 40, 50, 0, quota.Period},
	"fast": {quota.Bounded, 30, 50, 60, quota.RateLimit}, "slow": {quota.Hard, 4, 100, 6, quota.RateLimit},
	"slots": {quota.Bounded, 12, 50, 0, quota.Concurrency}, "few": {quota.Hard, 4, 50, 0, quota.Concurrency},
}

// Document is one policy that a history may apply.
type document struct {
	kind Kind // what applying it is counted as
	text *policy.Document
}

// change makes a document from base.
type change struct {
	kind   Kind
	terms  map[string]terms
	gone   string // a dimension that it lacks
	denies string // a tenant that it does not list
}

var changes = []change{
	{kind: ChangeLimit},
	{kind: ChangeLimit, terms: map[string]terms{"hard": {quota.Hard, 60, 40, 0, quota.Period}, "bounded": {quota.Bounded, 50, 30, 0, quota.Period}, "best": {quota.BestEffort, 60, 50, 0, quota.Period}, "exact": {quota.Exact, 40, 0, 0, quota.Period}, "brief": {quota.Bounded, 8, 50, 0, quota.Period}, "fast": {quota.Bounded, 10, 40, 20, quota.RateLimit}, "slow": {quota.Hard, 2, 100, 2, quota.RateLimit}, "slots": {quota.Bounded, 4, 50, 0, quota.Concurrency}, "few": {quota.Hard, 1, 50, 0, quota.Concurrency}}},
	{kind: ChangeLimit, terms: map[string]terms{"hard": {quota.Hard, 900, 40, 0, quota.Period}, "bounded": {quota.Bounded, 1200, 30, 0, quota.Period}, "best": {quota.BestEffort, 900, 50, 0, quota.Period}, "exact": {quota.Exact, 500, 0, 0, quota.Period}, "fast": {quota.Bounded, 90, 50, 200, quota.RateLimit}, "slow": {quota.BestEffort, 5, 100, 9, quota.RateLimit}, "slots": {quota.BestEffort, 30, 50, 0, quota.Concurrency}, "few": {quota.Exact, 6, 0, 0, quota.Concurrency}}},
	{kind: ChangeLimit, terms: map[string]terms{"hard": {quota.Hard, 0, 40, 0, quota.Period}, "bounded": {quota.Bounded, 400, 30, 0, quota.Period}, "exact": {quota.Exact, 0, 0, 0, quota.Period}, "brief": {quota.Bounded, 0, 0, 0, quota.Period}, "slow": {quota.Hard, 1, 100, 1, quota.RateLimit}}},
	{kind: ChangeBudget, terms: map[string]terms{"hard": {quota.Hard, 300, 5, 0, quota.Period}, "bounded": {quota.Bounded, 400, 4, 0, quota.Period}, "best": {quota.BestEffort, 400, 5, 0, quota.Period}, "brief": {quota.Bounded, 40, 10, 0, quota.Period}, "fast": {quota.Bounded, 30, 10, 60, quota.RateLimit}}},
	{kind: ChangeBudget, terms: map[string]terms{"hard": {quota.Hard, 300, 100, 0, quota.Period}, "bounded": {quota.Bounded, 400, 100, 0, quota.Period}, "best": {quota.BestEffort, 400, 100, 0, quota.Period}}},
	{kind: ChangeClass, terms: map[string]terms{"hard": {quota.Bounded, 300, 40, 0, quota.Period}, "bounded": {quota.Hard, 400, 30, 0, quota.Period}, "best": {quota.Bounded, 400, 50, 0, quota.Period}, "brief": {quota.Hard, 40, 50, 0, quota.Period}}},
	{kind: ChangeClass, terms: map[string]terms{"hard": {quota.BestEffort, 300, 40, 0, quota.Period}, "bounded": {quota.Exact, 400, 0, 0, quota.Period}, "fast": {quota.Exact, 30, 0, 60, quota.RateLimit}, "slow": {quota.BestEffort, 4, 100, 6, quota.RateLimit}, "exact": {quota.Hard, 120, 30, 0, quota.Period}}},
	{kind: RemoveDimension, gone: "bounded"},
	{kind: RemoveDimension, gone: "best"},
	{kind: RemoveDimension, gone: "slow"},
	{kind: RemoveDimension, gone: "slots"},
	{kind: RemoveTenant, denies: "bolt"},
}

func (c change) write() string {
	var b strings.Builder
	if c.denies != "" {
		b.WriteString("unlisted_tenants: deny\ntenants:\n")
		for _, t := range tenants {
			if t != c.denies {
				fmt.Fprintf(&b, "  - {tenant: %s}\n", t)
			}
		}
	}
	b.WriteString("dimensions:\n")
	for _, name := range dimensions {
		t, ok := c.terms[name]
		if !ok {
			t = base[name]
		}
		if name == c.gone {
			continue
		}
		every, more := "minute", ""
		if name == "brief" {
			every = "second"
		}
		if t.class == quota.Exact && t.kind == quota.Concurrency {
			more = ", lease: {ttl: 400ms, grace: 100ms}"
		}
		if t.class != quota.Exact {
			more = fmt.Sprintf(", overshoot: %d%%, lease: {ttl: %s, grace: %s}", t.overshoot, longestTTL, longestGrace)
			if name == "brief" || t.kind == quota.Concurrency {
				more = fmt.Sprintf(", overshoot: %d%%, lease: {ttl: 400ms, grace: 100ms}", t.overshoot)
			}
		}
		if name == "bounded" && t.class == quota.Bounded {
			more += ", cold: {wait: 10ms, then: debt, units: 2}"
		}
		if (name == "hard" || name == "brief") && t.class != quota.Exact {
			more += fmt.Sprintf(", outage: {mode: extend, after: 1s, rate: 60/s, budget: %d}", max(1, min(t.limit, 24)))
		}
		if t.kind == quota.Period {
			more += ", statement: {final_after: 1m}"
		}
		if name == "best" || name == "slots" && t.class == quota.BestEffort {
			more += ", outage: {mode: open, after: 1s, for: 1h}"
		}
		switch t.kind {
		case quota.Concurrency:
			fmt.Fprintf(&b, "  - {name: %s, kind: concurrency, limit: %d, max_hold: %s, class: %s%s}\n", name, t.limit, longestRun, t.class, more)
			continue
		case quota.RateLimit:
			fmt.Fprintf(&b, "  - {name: %s, kind: rate, limit: %d/s, burst: %d, class: %s%s}\n", name, t.rate, t.limit, t.class, more)
			continue
		}
		fmt.Fprintf(&b, "  - {name: %s, kind: period, limit: %d, period: {every: %s}, class: %s%s}\n", name, t.limit, every, t.class, more)
	}
	return b.String()
}

// documents reads the policies once for all worlds: they are never changed.
var documents = sync.OnceValue(func() []document {
	var list []document
	for i, c := range changes {
		doc, err := policy.Parse([]policy.File{{Name: fmt.Sprintf("policy-%d.yaml", i), Text: []byte(c.write())}}, time.Time{})
		if err != nil {
			panic(err) // they are ours
		}
		list = append(list, document{kind: c.kind, text: doc})
	}
	return list
})

// termsOf is what a version of a document says of keys.
func termsOf(doc *policy.Document, version int64) func(quota.Key, quota.Window) (ledger.Terms, bool) {
	s := doc.Snapshot(version)
	return func(key quota.Key, window quota.Window) (ledger.Terms, bool) {
		t, _, err := s.Resolve(key, window.Start)
		dim, _ := s.Dimension(key.Dimension)
		if err != nil {
			return ledger.Terms{}, false
		}
		return ledger.Terms{PolicyVersion: t.PolicyVersion, Kind: t.Kind, Class: t.Class, Limit: t.Limit, Budget: t.Budget, Rate: t.Rate, MaxHold: t.MaxHold, Pot: t.Outage.Budget, FinalAfter: dim.FinalAfter, TTL: t.TTL, Grace: t.Grace}, true
	}
}
