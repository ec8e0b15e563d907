package local

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Outcome is what became of a request at one limit, in the words of the metrics.
type Outcome string

// The outcomes. Those of a concurrency limit are apart from those of limits that count use.
const (
	Passed      Outcome = "allowed"
	Spent       Outcome = "exhausted"
	TooLarge    Outcome = "too_large"
	TooLong     Outcome = "too_long"      // its turn comes later than its caller waits
	TooManyKeys Outcome = "too_many_keys" // see keyed
	NoPermit    Outcome = "no_permit"     // no slot came in time
	QueueFull   Outcome = "queue_full"
	QueueBytes  Outcome = "queue_bytes"
)

// Set is all local limits of an agent. Its methods are safe for concurrent use.
type Set struct {
	hash   *hasher
	meters *Meters
	plan   atomic.Pointer[Plan]
	mu     sync.Mutex // one Apply at a time
}

// NewSet returns a set that knows no policy yet.
func NewSet() *Set { return &Set{hash: newHasher(), meters: newMeters()} }

// Plan says which limits a request is under. It never changes.
type Plan struct {
	Version int64

	byName     map[string]*limiter
	dimensions map[string][]*limiter
	operations map[string][]*limiter
}

// limiter is one limit with all its keys: of use, or of slots.
type limiter struct {
	name   string
	units  *keyed[core]   // nil: a concurrency limit
	slots  *keyed[*slots] // nil: a limit of use
	counts *counts
}

func (l *limiter) limit() *Limit {
	if l.units != nil {
		return l.units.limit.Load()
	}
	return l.slots.limit.Load()
}

// Plan returns the one in force, or nil before the first.
func (s *Set) Plan() *Plan { return s.plan.Load() }

