package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// tick is the grain of time: a round trip takes one, and nothing happens in between. It is what
// a core takes for its round trip before the first, so that one that is on time changes nothing.
const tick = 20 * time.Millisecond

// World says what a small world is made of. Everything that may happen to it any number of times
// has a budget, so that it has finitely many states.
type World struct {
	Name  string
	About string

	Agents    int
	Class     quota.Class
	Limit     int64
	Overshoot string // the budget, as policy writes it
	CutTo     int64  // the limit of policy version 2
	TTL       int    // of leases, in ticks
	Grace     int    // in ticks
	Boundary  int    // the tick at which the window ends
	Horizon   int    // the first tick without callers and faults
	Patience  int    // ticks that a caller waits
	Slow      []int  // for each agent, the tick from which its clock stood still; 0: it never did
	Still     int    // ticks for which it did
	Lagging   int    // ticks that the replica's clock is behind the ledger's
	Notices   bool   // agents listen to what the control plane tells between Syncs

	Budget Budget

	orders [][]int // in which the agents may stand without a difference
	whole  bool    // every order of steps is tried, and every budget, to hold the shorter ways against
}

// String says what the world is made of.
func (w *World) String() string {
	kind := w.Class.String()
	if w.Class != quota.Exact {
		kind += fmt.Sprintf(", overshoot %s, ttl %d ticks, grace %d", strings.Trim(w.Overshoot, `"`), w.TTL, w.Grace)
	}
	if w.Notices {
		kind += ", with notices"
	}
	return fmt.Sprintf("%d agents, limit %d (cut to %d), %s; the window ends at tick %d, callers and faults until tick %d: %s",
		w.Agents, w.Limit, w.CutTo, kind, w.Boundary, w.Horizon, w.Budget)
}

const maxAgents = 3

var ownPlaces = [maxAgents]uint8{0, 1, 2}

// number finds the orders of the agents. Where one has a clock of its own there is one only.
func (w *World) number() {
	all := [][]int{{0}, {1, 0}, {2, 1, 0}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}, {0, 1, 2}, {0, 1}}
	w.orders = nil
	for _, order := range all {
		same := slices.IsSorted(order)
		if len(order) == w.Agents && (same || len(w.Slow) == 0) {
			w.orders = append(w.orders, order)
		}
	}
}

// Budget is how often each thing may happen, in all agents together.
type Budget struct {
	Takes    int8 // callers, of one unit each
	Losses   int8 // of a request or a reply
	Repeats  int8 // a request that arrives once more, at any later time
	Lates    int8 // a request that its agent has given up, and that arrives at any later time
	Delays   int8 // ticks that pass although a message is due, or something is to be sent
	Crashes  int8 // of an agent, which starts anew at once
	Cuts     int8 // of the limit
	Unknowns int8 // commits whose outcome the store does not learn
	Setbacks int8 // steps of the ledger's clock, one tick backward
}

func (b Budget) String() string {
	return fmt.Sprintf("%d takes, %d losses, %d repeats, %d late, %d delays, %d crashes, %d cuts, %d unknown commits, %d clock setbacks",
		b.Takes, b.Losses, b.Repeats, b.Lates, b.Delays, b.Crashes, b.Cuts, b.Unknowns, b.Setbacks)
}

// within reports that nothing is more than in another one.
func (b Budget) within(o Budget) bool {
	return b.Takes <= o.Takes && b.Losses <= o.Losses && b.Repeats <= o.Repeats && b.Lates <= o.Lates && b.Delays <= o.Delays &&
		b.Crashes <= o.Crashes && b.Cuts <= o.Cuts && b.Unknowns <= o.Unknowns && b.Setbacks <= o.Setbacks
}

const policyText = `
dimensions:
  - name: exports
    kind: period
    limit: %d
    period: {every: minute}
    class: %s
    overshoot: %s
    lease: {ttl: %s, grace: %s}
`

const exactText = `
dimensions:
  - {name: exports, kind: period, limit: %d, period: {every: minute}, class: exact}
`

// key is the one quota of every world.
var key = quota.Key{Tenant: "acme", Dimension: "exports"}

// midnight ends the window in which worlds begin.
var midnight = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// policies are the world's policy versions, of which the first is in force at the beginning.
func (w *World) policies() ([]policy.Record, error) {
	var records []policy.Record
	for i, limit := range []int64{w.Limit, w.CutTo} {
		text := fmt.Sprintf(exactText, limit)
		if w.Class != quota.Exact {
			text = fmt.Sprintf(policyText, limit, w.Class, w.Overshoot, time.Duration(w.TTL)*tick, time.Duration(w.Grace)*tick)
		}
		doc, err := policy.Parse([]policy.File{{Name: w.Name, Text: []byte(text)}}, time.Time{})
		if err != nil {
			return nil, fmt.Errorf("read the policy of world %s: %w", w.Name, err)
		}
		records = append(records, policy.Record{Version: int64(i + 1), Text: doc.Text()})
	}
	return records, nil
}

// limitAt is Q under a policy version.
func (w *World) limitAt(version int64) int64 {
	if version == 1 {
		return w.Limit
	}
	return w.CutTo
}

// at is the true time of a tick. Midnight is the boundary.
func (w *World) at(n int) time.Time { return midnight.Add(time.Duration(n-w.Boundary) * tick) }
