package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quotalease/quotalease/ledger/quota"
	"go.yaml.in/yaml/v3"
)

// MaxOperations and MaxTakes bound what is read of operations.
const (
	MaxOperations = 1000
	MaxTakes      = 16
)

// Operation is what a caller asks to do: units of several dimensions, all or none.
type Operation struct {
	Name   string
	Takes  []Take    // by dimension
	Outage *Outage   // takes the place of the dimensions' own; nil: each as its dimension says
	Local  []string  // names of the local limits that it is under, beside those of its dimensions
	Defer  *Deferral // who is denied may wait; nil: no
}

// Take is what an operation draws from one dimension.
type Take struct {
	Dimension string
	Cost      quota.Units
}

// Operation returns an operation by name. It is read-only.
func (s *Snapshot) Operation(name string) (*Operation, bool) {
	o, ok := s.operations[name]
	return o, ok
}

// Operations returns all operations by name. The list and what it holds are read-only.
func (s *Snapshot) Operations() []*Operation { return s.doc.Operations }

// taking is where an operation names a dimension, which is looked at when all are read.
type taking struct {
	Take
	at     value
	openAt *value // where the operation says open, if it does
	waits  *waiting
}

func (b *builder) operation(v value) {
	if len(b.doc.Operations) == MaxOperations {
		b.tooMany(v, "operations", MaxOperations)
		return
	}
	o, ok := v.object("name", "takes", "outage", "local", "on_deny", "defer")
	if !ok {
		return
	}
	op := &Operation{}
	b.doc.Operations = append(b.doc.Operations, op)
	if f, ok := o.need("name", "the operation's name"); ok {
		if op.Name, ok = f.name(validateOperation); ok {
			b.once(f, "operation "+op.Name, "operation "+segment(op.Name))
		}
	}
	op.Local = b.localNamesOf(o, nil, op)
	var openAt *value
	if f, ok := o.get("outage"); ok {
		op.Outage, openAt = f.operationOutage()
	}
	var waits *waiting
	if op.Defer = o.deferral(); op.Defer != nil {
		at, _ := o.get("on_deny")
		waits = &waiting{op.Defer, at}
	}
	const allowed = "1 to 16 of {dimension, cost}"
	f, ok := o.need("takes", allowed)
	if !ok {
		return
	}
	if f.empty() {
		f.refuse(f.describe(), allowed)
		return
	}
	seen := map[string]value{}
	before := len(b.faults)
	f.list("{dimension, cost}", func(item value) {
		if len(op.Takes) == MaxTakes {
			b.tooMany(item, "takes in "+f.path, MaxTakes)
			return
		}
		t, at, ok := item.take()
		if !ok {
			return
		}
		if first, twice := seen[t.Dimension]; twice {
			at.refuse("dimension "+t.Dimension+" is taken twice; first at "+first.place(), "each dimension once, with the whole cost")
			return
		}
		seen[t.Dimension] = at
		op.Takes = append(op.Takes, t)
		b.takings = append(b.takings, taking{Take: t, at: at, openAt: openAt, waits: waits})
	})
	if len(op.Takes) == 0 && len(b.faults) == before {
		f.refuse("is an empty list", allowed)
	}
	slices.SortFunc(op.Takes, func(x, y Take) int { return cmp.Compare(x.Dimension, y.Dimension) })
}

// validateOperation accepts the names that dimensions may have.
func validateOperation(name string) error { return quota.ValidateDimension(name) }

func (v value) take() (Take, value, bool) {
	t := Take{Cost: 1}
	o, ok := v.object("dimension", "cost")
	if !ok {
		return t, v, false
	}
	at, ok := o.need("dimension", "the name of a dimension")
	if ok {
		t.Dimension, ok = at.name(quota.ValidateDimension)
	}
	if f, given := o.get("cost"); given {
		var costOK bool
		allowed := fmt.Sprintf("a whole number from 1 to %d", quota.MaxCost)
		if t.Cost, costOK = f.whole(1, allowed); costOK && t.Cost > quota.MaxCost {
			f.refuse(fmt.Sprintf("%d is too large", t.Cost), allowed) // no door takes it
			costOK = false
		}
		ok = ok && costOK
	}
	return t, at, ok
}

// operationOutage reads the word closed, or a mode with its times.
func (v value) operationOutage() (*Outage, *value) {
	u := &Outage{After: defaultAfter}
	if v.is(modeClosed) {
		return u, nil
	}
	if v.node.Kind != yaml.MappingNode {
		v.refuse(v.describe(), "closed, or {mode, after, for}")
		return nil, nil
	}
	o, ok := v.object("mode", "after", "for")
	if !ok {
		return nil, nil
	}
	u.readAfter(o)
	f, ok := o.need("mode", modeClosed+" or "+modeOpen)
	if !ok {
		return nil, nil
	}
	mode, ok := f.word(modeClosed, modeOpen)
	if !ok {
		return nil, nil
	}
	u.Open = mode == modeOpen
	u.readFor(o)
	if !u.Open {
		return u, nil
	}
	return u, &f
}

// checkOperations looks at the dimensions that operations draw on.
func (b *builder) checkOperations() {
	known := b.dimensionsByName()
	for _, t := range b.takings {
		d, ok := known[t.Dimension]
		if ok {
			t.checkDeferral(d)
		}
		switch {
		case !ok:
			t.at.refuse(fmt.Sprintf("dimension %q is not defined%s", shorten(t.Dimension), didYouMean(near(t.Dimension, slices.Sorted(maps.Keys(known))))),
				"a dimension of the policy")
		case t.openAt != nil && d.Class == quota.Exact:
			t.openAt.refuse("dimension "+d.Name+" is exact and cannot be open", modeClosed+", or an operation without exact dimensions")
		case !d.Limit.Unlimited && t.Cost > d.Limit.Units && d.Limit.Units > 0:
			t.at.warn(fmt.Sprintf("a cost of %d is above the limit of %d: only a plan or an override with a higher one lets it pass",
				t.Cost, d.Limit.Units))
		}
	}
}
