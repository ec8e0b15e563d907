package core

import (
	"math"
	"time"
)

// demand estimates how fast a key is spent, as an exponentially weighted mean of the rates
// between samples, with a time constant of one horizon.
type demand struct {
	rate  float64 // a second, negated so that a known 0 differs from none
	at    Instant
	total int64
}

func (d *demand) known() bool { return math.Signbit(d.rate) }

func (d *demand) perSecond() float64 { return math.Abs(d.rate) }

// sample takes a reading of the total spent so far.
func (d *demand) sample(now Instant, total int64, horizon time.Duration) {
	if d.at == 0 && d.total == 0 && !d.known() {
		d.at, d.total = now, total
		if total == 0 {
			return
		}
	}
	dt := now - d.at
	if dt < 5*time.Millisecond {
		return
	}
	rate := float64(max(0, total-d.total)) / dt.Seconds()
	if !d.known() {
		d.rate = -rate
	} else {
		weight := 1 - math.Exp(-dt.Seconds()/horizon.Seconds())
		// A rise is believed at once, a fall slowly: to run dry costs a caller's wait, to
		// hold a little too much costs nobody until the quota nears its end.
		// Few units in a short time are chance, not a rise.
		was := d.perSecond()
		if rate > was && total-d.total >= 8 {
			weight = max(weight, 0.5)
		}
		d.rate = -(was + weight*(rate-was))
	}
	d.at, d.total = now, total
}

// over is what the key will spend in dt at the present rate, rounded up.
func (d *demand) over(dt time.Duration) int64 {
	need := d.perSecond() * dt.Seconds()
	if need >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(math.Ceil(need))
}