// Apply makes the local limits of a catalogue current. A limit that goes on under its name keeps
// what its keys used, however it is changed; one that counts something else than it did begins
// anew, with everything used.
func (s *Set) Apply(now time.Duration, c *pb.Catalogue) error {
	limits, err := Read(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Plan{Version: c.GetPolicyVersion(), byName: make(map[string]*limiter, len(limits)),
		dimensions: map[string][]*limiter{}, operations: map[string][]*limiter{}}
	before := s.plan.Load()
	for _, l := range limits {
		p.byName[l.Name] = s.limiterOf(now, before, l)
	}
	for _, d := range c.GetDimensions() {
		p.name(p.dimensions, d.GetName(), d.GetLocal())
	}
	for _, o := range c.GetOperations() {
		p.name(p.operations, o.GetName(), o.GetLocal())
	}
	s.plan.Store(p)
	return nil
}

func (s *Set) limiterOf(now time.Duration, before *Plan, l *Limit) *limiter {
	if before != nil && before.byName[l.Name] != nil {
		was := before.byName[l.Name]
		if was.limit().sameCount(l) {
			if was.units != nil {
				was.units.apply(now, l, false)
			} else {
				was.slots.apply(now, l, true) // who waits may have its turn now
			}
			return was
		}
		again := *l
		again.StartFull = false
		l = &again
	}
	made := &limiter{name: l.Name, counts: s.meters.of(l.Name)}
	if l.Algorithm == Concurrency {
		made.slots = newKeyed(l, &slots{limit: l.Capacity, bounds: l.Queue}, (*slots).clone)
	} else {
		made.units = newKeyed(l, newCore(now, l), core.clone)
	}
	return made
}

// name notes which limits something is under, if it is under any.
func (p *Plan) name(of map[string][]*limiter, what string, names []string) {
	for _, n := range names {
		of[what] = append(of[what], p.byName[n]) // Read has seen that they are there
	}
}

// Sweep drops the keys that nobody used for as long as their limits say.
func (s *Set) Sweep(now time.Duration) {
	p := s.plan.Load()
	if p == nil {
		return
	}
	for _, l := range p.byName {
		if l.units != nil {
			l.units.sweep(now)
		} else {
			l.slots.sweep(now)
		}
	}
}

// Charge is what a request costs one limit, and then what it was given.
type Charge struct {
	limiter *limiter
	tenant  string
	caller  *Caller // whom it counts, nil: who makes the request
	cost    int64

	units *entry[core] // which gave it
	mark  int64
	slots *entry[*slots] // where its place is
	place *place
}

// Dimension adds the limits of a take from a key's dimension. times is how often the whole request
// asks for what it asks for. Nothing is taken yet.
func (p *Plan) Dimension(charges []Charge, key quota.Key, cost, times int64) []Charge {
	if len(p.dimensions) == 0 {
		return charges
	}
	for _, l := range p.dimensions[quota.BaseDimension(key.Dimension)] {
		charges = l.charge(charges, key.Tenant, nil, cost, times)
	}
	return charges
}

// Limits reports that takes from a dimension are under a limit.
func (p *Plan) Limits(dimension string) bool {
	return len(p.dimensions) > 0 && len(p.dimensions[quota.BaseDimension(dimension)]) > 0
}

// Operation adds the limits that a tenant's operation itself is under.
func (p *Plan) Operation(charges []Charge, tenant, name string, times int64) []Charge {
	for _, l := range p.operations[name] {
		charges = l.charge(charges, tenant, nil, times, times)
	}
	return charges
}

// Has reports that there is a limit of a name.
func (p *Plan) Has(name string) bool { return p.byName[name] != nil }

// Limit adds a limit by its name, if there is one. It counts who makes the request, or, if that is
// somebody else, caller.
func (p *Plan) Limit(charges []Charge, tenant, name string, caller *Caller, cost int64) ([]Charge, bool) {
	l, ok := p.byName[name]
	if !ok {
		return charges, false
	}
	return l.charge(charges, tenant, caller, cost, cost), true
}

// charge adds a limit, or to what is there of it: costs add up, but a request is one request
// however much of what it takes is under the same limit. Slots come last, because they may be
// waited for, and in one order, so that no two requests wait for each other.
func (l *limiter) charge(charges []Charge, tenant string, caller *Caller, cost, times int64) []Charge {
	byCost := l.limit().CountCost
	made := Charge{limiter: l, tenant: tenant, caller: caller}
	for i := range charges {
		c := &charges[i]
		if !c.Same(&made) {
			continue
		}
		if byCost {
			c.cost += min(cost, math.MaxInt64-c.cost)
		} else {
			c.cost = max(c.cost, times)
		}
		return charges
	}
	if !byCost {
		cost = times
	}
	made.cost = cost
	charges = append(charges, made)
	for i := len(charges) - 1; i > 0 && l.before(charges[i-1].limiter); i-- {
		charges[i-1], charges[i] = charges[i], charges[i-1]
	}
	return charges
}

// Same reports that two charges are of one count.
func (c *Charge) Same(o *Charge) bool {
	return c.limiter == o.limiter && (c.tenant == o.tenant || !slices.Contains(c.limiter.limit().Key, Tenant)) &&
		(c.caller == o.caller || c.caller != nil && o.caller != nil && *c.caller == *o.caller)
}

// of is whom a charge counts in a request of a caller.
func (c *Charge) of(caller *Caller) *Caller {
	if c.caller != nil {
		return c.caller
	}
	return caller
}

func (l *limiter) before(o *limiter) bool {
	if (l.slots == nil) != (o.slots == nil) {
		return l.slots == nil
	}
	return strings.Compare(l.name, o.name) < 0
}

// NeedsSlots reports that one of the limits is a concurrency limit, whose slots are given back
// when the work ends.
func NeedsSlots(charges []Charge) bool {
	return slices.ContainsFunc(charges, func(c Charge) bool { return c.limiter.slots != nil })
}

// ValidateTenants returns a *quota.FieldError about a tenant that is none: it makes no key.
func ValidateTenants(charges []Charge) error {
	for i := range charges {
		if err := quota.ValidateTenant(charges[i].tenant); err != nil {
			return err
		}
	}
	return nil
}

// Verdict is what the limits say together.
type Verdict struct {
	Denied   *Limit // which denied; nil: all allowed, or had not been asked
	Tightest *Limit // allowed: the one with the least left
	At       int    // where the charge of the one that denied is, or of the tightest
	Outcome  Outcome
	Answer   Answer        // of the one that denied, or of the tightest
	Delay    time.Duration // allowed: until its turn comes
}

// Take takes from every limit of use, all or none, at one reading of the clock. Slots are left to
// Enter. patience is the longest delay that the caller accepts. The error is a *quota.FieldError
// that names what is missing of the caller.
func (s *Set) Take(now time.Duration, c *Caller, charges []Charge, patience time.Duration) (Verdict, error) {
	var v Verdict
	for i := range charges {
		ch := &charges[i]
		if ch.limiter.slots != nil {
			break
		}
		a, out, err := s.takeOne(now, c, ch, patience)
		if err != nil {
			s.GiveBack(now, charges[:i])
			return Verdict{}, err
		}
		if out != Passed {
			s.GiveBack(now, charges[:i])
			return Verdict{Denied: ch.limiter.limit(), At: i, Outcome: out, Answer: a}, nil
		}
		v.Delay = max(v.Delay, a.Delay)
		if v.Tightest == nil || a.Left < v.Answer.Left {
			v.Tightest, v.At, v.Answer = ch.limiter.limit(), i, a
		}
	}
	return v, nil
}

func (s *Set) takeOne(now time.Duration, c *Caller, ch *Charge, patience time.Duration) (Answer, Outcome, error) {
	var room [4 * MaxCallerBytes]byte
	t := ch.limiter.units
	key, err := t.limit.Load().key(s.hash, room[:0], ch.tenant, ch.of(c))
	if err != nil {
		return Answer{}, "", err
	}
	e := t.lock(now, key)
	if e == nil {
		ch.limiter.counts.decided(TooManyKeys, ch.cost, 0)
		return Answer{}, TooManyKeys, nil
	}
	a := e.state.take(now, quota.Units(ch.cost), patience)
	limit := e.limit
	e.shard.mu.Unlock()
	out := outcomeOf(limit, a, ch.cost)
	if a.Allowed {
		ch.units, ch.mark = e, a.mark
	}
	if limit.Algorithm == LeakyBucket && a.Allowed {
		ch.limiter.counts.wait.Observe(a.Delay.Seconds())
	}
	ch.limiter.counts.decided(out, ch.cost, a.Left)
	return a, out, nil
}

// Look says what a limit has left for whom a charge counts, and takes nothing and keeps nothing. It
// denies as a cost of 1 would be.
func (s *Set) Look(now time.Duration, ch *Charge) (Verdict, error) {
	var room [4 * MaxCallerBytes]byte
	t := ch.limiter.units
	key, err := t.limit.Load().key(s.hash, room[:0], ch.tenant, ch.of(&Caller{}))
	if err != nil {
		return Verdict{}, err
	}
	var a Answer
	limit := t.look(now, key, func(c core) {
		if a = c.take(now, 0, forever); a.Left == 0 {
			a = c.clone().take(now, 1, forever)
		}
	})
	v := Verdict{Tightest: limit, Outcome: outcomeOf(limit, a, 1), Answer: a}
	if !a.Allowed {
		v.Denied = limit
	}
	return v, nil
}

func outcomeOf(l *Limit, a Answer, cost int64) Outcome {
	switch {
	case a.Allowed:
		return Passed
	case a.TooLarge:
		return TooLarge
	case l.Algorithm == LeakyBucket && quota.Units(cost) <= a.Left:
		return TooLong
	}
	return Spent
}

// GiveBack undoes what was taken: units, as far as they still count, and slots. What was taken last
// goes first, since two charges may turn out to be of one count.
func (s *Set) GiveBack(now time.Duration, charges []Charge) {
	for i := len(charges) - 1; i >= 0; i-- {
		ch := &charges[i]
		if e := ch.units; e != nil {
			ch.limiter.units.relock(e)
			e.state.giveBack(now, quota.Units(ch.cost), ch.mark)
			e.shard.mu.Unlock()
			ch.units = nil
		}
	}
	s.Leave(now, charges)
}
