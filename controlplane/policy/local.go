package policy

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"go.yaml.in/yaml/v3"
)

// Caps on local limits. They bound what an agent holds and how long it makes callers wait.
const (
	MaxLocals     = 1000
	MaxLocalNames = 8 // of one dimension or operation

	maxLocalLog     quota.Units = 10_000     // a sliding log remembers every one
	maxLocalLogged  quota.Units = 10_000_000 // in all keys of one limit
	maxLocalSlots   quota.Units = 1_000_000
	maxLocalQueue   quota.Units = 1_000_000
	maxLocalKeys    quota.Units = 10_000_000
	maxLocalShaping             = 20 * time.Second // doors give up on callers after 30 s
	defaultKeys     quota.Units = 100_000
	defaultIdle                 = 10 * time.Minute
	defaultAge                  = time.Second
	defaultPrefix               = 64
	longStart                   = time.Minute // a start that denies for longer is warned of
)

// The algorithms and attributes of local limits, in the words of policy files.
const (
	tokenBucket    = "token_bucket"
	leakyBucket    = "leaky_bucket"
	fixedWindow    = "fixed_window"
	slidingLog     = "sliding_log"
	slidingCounter = "sliding_counter"
	concurrency    = "concurrency"
	attributeOfIP  = "address"
)

var (
	localAlgorithms = []string{tokenBucket, leakyBucket, fixedWindow, slidingLog, slidingCounter, concurrency}
	localAttributes = []string{"route", attributeOfTenant, "actor", "api_key", attributeOfIP}
)

// Local is a limit that each agent keeps for itself, to protect what stands behind it. It is no
// quota: nothing of it is leased, and N agents let N times as much through.
type Local struct {
	Name        string
	Algorithm   string
	Rate        quota.Rate  // all but concurrency; of windows: the limit and the window
	Capacity    quota.Units // token_bucket: the burst; leaky_bucket: the queue; concurrency: slots
	CountDenied bool        // sliding_log: what was denied counts, too
	Queue       LocalQueue  // concurrency
	Key         []string    // what it counts by; empty: one for all
	IPv6Prefix  int         // of addresses
	CountCost   bool        // what requests cost, not how many there are
	StartFull   bool        // nothing counts as used when an agent starts
	Idle        time.Duration
	MaxKeys     quota.Units
}

// LocalQueue bounds who waits for a slot of a local concurrency limit.
type LocalQueue struct {
	Count quota.Units // 0: nobody waits
	Bytes quota.Units // 0: not looked at
	Age   time.Duration
}

// Locals returns all local limits by name. The list and what it holds are read-only.
func (s *Snapshot) Locals() []*Local { return s.doc.Locals }

// locals is where policy names local limits, and where it refers to them.
type locals struct {
	names []value
	refs  []localRef
}

// localRef is where a dimension or an operation names a local limit.
type localRef struct {
	at        value
	name      string
	dimension *Dimension // one of the two
	operation *Operation
}

func (b *builder) local(v value) {
	if len(b.doc.Locals) == MaxLocals {
		b.tooMany(v, "local limits", MaxLocals)
		return
	}
	o, ok := v.object("name", "algorithm", "limit", "burst", "queue", "count_denied", "key", "ipv6_prefix", "counts", "start", "idle", "max_keys")
	if !ok {
		return
	}
	l := &Local{IPv6Prefix: defaultPrefix, Idle: defaultIdle, MaxKeys: defaultKeys}
	b.doc.Locals = append(b.doc.Locals, l)
	if f, ok := o.need("name", "the local limit's name"); ok {
		if l.Name, ok = f.name(quota.ValidateDimension); ok && b.once(f, "local "+l.Name, "local limit "+segment(l.Name)) {
			b.locals.names = append(b.locals.names, f)
		}
	}
	f, ok := o.need("algorithm", orList(localAlgorithms))
	if ok {
		l.Algorithm, ok = f.word(localAlgorithms...)
	}
	l.readKeys(o)
	if !ok {
		return // nobody knows how to read the rest
	}
	if l.Algorithm == concurrency {
		l.readSlots(o)
	} else {
		l.readRate(o)
	}
	l.readFlags(o)
}

