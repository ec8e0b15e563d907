package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// What a rate may be.
const (
	maxRateUnits quota.Units   = 1 << 62 // what a token bucket can add up
	minRatePer   time.Duration = time.Millisecond
	maxRatePer                 = 366 * day
	day                        = 24 * time.Hour
)

// The rate that holds where a dimension of kind rate names none.
var (
	defaultRate              = quota.Rate{Units: 2, Per: time.Second}
	defaultBurst quota.Units = 120
)

const (
	rateForms    = "N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s"
	rateAllowed  = rateForms + ", or the word unlimited"
	burstAllowed = "a whole number of 0 or more"
)

var ratePers = map[string]time.Duration{
	"s": time.Second, "second": time.Second, "m": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour, "d": day, "day": day,
}

// rate reads units per time.
func (v value) rate(allowed string) (quota.Rate, bool) {
	s, _, ok := v.scalar(allowed)
	if !ok {
		return quota.Rate{}, false
	}
	amount, every, slashed := strings.Cut(s, "/")
	if !slashed || !isDigits(amount) {
		v.refuse(fmt.Sprintf("%q is not a rate", shorten(s)), allowed)
		return quota.Rate{}, false
	}
	units, ok := v.digits(amount, allowed)
	if !ok {
		return quota.Rate{}, false
	}
	if units > maxRateUnits {
		v.refuse(amount+" is too large", fmt.Sprintf("%s, with N up to %d", allowed, maxRateUnits))
		return quota.Rate{}, false
	}
	per, ok := ratePers[every]
	if !ok {
		var err error
		if per, err = time.ParseDuration(every); err != nil {
			v.refuse(fmt.Sprintf("%q is not a time", shorten(every)), allowed)
			return quota.Rate{}, false
		}
	}
	if per < minRatePer || per > maxRatePer {
		v.refuse(fmt.Sprintf("%q is too short or too long a time", shorten(every)),
			fmt.Sprintf("%s, with a DURATION from %s to %s", allowed, short(minRatePer), short(maxRatePer)))
		return quota.Rate{}, false
	}
	return quota.Rate{Units: units, Per: per}, true
}

// formatRate writes a rate as policy files do.
func formatRate(r quota.Rate) string {
	per := short(r.Per)
	switch r.Per {
	case time.Second:
		per = "s"
	case time.Minute:
		per = "m"
	case time.Hour:
		per = "h"
	case day:
		per = "d"
	}
	return formatUnits(r.Units) + "/" + per
}

// amounts is what a limit and the burst beside it say.
type amounts struct {
	limit quota.Limit // the burst, for kind rate
	rate  quota.Rate
	at    value // where a fault of the limit belongs
}

// amounts reads the limit of the dimension, of a plan or of an override.
func (d *draft) amounts(o object, optional bool) (amounts, bool) {
	switch {
	case !d.kindOK:
		return amounts{}, false // nobody knows how to read it
	case d.Kind == quota.RateLimit:
		return d.rateAndBurst(o, optional)
	}
	ok := true
	if f, given := o.get("burst"); given {
		f.refuse("has no meaning with kind "+d.Kind.String(), "only with kind "+quota.RateLimit.String())
		ok = false
	}
	at, given := o.need("limit", limitAllowed)
	if !given {
		return amounts{}, false
	}
	limit, limitOK := at.limit()
	return amounts{limit: limit, at: at}, ok && limitOK
}

// rateAndBurst reads a rate. Its burst is what is written, else the units of the rate as
// written: 6000/m lets 6000 through at once. A rate of 0 denies everything, burst or not.
func (d *draft) rateAndBurst(o object, optional bool) (amounts, bool) {
	a := amounts{rate: defaultRate, limit: quota.LimitOf(defaultBurst), at: o.child("limit", o.node)}
	limitAt, given := o.get("limit")
	burstAt, bursts := o.get("burst")
	ok := true
	switch {
	case given && limitAt.is(wordNoLimit):
		if bursts {
			burstAt.refuse("has no meaning with limit unlimited", "only with a rate")
		}
		return amounts{limit: quota.NoLimit, at: limitAt}, !bursts
	case given:
		a.at = limitAt
		a.rate, ok = limitAt.rate(rateAllowed)
		a.limit = quota.LimitOf(a.rate.Units)
	case !optional:
		o.need("limit", rateAllowed)
		ok = false
	}
	if bursts {
		n, burstOK := burstAt.whole(0, burstAllowed)
		if burstOK && n > maxRateUnits {
			burstAt.refuse(formatUnits(n)+" is too large", fmt.Sprintf("%s, up to %d", burstAllowed, maxRateUnits))
			burstOK = false
		}
		a.limit, a.at, ok = quota.LimitOf(n), burstAt, ok && burstOK
	}
	if ok && a.rate.Units == 0 && a.limit.Units > 0 {
		burstAt.warn(fmt.Sprintf("%d has no effect: a rate of 0 denies everything", a.limit.Units))
		a.limit = quota.LimitOf(0)
	}
	return a, ok
}
