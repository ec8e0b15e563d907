package world

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Kind is what an action does.
type Kind int

// Kinds of action. Those up to lastCall are callers'; all others are trouble, and a run of many
// seeds that never fires one of them has failed.
const (
	Take Kind = iota
	Peek
	Several
	Reserve
	Acquire

	LoseRequest
	LoseReply
	RepeatRequest
	DelayRequest
	DelayReply
	Cut
	CutOneWay
	Partition
	Suspend
	Stall
	CrashAgent
	CopyAgent
	StopAgent
	JumpWall
	CrashReplica
	SkewReplica
	NudgeReplica
	LagReplica
	DatabaseDown
	DatabaseForward
	DatabaseBack
	DatabaseAstray
	CommitUnknown
	CommitConflict
	CommitBroken
	CommitUnheard
	Revoke
	Credit
	ReleaseHeld
	ChangeLimit
	ChangeClass
	ChangeBudget
	RemoveDimension
	RemoveTenant
	CutWatch
	LoseNotices

	// What follows comes of other actions, or of the seed, and is counted where it happens.
	Reordered
	Drifted
	Boundary
	ClockSuspect
	Ahead
	Trickle
	Extended
	Work
	Renewed
	Amended
	Folded

	kinds

	lastCall = Acquire
)

// kindNames are the words of tables and of JSON.
var kindNames = [kinds]string{
	Take: "take", Peek: "peek", Several: "take of several keys", Reserve: "reservation", Acquire: "acquire",
	LoseRequest: "request lost", LoseReply: "reply lost", RepeatRequest: "request repeated",
	DelayRequest: "request delayed", DelayReply: "reply delayed", Cut: "link cut",
	CutOneWay: "link cut one way", Partition: "partition", Suspend: "agent suspended",
	Stall: "agent's timers late", CrashAgent: "agent crashed", CopyAgent: "agent copied",
	StopAgent: "agent stopped", JumpWall: "wall clock jumped", CrashReplica: "replica crashed",
	SkewReplica: "replica's clock off", NudgeReplica: "replica's clock nudged", LagReplica: "replica's policy late",
	DatabaseDown: "database down", DatabaseForward: "database clock forward", DatabaseBack: "database clock back",
	DatabaseAstray: "database clock astray", CommitUnknown: "commit unknown", CommitConflict: "commit in conflict",
	CommitBroken: "commit broken", CommitUnheard: "commit unheard of", Revoke: "leases revoked",
	Credit: "limit credited", ReleaseHeld: "held units released",
	ChangeLimit: "limit changed", ChangeClass: "class changed", ChangeBudget: "budget changed",
	RemoveDimension: "dimension removed", RemoveTenant: "tenant removed", CutWatch: "watch cut", LoseNotices: "notices lost",
	Reordered: "messages reordered", Drifted: "agent's clock drifts", Boundary: "window boundary", ClockSuspect: "clocks disagree",
	Ahead: "lease ahead of its window", Trickle: "trickle", Extended: "outage on an allowance", Work: "work on slots",
	Renewed: "slots renewed", Amended: "statement amended", Folded: "records folded",
}

func (k Kind) String() string { return kindNames[k] }

// Trouble lists every kind that a run of many seeds has to fire.
func Trouble() []Kind {
	var list []Kind
	for k := lastCall + 1; k < kinds; k++ {
		list = append(list, k)
	}
	return list
}

// Action is one decision of the generator. Which fields count depends on the kind. An action
// names its object by place, so that it means the same when others are left out.
type Action struct {
	At      time.Duration
	Kind    Kind
	Agent   int // place of an agent; of a copy, where it comes from
	Replica int
	Key     quota.Key
	Cost    int64
	For     time.Duration // how long it lasts, or by how much
	Leaves  time.Duration // of a caller: it leaves before its answer; 0: it stays
	Waits   time.Duration // of work: how long its caller waits for slots
	Policy  int           // of the documents
	Actual  int64         // of a reservation, what was used in the end, For later; For 0: nobody says
	Mask    int           // agents of a partition or dimensions of a caller, by place; of a one-way cut, 1: replies
}