// onlyWith refuses a field that another algorithm has.
func (l *Local) onlyWith(o object, name string, algorithms ...string) (value, bool) {
	f, given := o.get(name)
	if given && !slices.Contains(algorithms, l.Algorithm) {
		f.refuse("has no meaning with algorithm "+l.Algorithm, "only with algorithm "+orList(algorithms))
		return f, false
	}
	return f, given
}

func (l *Local) readRate(o object) {
	at, given := o.need("limit", rateForms)
	ok := given
	if given {
		l.Rate, ok = at.rate(rateForms)
	}
	l.Capacity = l.Rate.Units
	if f, given := l.onlyWith(o, "burst", tokenBucket); given {
		l.Capacity = f.upTo(0, maxRateUnits)
	}
	if l.Algorithm != tokenBucket {
		l.Capacity = 0
	}
	if f, given := l.onlyWith(o, "queue", leakyBucket, concurrency); given {
		l.Capacity = f.upTo(0, maxRateUnits)
		if ok && l.shapesTooLong() {
			f.refuse(fmt.Sprintf("a queue of %d takes longer than %s to empty at %s", l.Capacity, maxLocalShaping, formatRate(l.Rate)),
				"a queue that callers can wait for")
		}
	} else if l.Algorithm == leakyBucket {
		o.need("queue", "how many may be in it")
	}
	if l.Rate.Units == 0 {
		l.Capacity = 0 // a rate of 0 denies everything
	}
	if l.Algorithm == slidingLog && ok && l.Rate.Units > maxLocalLog {
		at.refuse(fmt.Sprintf("%d is too large: a sliding log remembers every one", l.Rate.Units), fmt.Sprintf("at most %d, or another algorithm", maxLocalLog))
	}
	windows := l.Algorithm == fixedWindow || l.Algorithm == slidingLog || l.Algorithm == slidingCounter
	if f, starts := o.get("start"); ok && windows && l.Rate.Per > longStart && (!starts || f.is("empty")) {
		at.warn(fmt.Sprintf("after each start of an agent nothing passes for up to %s; start: full lets it pass, and twice as much around a restart", short(l.Rate.Per)))
	}
}

// shapesTooLong reports a leaky bucket whose last caller would wait for too long.
func (l *Local) shapesTooLong() bool {
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(l.Rate.Per))
	mostHi, mostLo := bits.Mul64(uint64(l.Rate.Units), uint64(maxLocalShaping))
	return l.Rate.Units > 0 && (hi > mostHi || hi == mostHi && lo > mostLo)
}

func (l *Local) readSlots(o object) {
	if f, ok := o.need("limit", "a number of slots"); ok {
		l.Capacity = f.upTo(0, maxLocalSlots)
	}
	l.onlyWith(o, "burst", tokenBucket)
	f, given := o.get("queue")
	if !given {
		return
	}
	q, ok := f.object("count", "bytes", "age")
	if !ok {
		return
	}
	l.Queue.Age = defaultAge
	if f, ok := q.need("count", "how many may wait"); ok {
		l.Queue.Count = f.upTo(0, maxLocalQueue)
	}
	if f, ok := q.get("bytes"); ok {
		l.Queue.Bytes = f.upTo(1, quota.MaxCost)
	}
	if f, ok := q.get("age"); ok {
		l.Queue.Age, _ = f.duration(spanOf(time.Millisecond, time.Hour, "the longest that one may wait"))
	}
}

func (l *Local) readFlags(o object) {
	if f, ok := l.onlyWith(o, "count_denied", slidingLog); ok {
		l.CountDenied, _ = f.truth()
	}
	if f, ok := o.get("counts"); ok {
		word, _ := f.word("requests", "cost")
		l.CountCost = word == "cost"
	}
	if f, ok := l.onlyWith(o, "start", tokenBucket, leakyBucket, fixedWindow, slidingLog, slidingCounter); ok {
		word, _ := f.word("empty", "full")
		l.StartFull = word == "full"
	}
	f, given := o.get("max_keys")
	if given {
		l.MaxKeys = f.upTo(1, maxLocalKeys)
	}
	if l.Algorithm != slidingLog || l.Rate.Units == 0 || l.Rate.Units > maxLocalLog {
		return
	}
	switch most := maxLocalLogged / l.Rate.Units; {
	case !given:
		l.MaxKeys = min(l.MaxKeys, most)
	case l.MaxKeys > most:
		f.refuse(fmt.Sprintf("%d keys of %d are too many for a sliding log", l.MaxKeys, l.Rate.Units), fmt.Sprintf("at most %d, or another algorithm", most))
	}
}

