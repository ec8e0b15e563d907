package world

import (
	"math/rand/v2"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Setup is what a seed decides before anything happens.
type Setup struct {
	Agents   int
	Replicas int
	Trouble  int // percent of a seed's usual trouble: quiet seeds find what storms hide

	Retention time.Duration // of the ledger
}

// shortRetention is longer than anything is late here, most of the time.
const shortRetention = 8 * time.Second

const (
	mostAgents   = 4
	mostReplicas = 3
)

func setupOf(seed uint64) Setup {
	rng := rand.New(rand.NewPCG(seed, 1))
	return Setup{Agents: 2 + rng.IntN(mostAgents-1), Replicas: 1 + rng.IntN(mostReplicas), Trouble: []int{10, 50, 100, 100, 250}[rng.IntN(5)],
		Retention: []time.Duration{shortRetention, 24 * time.Hour}[rng.IntN(2)]}
}

// generator makes up a history. It looks at nothing but its seed, so that what it decides can
// be written down, cut and run again.
type generator struct {
	rng   *rand.Rand
	setup Setup
	at    time.Duration
	burst int
	next  Action
}

func newGenerator(seed uint64, setup Setup) *generator {
	return &generator{rng: rand.New(rand.NewPCG(seed, 2)), setup: setup}
}

// action is what happens next.
func (g *generator) action() Action {
	if g.burst > 0 { // several callers at one place and moment
		g.burst--
		return g.next
	}
	g.at += time.Duration(g.rng.IntN(9_000)) * time.Microsecond
	if g.rng.IntN(1000) < 40*g.setup.Trouble/100 {
		return g.trouble()
	}
	g.next = g.call()
	if g.rng.IntN(8) == 0 {
		g.burst = g.rng.IntN(6)
	}
	return g.next
}

func (g *generator) call() Action {
	a := Action{At: g.at, Kind: Take, Agent: g.agent(), Key: g.key(), Cost: 1}
	switch g.rng.IntN(24) {
	case 0, 1:
		a.Kind, a.Cost = Peek, 0
	case 2, 3:
		a.Cost = int64(2 + g.rng.IntN(9))
	case 4:
		a.Cost = int64(1 + g.rng.IntN(150))
	case 5, 6:
		a.Kind, a.Cost = Several, int64(1+g.rng.IntN(4))
		for range 2 + g.rng.IntN(2) {
			a.Mask |= 1 << g.rng.IntN(slotsFrom)
		}
	case 7, 8:
		a.Kind, a.Cost, a.Mask = Reserve, int64(1+g.rng.IntN(8)), g.rng.IntN(2)
		a.Actual, a.For = g.rng.Int64N(a.Cost+3), g.some(6*time.Second)
		if g.rng.IntN(10) == 0 {
			a.For = 0
		}
	case 9, 10, 11:
		a.Kind, a.Cost, a.For = Acquire, int64(1+g.rng.IntN(3)), min(g.some(longestRun), longestRun-10*time.Millisecond)
		a.Mask = 1 << (slotsFrom + g.rng.IntN(len(dimensions)-slotsFrom))
		if g.rng.IntN(4) == 0 {
			a.Mask |= 1 << g.rng.IntN(len(dimensions))
		}
		if g.rng.IntN(2) == 0 {
			a.Waits = g.some(time.Second)
		}
	}
	if g.rng.IntN(10) == 0 {
		a.Leaves = g.some(30 * time.Millisecond)
	}
	return a
}

func (g *generator) agent() int   { return g.rng.IntN(g.setup.Agents) }
func (g *generator) replica() int { return g.rng.IntN(g.setup.Replicas) }

func (g *generator) key() quota.Key {
	return quota.Key{Tenant: tenants[min(1, g.rng.IntN(4))&g.rng.IntN(2)], Dimension: dimensions[g.rng.IntN(slotsFrom)]}
}

// some is a duration up to most, short ones as likely as long ones of the next magnitude.
func (g *generator) some(most time.Duration) time.Duration {
	return (most>>g.rng.IntN(5)).Truncate(time.Microsecond)*time.Duration(1+g.rng.IntN(1000))/1000 + time.Microsecond
}

// weights say how often each kind of trouble comes.
var weights = []struct {
	kind   Kind
	weight int
}{
	{LoseRequest, 30}, {LoseReply, 40}, {RepeatRequest, 40}, {DelayRequest, 30}, {DelayReply, 30},
	{Cut, 8}, {CutOneWay, 8}, {Partition, 4}, {Suspend, 10}, {Stall, 25}, {CrashAgent, 5}, {CopyAgent, 2}, {StopAgent, 4},
	{JumpWall, 3}, {CrashReplica, 5}, {SkewReplica, 3}, {NudgeReplica, 4}, {LagReplica, 5},
	{DatabaseDown, 3}, {DatabaseForward, 2}, {DatabaseBack, 2}, {DatabaseAstray, 1},
	{CommitUnknown, 15}, {CommitConflict, 10}, {CommitBroken, 10}, {CommitUnheard, 15},
	{Revoke, 6}, {Credit, 5}, {ReleaseHeld, 6}, {ChangeLimit, 6}, {CutWatch, 5}, {LoseNotices, 10},
}

var allWeights = func() (sum int) {
	for _, w := range weights {
		sum += w.weight
	}
	return sum
}()

func (g *generator) trouble() Action {
	a := Action{At: g.at, Agent: g.agent(), Replica: g.replica()}
	n := g.rng.IntN(allWeights)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			a.Kind = w.kind
			break
		}
	}
	switch a.Kind {
	case RepeatRequest, DelayRequest, DelayReply:
		a.For = g.some(4 * time.Second)
	case CutOneWay:
		a.Mask, a.For = g.rng.IntN(2), g.some(3*time.Second)
	case Partition:
		a.Mask, a.For = 1+g.rng.IntN(1<<g.setup.Agents-1), g.some(3*time.Second)
	case Suspend:
		a.For = g.some(6 * time.Second)
	case Stall:
		a.For = g.some(200 * time.Millisecond)
	case JumpWall:
		a.For = g.some(2*time.Minute) - time.Minute
	case NudgeReplica:
		a.For = g.some(2*time.Second) - time.Second
	case DatabaseForward:
		a.For = g.some(2 * time.Second)
	case DatabaseBack:
		a.For = -g.some(2 * time.Second)
	case Revoke:
		a.Key = quota.Key{Tenant: tenants[g.rng.IntN(2)], Dimension: dimensions[g.rng.IntN(len(dimensions))]}
	case Credit, ReleaseHeld:
		a.Key = quota.Key{Tenant: tenants[g.rng.IntN(2)], Dimension: dimensions[g.rng.IntN(quotas)]}
		a.Cost, a.Mask = int64(1+g.rng.IntN(60)), g.rng.IntN(2)
	case ChangeLimit: // stands for any change of policy
		a.Policy = g.rng.IntN(len(changes))
		a.Kind = changes[a.Policy].kind
	default:
		a.For = g.some(3 * time.Second)
	}
	return a
}
