//go:build linux

package chaos

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// step is one fault of a plan.
type step struct {
	at     time.Duration // since the first caller
	fault  *fault
	target int
	lasts  time.Duration
}

// Faults come in bursts, in which they overlap, with a lull behind each in which work is done
// for the next one to break.
const (
	firstStep = 500 * time.Millisecond
	gap       = 800 * time.Millisecond // between two steps, at most
	burst     = 5                      // steps
	lull      = 1500 * time.Millisecond
	shortest  = 100 * time.Millisecond // of what a fault lasts
)

// draw makes a plan from a seed. Faults come like cards of a deck that is shuffled when it has
// been dealt, so that a round of any length has each kind about as often as the others.
func draw(seed uint64, lasts time.Duration, faults []*fault) []step {
	rng := rand.New(rand.NewPCG(seed, 1))
	var plan []step
	var deck []*fault
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	for at := firstStep; at < lasts; at += gap/8 + upTo(gap*7/8) {
		if len(deck) == 0 {
			deck = append(deck, faults...)
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		plan = append(plan, step{at, f, rng.IntN(f.targets), shortest + upTo(f.most)})
		if len(plan)%burst == 0 {
			at += lull
		}
	}
	return plan
}

func TestASeedGivesOnePlan(t *testing.T) {
	t.Parallel()
	faults := faultsOf(true)
	first := draw(7, time.Minute, faults)
	if !reflect.DeepEqual(first, draw(7, time.Minute, faults)) {
		t.Error("the same seed gives another plan")
	}
	if reflect.DeepEqual(first, draw(8, time.Minute, faults)) {
		t.Error("another seed gives the same plan")
	}
	dealt := map[string]int{}
	for _, s := range first[:2*len(faults)] {
		dealt[s.fault.name]++
	}
	for _, f := range faults {
		if dealt[f.name] != 2 {
			t.Errorf("%s comes %d times in two decks", f.name, dealt[f.name])
		}
	}
}
