package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Longest texts for people, in bytes.
const (
	maxUnitBytes  = 63
	maxOwnerBytes = 256
	maxNoteBytes  = 1024
)

// defaultOvershoot is the budget of a class whose dimension names none.
var defaultOvershoot = map[quota.Class]Overshoot{
	quota.Exact:      {},
	quota.Hard:       {Share: 10 * onePercent},
	quota.Bounded:    {Share: onePercent},
	quota.BestEffort: {Share: 10 * onePercent},
}

// draft is a dimension while it is read. The flags say which parts later checks may rely on.
type draft struct {
	object
	*Dimension
	kindOK   bool
	classOK  bool
	limitOK  bool
	budgetOK bool
	periodOK bool // also where there is none to read
}

// exact reports a dimension that has no leases.
func (d *draft) exact() bool { return d.classOK && d.Class == quota.Exact }

func (b *builder) dimension(v value) {
	if len(b.doc.Dimensions) == MaxDimensions {
		b.tooMany(v, "dimensions", MaxDimensions)
		return
	}
	o, ok := v.object("name", "description", "unit", "kind", "limit", "burst", "max_hold", "period", "class",
		"overshoot", "lease", "outage", "cold", "statement", "plans", "overrides", "local")
	if !ok {
		return
	}
	d := &draft{object: o, Dimension: &Dimension{Unit: "requests"}}
	b.doc.Dimensions = append(b.doc.Dimensions, d.Dimension)
	d.words()
	d.Local = b.localNamesOf(o, d.Dimension, nil)
	if f, ok := d.need("class", classAllowed); ok {
		d.Class, d.classOK = f.class()
	}
	limit, ok := d.amounts(d.object, true)
	d.Limit, d.Rate, d.limitOK = limit.limit, limit.rate, ok
	d.Overshoot, d.budgetOK = defaultOvershoot[d.Class], true
	if own, ok := d.readOvershoot(d.object, d.Limit, d.limitOK); !ok {
		d.budgetOK = false
	} else if own != nil {
		d.Overshoot = *own
	}
	d.period()
	d.maxHold()
	if d.limitOK {
		d.checkBudget(limit, d.Overshoot)
	}
	d.lease()
	d.outage()
	d.cold()
	d.statement()
	d.plans()
	d.overrides()
}

// words reads the fields that say what the dimension is.
func (d *draft) words() {
	if f, ok := d.need("name", "the dimension's name"); ok {
		if d.Name, ok = f.name(quota.ValidateDimension); ok {
			d.b.once(f, "dimension "+d.Name, "dimension "+segment(d.Name))
		}
	}
	if f, ok := d.get("description"); ok {
		d.Description, _ = f.text(maxNoteBytes)
	}
	if f, ok := d.get("unit"); ok {
		d.Unit, _ = f.text(maxUnitBytes)
	}
	if f, ok := d.need("kind", kindAllowed); ok {
		d.Kind, d.kindOK = f.kind()
	}
}

const kindAllowed = "period, rate or concurrency"

func (v value) kind() (quota.Kind, bool) {
	s, _, ok := v.scalar(kindAllowed)
	if !ok {
		return 0, false
	}
	k, err := quota.ParseKind(s)
	if err != nil {
		v.refuse(fmt.Sprintf("%q is not a kind", shorten(s)), kindAllowed)
	}
	return k, err == nil
}

// only reads a field that has a meaning with one kind, and refuses it with the others.
func (d *draft) only(kind quota.Kind, name string) (value, bool) {
	f, given := d.get(name)
	if given && d.kindOK && d.Kind != kind {
		f.refuse("has no meaning with kind "+d.Kind.String(), "only with kind "+kind.String())
		return f, false
	}
	return f, given && d.kindOK
}

// maxHold reads how long the longest run takes: so long a slot may stay charged that nobody
// has given back.
func (d *draft) maxHold() {
	in := spanOf(time.Second, 30*day, "the longest that one run may take")
	f, given := d.only(quota.Concurrency, "max_hold")
	switch {
	case given:
		d.MaxHold, _ = f.duration(in)
	case d.kindOK && d.Kind == quota.Concurrency:
		d.need("max_hold", in.allowed)
	}
}

const defaultFinalAfter = 3 * day

// statement reads when what is still unconfirmed no longer keeps a statement open.
func (d *draft) statement() {
	v, given := d.only(quota.Period, "statement")
	if d.kindOK && d.Kind == quota.Period {
		d.FinalAfter = defaultFinalAfter
	}
	if !given {
		return
	}
	if o, ok := v.object("final_after"); ok {
		if f, ok := o.get("final_after"); ok {
			d.FinalAfter, _ = f.duration(spanOf(time.Minute, 90*day, ""))
		}
	}
}

const classAllowed = "exact, hard, bounded or best_effort"

func (v value) class() (quota.Class, bool) {
	s, _, ok := v.scalar(classAllowed)
	if !ok {
		return 0, false
	}
	c, err := quota.ParseClass(s)
	if err != nil {
		v.refuse(fmt.Sprintf("%q is not a class", shorten(s)), classAllowed)
	}
	return c, err == nil
}
