package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Defaults and ranges of the lease, outage and cold blocks.
const (
	defaultTTL       = 30 * time.Second
	maxTTL           = 24 * time.Hour
	minTTL           = time.Millisecond + time.Nanosecond // a lease of 1ms is over before its reply
	maxGrace         = time.Hour
	minDefaultGrace  = 500 * time.Millisecond
	maxDefaultGrace  = 5 * time.Second
	driftShare       = 2000 // 500 ppm of the ttl: how far two clocks drift apart
	defaultWatermark = 20 * onePercent
	defaultAfter     = 10 * time.Second
	maxOutage        = 24 * time.Hour
	defaultColdWait  = 10 * time.Millisecond
	maxColdWait      = 10 * time.Second
)

// Words of the outage and cold blocks.
const (
	modeClosed = "closed"
	modeOpen   = "open"
	thenDeny   = "deny"
	thenDebt   = "debt"
)

// leastGrace covers the drift of two clocks over one ttl, rounded up.
func leastGrace(ttl time.Duration) time.Duration {
	return (ttl + driftShare - 1) / driftShare
}

// defaultGrace is a tenth of the ttl, within sensible bounds, and never too short for drift.
func defaultGrace(ttl time.Duration) time.Duration {
	return max(min(max(minDefaultGrace, ttl/10), maxDefaultGrace), leastGrace(ttl))
}

func (d *draft) lease() {
	o := object{}
	if f, given := d.get("lease"); given {
		o, _ = f.object("ttl", "grace", "max", "low_watermark")
		if d.classOK && d.Class == quota.Exact {
			f.warn("has no effect: class exact has no leases")
		}
	}
	d.Lease.LowWatermark = defaultWatermark
	if f, ok := o.get("low_watermark"); ok {
		d.Lease.LowWatermark, _ = f.percent()
	}
	if f, ok := o.get("max"); ok {
		d.leaseMax(f)
	}
	ttlOK := d.ttl(o)
	if !ttlOK {
		return
	}
	d.Lease.Grace = defaultGrace(d.Lease.TTL)
	if f, ok := o.get("grace"); ok {
		least := leastGrace(d.Lease.TTL)
		d.Lease.Grace, _ = f.duration(spanOf(least, maxGrace, "at least 500 ppm of the ttl"))
	}
}

// ttl reads how long a lease lives: never longer than its window. A period that was refused
// bounds nothing, so only the general range is checked then.
func (d *draft) ttl(o object) bool {
	most, why := maxTTL, "more than 1ms"
	if d.periodOK && d.Period.Shortest() < most {
		most = d.Period.Shortest()
		why = fmt.Sprintf("more than 1ms, and a %s can be as short as %s", d.Period.Every(), short(most))
	}
	d.Lease.TTL = min(defaultTTL, most)
	f, given := o.get("ttl")
	if !given {
		return d.periodOK
	}
	in := spanOf(minTTL, most, why)
	in.allowed = fmt.Sprintf("a duration such as 30s, up to %s (%s)", short(most), why)
	ttl, ok := f.duration(in)
	d.Lease.TTL = ttl
	return ok
}

// leaseMax reads the largest lease. Zero is not a size: it would be no lease at all.
func (d *draft) leaseMax(f value) {
	const allowed = "auto, or a whole number of 1 or more"
	if f.is(wordAuto) {
		return
	}
	n, ok := f.whole(1, allowed)
	if !ok {
		return
	}
	d.Lease.Max = n
	if d.limitOK && d.budgetOK && d.classOK && d.Class != quota.Exact {
		if budget := d.Overshoot.Of(d.Limit); !budget.Unlimited && n > budget.Units {
			f.warn(fmt.Sprintf("%d has no effect: the overshoot budget is %d", n, budget.Units))
		}
	}
}

func (d *draft) outage() {
	d.Outage.After = defaultAfter
	v, given := d.get("outage")
	if !given {
		return
	}
	o, ok := v.object("mode", "after", "for")
	if !ok {
		return
	}
	modeOK := true
	if f, ok := o.get("mode"); ok {
		var mode string
		mode, modeOK = f.word(modeClosed, modeOpen)
		d.Outage.Open = mode == modeOpen
		if d.Outage.Open && d.classOK && d.Class == quota.Exact {
			f.refuse("class exact cannot be open", modeClosed+", or "+notExact)
		}
	}
	if f, ok := o.get("after"); ok {
		d.Outage.After, _ = f.duration(spanOf(0, maxOutage, ""))
	}
	in := spanOf(time.Millisecond, maxOutage, "")
	f, given := o.get("for")
	switch {
	case given && modeOK && !d.Outage.Open:
		f.refuse("has no meaning with mode closed", "only with mode open")
	case given:
		d.Outage.For, _ = f.duration(in)
	case d.Outage.Open:
		o.need("for", in.allowed)
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
	if d.classOK && d.Class == quota.Exact {
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
