package core

import (
	"testing"
	"time"
)

func TestARiseOfDemandIsBelievedSoonerThanAFall(t *testing.T) {
	t.Parallel()
	const horizon = 10 * time.Second
	var d demand
	now, total := Instant(time.Hour), int64(0)
	spend := func(perSecond int64, steps int) {
		for range steps {
			now += 100 * time.Millisecond
			total += perSecond / 10
			d.sample(now, total, horizon)
		}
	}
	d.sample(now, 0, horizon)
	spend(100, 50)
	if got := d.over(time.Second); got < 95 || got > 105 {
		t.Fatalf("a steady 100/s is estimated as %d", got)
	}
	spend(1000, 3) // 0.3 s
	if got := d.over(time.Second); got < 800 {
		t.Errorf("0.3 s after a rise to 1,000/s the estimate is %d: the next lease would run dry", got)
	}
	spend(100, 3)
	if got := d.over(time.Second); got < 600 {
		t.Errorf("0.3 s after a fall the estimate is already %d", got)
	}
	spend(100, 400)
	if got := d.over(time.Second); got > 150 {
		t.Errorf("40 s after a fall the estimate is still %d", got)
	}
}

// Calls at random come close together now and then: that is no rise.
func TestFewUnitsInAShortTimeAreNoRise(t *testing.T) {
	t.Parallel()
	const horizon = time.Second
	var d demand
	now, total := Instant(time.Hour), int64(0)
	d.sample(now, 0, horizon)
	for range 20 { // 10/s
		now += 200 * time.Millisecond
		total += 2
		d.sample(now, total, horizon)
	}
	for range 3 {
		now += 10 * time.Millisecond
		total++
		d.sample(now, total, horizon)
	}
	if got := d.over(time.Second); got > 15 {
		t.Errorf("3 units within 30 ms make of 10/s an estimate of %d", got)
	}
}
