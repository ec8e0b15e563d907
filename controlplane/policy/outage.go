package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Words of the outage and cold blocks.
const (
	modeClosed = "closed"
	modeOpen   = "open"
	modeExtend = "extend"
	thenDeny   = "deny"
	thenDebt   = "debt"
)

// Defaults and ranges of the outage and cold blocks.
const (
	defaultAfter    = 10 * time.Second
	maxOutage       = 24 * time.Hour
	defaultColdWait = 10 * time.Millisecond
	maxColdWait     = 10 * time.Second
)

func (d *draft) outage() {
	d.Outage.After = defaultAfter
	v, given := d.get("outage")
	if !given {
		return
	}
	o, ok := v.object("mode", "after", "for", "rate", "budget")
	if !ok {
		return
	}
	modeOK := true
	if f, ok := o.get("mode"); ok {
		modeOK = d.mode(f)
	}
	d.Outage.readAfter(o)
	if modeOK {
		d.Outage.readFor(o)
		d.emergency(o)
	}
}

// mode reads what an agent does without the control plane.
func (d *draft) mode(f value) bool {
	mode, ok := f.word(modeClosed, modeOpen, modeExtend)
	if !ok {
		return false
	}
	switch {
	case mode == modeClosed:
	case d.exact():
		f.refuse("class exact cannot be "+mode, modeClosed+", or "+notExact)
		return false
	case mode == modeExtend && d.kindOK && d.Kind != quota.Period:
		f.refuse("kind "+d.Kind.String()+" cannot be extend: its window never ends, so it would never get its emergency budget back",
			modeClosed+", "+modeOpen+", or only with kind "+quota.Period.String())
		return false
	}
	d.Outage.Open, d.Outage.Extend = mode == modeOpen, mode == modeExtend
	return true
}

func (u *Outage) readAfter(o object) {
	if f, ok := o.get("after"); ok {
		u.After, _ = f.duration(spanOf(0, maxOutage, ""))
	}
}

// readFor reads how long mode open may last.
func (u *Outage) readFor(o object) {
	in := spanOf(time.Millisecond, maxOutage, "")
	f, given := o.get("for")
	switch {
	case given && !u.Open:
		f.refuse("has no meaning with mode "+u.Mode(), "only with mode "+modeOpen)
	case given:
		u.For, _ = f.duration(in)
	case u.Open:
		o.need("for", in.allowed)
	}
}

// emergency reads what mode extend may use, and how fast.
func (d *draft) emergency(o object) {
	const rateAllowed = rateForms + ", above 0"
	budgetAllowed := "a whole number from 1 to the limit"
	if !d.Outage.Extend {
		for _, name := range []string{"rate", "budget"} {
			if f, given := o.get(name); given {
				f.refuse("has no meaning with mode "+d.Outage.Mode(), "only with mode "+modeExtend)
			}
		}
		return
	}
	if f, ok := o.need("rate", rateAllowed); ok {
		if d.Outage.Rate, ok = f.rate(rateAllowed); ok && d.Outage.Rate.Units == 0 {
			f.refuse("a rate of 0 would be mode "+modeClosed, rateAllowed)
		}
	}
	if f, ok := o.need("budget", budgetAllowed); ok {
		d.Outage.Budget, ok = f.whole(1, budgetAllowed)
		if ok && d.limitOK && !d.Limit.Unlimited && d.Outage.Budget > max(d.Limit.Units, 1) {
			f.refuse(fmt.Sprintf("%d is above the limit of %d", d.Outage.Budget, d.Limit.Units), budgetAllowed)
		}
	}
}

func (d *draft) cold() {
	d.Cold = Cold{Wait: defaultColdWait, Units: 1}
	v, given := d.get("cold")
	if !given {
		return
	}
	o, ok := v.object("wait", "then", "units")
	if !ok {
		return
	}
	if d.exact() {
		v.warn("has no effect: class exact has no leases")
	}
	if f, ok := o.get("wait"); ok {
		d.Cold.Wait, _ = f.duration(spanOf(0, maxColdWait, ""))
	}
	if f, ok := o.get("then"); ok {
		then, _ := f.word(thenDeny, thenDebt)
		d.Cold.Debt = then == thenDebt
		if d.Cold.Debt && d.classOK && (d.Class == quota.Hard || d.Class == quota.Exact) {
			f.refuse("class "+d.Class.String()+" never lets units pass unleased", thenDeny+", or only with class bounded or best_effort")
		}
	}
	if f, ok := o.get("units"); ok {
		n, ok := f.whole(1, "a whole number from 1 to the limit")
		d.Cold.Units = n
		if ok && d.limitOK && !d.Limit.Unlimited && n > max(d.Limit.Units, 1) {
			f.refuse(fmt.Sprintf("%d is above the limit of %d", n, d.Limit.Units), "a whole number from 1 to the limit")
		}
	}
}
