package policy

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Defaults and ranges of the lease block.
const (
	defaultTTL       = 30 * time.Second
	maxTTL           = 24 * time.Hour
	minTTL           = time.Millisecond + time.Nanosecond // a lease of 1ms is over before its reply
	maxGrace         = time.Hour
	minDefaultGrace  = 500 * time.Millisecond
	maxDefaultGrace  = 5 * time.Second
	driftShare       = 2000 // 500 ppm of the ttl: how far two clocks drift apart
	defaultWatermark = 20 * onePercent
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
		o, _ = f.object("ttl", "grace", "max", "low_watermark", "regions", "schedule")
		if d.exact() {
			f.warn("has no effect: class exact has no leases")
		}
	}
	d.Lease.LowWatermark = defaultWatermark
	if f, ok := o.get("low_watermark"); ok {
		d.Lease.LowWatermark, _ = f.percent()
	}
	if f, ok := o.get("max"); ok {
		d.Lease.Max = d.leaseMax(f, d.Limit, d.Overshoot, d.limitOK)
	}
	if d.ttl(o) {
		d.Lease.Grace = defaultGrace(d.Lease.TTL)
		if f, ok := o.get("grace"); ok {
			least := leastGrace(d.Lease.TTL)
			d.Lease.Grace, _ = f.duration(spanOf(least, maxGrace, "at least 500 ppm of the ttl"))
		}
	}
	if f, ok := o.get("regions"); ok {
		d.regions(f)
	}
	if f, ok := o.get("schedule"); ok {
		_, ownGrace := o.get("grace")
		d.schedule(f, ownGrace)
	}
}

// ttl reads how long a lease lives.
func (d *draft) ttl(o object) bool {
	in := d.ttlSpan()
	d.Lease.TTL = min(defaultTTL, in.most)
	f, given := o.get("ttl")
	if !given {
		return d.periodOK
	}
	ttl, ok := f.duration(in)
	d.Lease.TTL = ttl
	return ok
}

// ttlSpan is how long a lease may live: never longer than its window. A period that was
// refused bounds nothing, so only the general range is checked then.
func (d *draft) ttlSpan() span {
	most, why := maxTTL, "more than 1ms"
	if shortest := d.Period.Shortest(); shortest > 0 && shortest < most {
		most = shortest
		why = fmt.Sprintf("more than 1ms, and a %s can be as short as %s", d.Period.Every(), short(most))
	}
	in := spanOf(minTTL, most, why)
	in.allowed = fmt.Sprintf("a duration such as 30s, up to %s (%s)", short(most), why)
	return in
}

// leaseMax reads the largest lease under a limit. Zero is not a size: it would be no lease
// at all.
func (d *draft) leaseMax(f value, limit quota.Limit, o Overshoot, limitOK bool) quota.Units {
	const allowed = "auto, or a whole number of 1 or more"
	if f.is(wordAuto) {
		return 0
	}
	n, ok := f.whole(1, allowed)
	if ok && limitOK && d.budgetOK && d.classOK && d.Class != quota.Exact {
		if budget := o.Of(limit); !budget.Unlimited && n > budget.Units {
			f.warn(fmt.Sprintf("%d has no effect: the overshoot budget is %d", n, budget.Units))
		}
	}
	return n
}
