package bench

import "fmt"

// Names of what is measured.
const (
	ours        = "quotalease"
	oursByRPC   = "quotalease by gRPC"
	oursByAgent = "quotalease agent"
	oursByMany  = "quotalease, 16 keys a Sync"

	hotScene   = "one hot key"
	manyScene  = "10,000 keys"
	loneScene  = "alone"
	exactScene = "exact lane"
	steadyName = "steady"

	rlsScene      = "rate limit service"
	rlsPacedScene = "rate limit service at 8,000/s"
	takeScene     = "take by gRPC"

	naive  = "a transaction a grant"
	update = "an UPDATE a decision"
	single = "an INSERT of one row"
	alike  = "the same rows, written plainly"
	narrow = "rows of six fields, written plainly"
)

// number is one of a sample's.
type number struct {
	unit string
	of   func(Sample) float64
}

var (
	perSecond = number{"/s", func(s Sample) float64 { return s.PerSecond }}
	p50       = number{"ms", func(s Sample) float64 { return s.P50ms }}
	p99       = number{"ms", func(s Sample) float64 { return s.P99ms }}
	cpuEach   = number{"us", func(s Sample) float64 { return s.CPUus }}
)

// Reach is what a figure is held to; the zero Reach is nothing.
type Reach struct {
	Least float64 `json:"at_least,omitempty"`
	Most  float64 `json:"at_most,omitempty"`
	// Value says that it is the value itself, not its ratio to the yardstick.
	Value bool `json:"of_the_value,omitempty"`
}

func (r Reach) none() bool { return r.Least == 0 && r.Most == 0 }

// met holds a figure against it.
func (r Reach) met(value, ratio float64) bool {
	x := ratio
	if r.Value {
		x = value
	}
	return x > 0 && (r.Least == 0 || x >= r.Least) && (r.Most == 0 || x <= r.Most)
}

// figure says what to compare. It is computed when both were measured.
type figure struct {
	name      string
	scene     string
	of        string
	yardstick string
	number    number
	reach     Reach
}

func figures() []figure {
	return []figure{
		{"grants on one hot key, 256 askers", hotScene, ours, naive, perSecond, Reach{Least: 30}},
		{"p99 of a grant, one hot key", hotScene, ours, naive, p99, Reach{Most: 5, Value: true}},
		{"grants on one hot key, an RPC each", hotScene, oursByRPC, naive, perSecond, Reach{Least: 5}},
		{"p99 of a grant, one hot key, an RPC each", hotScene, oursByRPC, naive, p99, Reach{}},
		{"Postgres CPU a grant, one hot key", hotScene, ours, naive, cpuEach, Reach{Most: 0.1}},
		{"grants over 10,000 keys, 256 askers", manyScene, ours, naive, perSecond, Reach{Least: 5}},
		{"grants over 10,000 keys, rows alike", manyScene, ours, alike, perSecond, Reach{Least: 0.5}},
		{"grants over 10,000 keys, narrow rows", manyScene, ours, narrow, perSecond, Reach{}},
		{"grants over 10,000 keys, 16 keys a Sync", manyScene, oursByMany, naive, perSecond, Reach{}},
		{"p99 of a grant, 10,000 keys", manyScene, ours, naive, p99, Reach{}},
		{"Postgres CPU a grant, 10,000 keys", manyScene, ours, naive, cpuEach, Reach{}},
		{"p50 of a lone grant", loneScene, ours, single, p50, Reach{Most: 3}},
		{"exact lane, 64 callers on one key", exactScene, oursByAgent, update, perSecond, Reach{Least: 10}},
		{"p99 of an exact decision", exactScene, oursByAgent, update, p99, Reach{}},
		{"rate limit service, server CPU a decision", rlsScene, agentDoor, stubDoor, cpuEach, Reach{Most: 1.15}},
		{"rate limit service, 64 callers", rlsScene, agentDoor, stubDoor, perSecond, Reach{}},
		{"rate limit service, 8,000/s, p50", rlsPacedScene, agentDoor, stubDoor, p50, Reach{Most: 1.25}},
		{"rate limit service, 8,000/s, p99", rlsPacedScene, agentDoor, stubDoor, p99, Reach{Most: 1.25}},
		{"take by gRPC, server CPU a decision", takeScene, agentOne, stubDoor, cpuEach, Reach{}},
		{"takes by gRPC, 64 a call, server CPU", takeScene, agentMany, agentOne, cpuEach, Reach{Most: 0.25}},
		{"takes by gRPC, 64 a call, 64 callers", takeScene, agentMany, agentOne, perSecond, Reach{}},
	}
}

// Verdict is a figure with what was measured. Without a yardstick there is no ratio.
type Verdict struct {
	Name      string  `json:"figure"`
	Ours      float64 `json:"ours"`
	Yardstick string  `json:"yardstick,omitempty"`
	Its       float64 `json:"yardstick_value,omitempty"`
	Unit      string  `json:"unit"`
	Ratio     float64 `json:"ratio,omitempty"`
	Reach     *Reach  `json:"reach,omitempty"`
	Reached   *bool   `json:"reached,omitempty"`
	Grows     bool    `json:"grows,omitempty"` // the yardstick is ours too, of another size
}

// judge computes the figures of which both sides were measured.
func judge(list []figure, results []Result) []Verdict {
	var verdicts []Verdict
	for _, f := range list {
		of, ok := find(results, f.scene, f.of)
		by, also := find(results, f.scene, f.yardstick)
		a, b := f.number.of(of.Median), f.number.of(by.Median)
		if !ok || !also || a == 0 || b == 0 {
			continue
		}
		verdicts = append(verdicts, held(Verdict{Name: f.name, Ours: a, Yardstick: by.Subject, Its: b, Unit: f.number.unit, Ratio: a / b}, f.reach))
	}
	return verdicts
}

// judgeSteady tells decisions by commit. One agent is held to it whose leases are a second of its demand.
func judgeSteady(list []Steady) []Verdict {
	var verdicts []Verdict
	for _, s := range list {
		reach := Reach{}
		if s.Agents == 1 && s.Budget == "1 %" {
			reach = Reach{Least: 1000, Value: true}
		}
		name := fmt.Sprintf("decisions a commit, %d/s, N = %d, B = %s", s.Rate, s.Agents, s.Budget)
		verdicts = append(verdicts, held(Verdict{Name: name, Ours: s.Each}, reach))
	}
	return verdicts
}

func held(v Verdict, r Reach) Verdict {
	if r.none() {
		return v
	}
	met := r.met(v.Ours, v.Ratio)
	v.Reach, v.Reached = &r, &met
	return v
}

func find(results []Result, scene, subject string) (Result, bool) {
	for _, r := range results {
		if r.Scene == scene && r.Subject == subject {
			return r, true
		}
	}
	return Result{}, false
}