func (l *Local) readKeys(o object) {
	if f, ok := o.get("key"); ok {
		f.list(orList(localAttributes), func(item value) {
			word, ok := item.word(localAttributes...)
			if ok && slices.Contains(l.Key, word) {
				item.refuse(word+" is given twice", "each once")
				return
			}
			if ok {
				l.Key = append(l.Key, word)
			}
		})
		slices.SortFunc(l.Key, func(x, y string) int {
			return cmp.Compare(slices.Index(localAttributes, x), slices.Index(localAttributes, y))
		})
	}
	if f, ok := o.get("ipv6_prefix"); ok {
		if !slices.Contains(l.Key, attributeOfIP) {
			f.refuse("has no meaning without address in key", "only with address in key")
		} else {
			l.IPv6Prefix = int(f.upTo(1, 128))
		}
	}
	if f, ok := o.get("idle"); ok {
		l.Idle, _ = f.duration(spanOf(time.Second, 24*time.Hour, "how long an unused key is kept"))
	}
}

// upTo reads a whole number within a range.
func (v value) upTo(least, most quota.Units) quota.Units {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	n, ok := v.whole(least, allowed)
	if ok && n > most {
		v.refuse(fmt.Sprintf("%d is too large", n), allowed)
	}
	return n
}

// localNamesOf reads the names of the local limits that something is under, which are looked at
// when all are read.
func (b *builder) localNamesOf(o object, d *Dimension, op *Operation) (names []string) {
	f, ok := o.get("local")
	if !ok {
		return nil
	}
	if f.node.Kind == yaml.ScalarNode && !f.empty() {
		f.refuse(f.describe(), "a list of local limits")
		return nil
	}
	f.list("local limits", func(item value) {
		if len(names) == MaxLocalNames {
			b.tooMany(item, "local limits in "+f.path, MaxLocalNames)
			return
		}
		name, ok := item.name(quota.ValidateDimension)
		switch {
		case ok && slices.Contains(names, name):
			item.refuse(name+" is given twice", "each once")
		case ok:
			names = append(names, name)
			b.locals.refs = append(b.locals.refs, localRef{at: item, name: name, dimension: d, operation: op})
		}
	})
	slices.Sort(names)
	return names
}

// checkLocals looks at what names local limits, and at what they are named.
func (b *builder) checkLocals() {
	known := make(map[string]*Local, len(b.doc.Locals))
	var names []string
	for _, l := range b.doc.Locals {
		known[l.Name] = l
		names = append(names, l.Name)
	}
	dimensions := make(map[string]*Dimension, len(b.doc.Dimensions))
	for _, d := range b.doc.Dimensions {
		dimensions[d.Name] = d
	}
	for _, at := range b.locals.names {
		if dimensions[at.node.Value] != nil {
			at.refuse(at.node.Value+" is a dimension, too", "a name of its own: a denial names who denies by it")
		}
	}
	for _, r := range b.locals.refs {
		l := known[r.name]
		switch {
		case l == nil:
			r.at.refuse(fmt.Sprintf("local limit %q is not defined%s", shorten(r.name), didYouMean(near(r.name, names))), "a local limit of the policy")
		case r.operation != nil && l.CountCost:
			r.at.refuse("local limit "+l.Name+" counts cost, which an operation has none of", "one that counts requests, or list it at the dimensions")
		case l.Algorithm == concurrency && !r.hasSlots(dimensions):
			r.at.refuse("local limit "+l.Name+" has slots, which only an acquire gives back", "at a dimension of kind concurrency, or an operation that takes from one")
		}
	}
}

// hasSlots reports that what names a local limit can only be acquired.
func (r localRef) hasSlots(dimensions map[string]*Dimension) bool {
	if r.dimension != nil {
		return r.dimension.Kind == quota.Concurrency
	}
	return slices.ContainsFunc(r.operation.Takes, func(t Take) bool {
		d := dimensions[t.Dimension]
		return d != nil && d.Kind == quota.Concurrency
	})
}