// String says what the action is in plain words.
func (a Action) String() string {
	agent, replica := agentName(a.Agent), replicaName(a.Replica)
	switch a.Kind {
	case Take:
		s := fmt.Sprintf("a caller at %s takes %d of %s", agent, a.Cost, a.Key)
		if a.Leaves > 0 {
			s += fmt.Sprintf(", and leaves after %s", a.Leaves)
		}
		return s
	case Peek:
		return fmt.Sprintf("a caller at %s peeks at %s", agent, a.Key)
	case Several:
		s := fmt.Sprintf("a caller at %s takes %d each of", agent, a.Cost)
		for _, t := range takesOf(a) {
			s += fmt.Sprintf(" %s/%s", a.Key.Tenant, t.Dimension)
		}
		return s
	case Acquire:
		s := fmt.Sprintf("a caller at %s acquires %d each of", agent, a.Cost)
		for _, t := range takesOf(a) {
			s += fmt.Sprintf(" %s/%s", a.Key.Tenant, t.Dimension)
		}
		return s + fmt.Sprintf(" for %s, and waits %s", a.For, a.Waits)
	case Reserve:
		return fmt.Sprintf("a caller at %s reserves %d of %s, and uses %d within %s", agent, a.Cost, a.Key, a.Actual, a.For)
	case LoseRequest, LoseReply:
		return fmt.Sprintf("the next %s is lost", a.message())
	case RepeatRequest:
		return fmt.Sprintf("the next %s arrives again %s later", a.message(), a.For)
	case DelayRequest, DelayReply:
		return fmt.Sprintf("the next %s takes %s longer", a.message(), a.For)
	case Cut:
		return fmt.Sprintf("%s and %s cannot reach each other for %s", agent, replica, a.For)
	case CutOneWay:
		if a.Mask == 1 {
			return fmt.Sprintf("nothing from %s reaches %s for %s", replica, agent, a.For)
		}
		return fmt.Sprintf("nothing from %s reaches %s for %s", agent, replica, a.For)
	case Partition:
		return fmt.Sprintf("agents %s are cut off from every replica for %s", maskNames(a.Mask), a.For)
	}
	return a.nodes(agent, replica)
}

func (a Action) message() string {
	if a.Kind == LoseReply || a.Kind == DelayReply {
		return "reply to " + agentName(a.Agent)
	}
	return "request of " + agentName(a.Agent)
}

func (a Action) nodes(agent, replica string) string {
	switch a.Kind {
	case Suspend:
		return fmt.Sprintf("%s is suspended for %s", agent, a.For)
	case Stall:
		return fmt.Sprintf("the timers of %s are %s late", agent, a.For)
	case CrashAgent:
		return fmt.Sprintf("%s crashes, and starts anew %s later", agent, a.For)
	case CopyAgent:
		return fmt.Sprintf("%s is copied as it is: %s runs beside it", agent, copyName(a.Agent))
	case StopAgent:
		return fmt.Sprintf("%s stops gracefully, and starts anew %s later", agent, a.For)
	case JumpWall:
		return fmt.Sprintf("the wall clock of %s jumps by %s", agent, a.For)
	case CrashReplica:
		return fmt.Sprintf("%s crashes, and starts anew %s later", replica, a.For)
	case SkewReplica:
		return fmt.Sprintf("the clock of %s is off by more than 5s for %s", replica, a.For)
	case NudgeReplica:
		return fmt.Sprintf("the clock of %s jumps by %s", replica, a.For)
	case LagReplica:
		return fmt.Sprintf("%s looks for no newer policy for %s", replica, a.For)
	}
	return a.world()
}

func (a Action) world() string {
	switch a.Kind {
	case DatabaseDown:
		return fmt.Sprintf("the database is down for %s", a.For)
	case DatabaseForward, DatabaseBack:
		return fmt.Sprintf("the database's clock jumps by %s", a.For)
	case DatabaseAstray:
		return fmt.Sprintf("the database's clock is 20s ahead for %s", a.For)
	case CommitUnknown:
		return "the next commit's outcome is unknown: it was done, and is submitted again"
	case CommitConflict:
		return "the next commit conflicts and is submitted again"
	case CommitBroken:
		return "the next commit fails: nothing is written"
	case CommitUnheard:
		return "the next commit is done, and its replica hears of a failure"
	case Credit:
		return fmt.Sprintf("an operator adds %d to the limit of %s%s", a.Cost, a.Key, a.earlier())
	case ReleaseHeld:
		return fmt.Sprintf("an operator releases %d held units of %s%s", a.Cost, a.Key, a.earlier())
	case Revoke:
		return fmt.Sprintf("an operator revokes the leases of %s", a.Key)
	case ChangeLimit, ChangeClass, ChangeBudget, RemoveDimension, RemoveTenant:
		return fmt.Sprintf("%s: policy %d is applied", a.Kind, a.Policy)
	case CutWatch:
		return fmt.Sprintf("%s hears no notices for %s", agentName(a.Agent), a.For)
	case LoseNotices:
		return fmt.Sprintf("the next notices to %s are lost", agentName(a.Agent))
	}
	return a.Kind.String()
}

func (a Action) earlier() string {
	if a.Mask == 1 {
		return " in the window before"
	}
	return ""
}

func agentName(place int) string   { return fmt.Sprintf("a%d", place+1) }
func copyName(place int) string    { return agentName(place) + "'" }
func replicaName(place int) string { return fmt.Sprintf("r%d", place+1) }

func maskNames(mask int) string {
	s := ""
	for place := 0; mask>>place > 0; place++ {
		if mask>>place&1 == 1 {
			s += " " + agentName(place)
		}
	}
	return s[min(1, len(s)):]
}
