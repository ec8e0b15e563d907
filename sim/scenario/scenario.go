package scenario

import (
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Scenario is a course of demand and of trouble, as a file describes it.
type Scenario struct {
	Name        string
	Description string
	Params      []Param // in the order of the file, as they are set
	Seed        uint64
	Start       time.Time
	Duration    time.Duration
	Commit      time.Duration // how long a transaction of the control plane takes
	LeaseSize   int64         // that agents ask for; 0: what they choose themselves
	Policy      *policy.Document
	Regions     []Region
	Demand      []Demand
	Timeline    []Event
	Baselines   []Baseline
	Sweep       *Sweep
	Expect      []Expectation

	source source // to read it anew with other parameters
}

// Param is a number or a word that a file names once and --set replaces.
type Param struct{ Name, Value string }

// Region is a group of agents and how far they are from the control plane.
type Region struct {
	Name    string
	Agents  int
	Latency time.Duration // one way, the middle
	Spread  time.Duration // to both sides of it, evenly
}

// Shape is how calls follow each other.
type Shape string

// Shapes of demand.
const (
	Poisson  Shape = "poisson"  // at random, independent of each other
	Constant Shape = "constant" // evenly, each agent for itself
	Bursts   Shape = "bursts"   // many at once, each agent for itself
	Recorded Shape = "trace"    // as a trace recorded them
)

// Demand is a stream of calls for one key, spread over agents.
type Demand struct {
	Name     string
	Key      quota.Key
	Agents   []int // by place
	Shape    Shape
	Rate     float64       // calls a second, all agents together
	Each     bool          // Rate is that of each agent
	Zipf     float64       // exponent of the agents' shares; 0: even
	Burst    int           // calls of one burst
	Every    time.Duration // between bursts of one agent
	From, To time.Duration
	Costs    []CostShare
	Calls    []Recording   // of a trace
	Hold     time.Duration // of slots: how long the work of a call lasts
	Clients  Clients
}

// CostShare is how many of the calls have a cost.
type CostShare struct {
	Cost  int64
	Share float64 // of 1
}

// Recording is one call of a trace.
type Recording struct {
	At   time.Duration
	Cost int64
}

// OnDenial is what clients do when they are denied.
type OnDenial string

// What clients do when they are denied.
const (
	GiveUp OnDenial = "give_up"
	Wait   OnDenial = "wait"  // as long as Retry-After says
	Retry  OnDenial = "retry" // whatever Retry-After says
)

// Clients say how the callers of a demand behave.
type Clients struct {
	Denied OnDenial
	After  time.Duration // of Retry: between answer and next try
	Tries  int           // at most, the first one included
}

// Action is what an event does.
type Action string

// What may happen on a timeline.
const (
	CutLinks  Action = "cut"       // agents and control plane hear nothing of each other
	CutWatch  Action = "cut_watch" // notices do not arrive
	Down      Action = "down"      // the control plane answers nobody
	Crash     Action = "crash"     // agents die and come back with nothing
	Change    Action = "policy"    // another policy is applied
	AddAgents Action = "add"       // a region gets more agents
	Stop      Action = "stop"      // agents stop in good order: what they hold goes back
	Credit    Action = "credit"    // an operator gives a window more units
	Release   Action = "release"   // an operator frees held units of a window
)

// Way is the direction that a cut concerns.
type Way string

// Directions of a cut.
const (
	BothWays Way = "both"
	There    Way = "there" // requests
	Back     Way = "back"  // answers and notices
)

// Event is one entry of the timeline.
type Event struct {
	At     time.Duration
	For    time.Duration // how long it lasts; 0: for good
	Action Action
	Agents []int // by place
	Way    Way
	Policy *policy.Document
	Region int // of AddAgents
	Count  int
	Key    quota.Key // of Credit and Release
	Units  int64
	Note   string // in words, for reports
}

// Method is a way to enforce a limit without leases.
type Method string

// The methods that scenarios compare with.
const (
	StaticSplit    Method = "static_split"    // each instance has its own share, and knows of no other
	CentralCounter Method = "central_counter" // each call asks one counter
	CarryOver      Method = "carry_over"      // as static split; what is unused is kept for the next window
)

// Baseline is one way to enforce the limit that is run on the same demand.
type Baseline struct {
	Method  Method
	Each    int64         // units of one agent in one window; 0: the limit over the agents at the start
	Timeout time.Duration // of a call to the central counter
	Keep    int           // windows for which unused credit is kept
}

// Sweep runs the scenario once for every value of a parameter.
type Sweep struct {
	Param  string
	Values []string
	Ours   string // the value that is the product's own choice
}

// Expectation is a figure that the scenario has to reach.
type Expectation struct {
	Metric string
	Op     string // <=, >= or =
	Value  float64
}
