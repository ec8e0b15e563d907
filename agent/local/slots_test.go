package local

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func newPlace(cost quota.Units, bytes int64, woken *[]*place) *place {
	p := &place{cost: cost, bytes: bytes}
	p.wake = func() { *woken = append(*woken, p) }
	return p
}

// The queue is bounded three ways, and what is refused says by which.
func TestR1_11TheQueueIsBoundedByCountBytesAndAge(t *testing.T) {
	t.Parallel()
	var woken []*place
	s := &slots{limit: 2, bounds: Queue{Count: 2, Bytes: 1000, Age: time.Second}}
	enter := func(now time.Duration, cost quota.Units, bytes int64, patience time.Duration) *place {
		p := newPlace(cost, bytes, &woken)
		s.enter(now, p, patience)
		return p
	}
	first := enter(0, 2, 0, 0)
	if first.state != running {
		t.Fatal("there are two slots")
	}
	for name, tc := range map[string]struct {
		p    *place
		want Outcome
	}{
		"more than there are": {enter(0, 3, 0, forever), TooLarge},
		"does not wait":       {enter(0, 1, 0, 0), NoPermit},
		"too many bytes":      {enter(0, 1, 1001, forever), QueueBytes},
	} {
		if tc.p.state != over || tc.p.why != tc.want {
			t.Errorf("%s: %v %s, want %s", name, tc.p.state, tc.p.why, tc.want)
		}
	}
	short, long := enter(0, 1, 600, 300*ms), enter(0, 1, 400, forever)
	if p := enter(0, 1, 0, forever); p.why != QueueFull {
		t.Errorf("a third in a queue of two: %s", p.why)
	}
	if short.until != 300*ms || long.until != time.Second {
		t.Errorf("they wait until %v and %v, want the deadline and the age", short.until, long.until)
	}
	s.leave(400*ms, first)
	if short.state != over || short.why != NoPermit || long.state != running || len(woken) != 2 {
		t.Errorf("at 400 ms: %v %s, and %v; %d were woken", short.state, short.why, long.state, len(woken))
	}
	if s.inUse != 1 || s.bytes != 0 || s.left() != 1 {
		t.Errorf("%d in use, %d bytes wait", s.inUse, s.bytes)
	}
	s.leave(500*ms, first)
	if s.leave(500*ms, long); !s.rest(0) {
		t.Errorf("all have left, the first of them twice: %+v", s)
	}
}

func TestNobodyIsServedBeforeWhoCameEarlier(t *testing.T) {
	t.Parallel()
	var woken []*place
	s := &slots{limit: 2, bounds: Queue{Count: 10, Age: time.Minute}}
	work, big, small := newPlace(1, 0, &woken), newPlace(2, 0, &woken), newPlace(1, 0, &woken)
	for _, p := range []*place{work, big, small} {
		s.enter(0, p, forever)
	}
	if small.state != queued {
		t.Error("one slot is free, and a larger one waits for two")
	}
	if s.leave(0, work); big.state != running || small.state != queued {
		t.Errorf("both slots are free: %v, %v", big.state, small.state)
	}
	if s.leave(0, big); !slices.Equal(woken, []*place{big, small}) {
		t.Errorf("served out of turn: %v", woken)
	}
}

// A limit that is raised serves who waits, and one that is cut ends no work.
func TestSlotsFollowTheirLimit(t *testing.T) {
	t.Parallel()
	var woken []*place
	l := &Limit{Algorithm: Concurrency, Capacity: 1, Queue: Queue{Count: 10, Age: time.Minute}}
	s := &slots{limit: 1, bounds: l.Queue}
	a, b, c := newPlace(1, 0, &woken), newPlace(1, 0, &woken), newPlace(1, 0, &woken)
	for _, p := range []*place{a, b, c} {
		s.enter(0, p, forever)
	}
	l.Capacity = 2
	if s.reconfigure(0, l); b.state != running || c.state != queued {
		t.Errorf("raised to two: %v, %v", b.state, c.state)
	}
	l.Capacity = 0
	if s.reconfigure(0, l); a.state != running || b.state != running || c.why != TooLarge {
		t.Errorf("cut to none: %v, %v, %s", a.state, b.state, c.why)
	}
}

// Whatever comes, goes, gives up and is cut short: no slot is given twice or lost, the queue stays
// within its bounds, and who is served came before all who still wait.
func TestSlotsAreNeitherLostNorGivenTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var woken, all []*place
		l := &Limit{Algorithm: Concurrency, Capacity: quota.Units(rapid.Int64Range(0, 5).Draw(t, "slots")),
			Queue: Queue{Count: rapid.Int64Range(0, 4).Draw(t, "count"), Bytes: rapid.Int64Range(0, 10).Draw(t, "bytes"), Age: 10}}
		s := &slots{limit: l.Capacity, bounds: l.Queue}
		var now time.Duration
		most := s.limit // the highest that the limit was since something ran
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, 4).Draw(t, "go"))
			switch rapid.SampledFrom([]string{"enter", "enter", "leave", "limit"}).Draw(t, "what") {
			case "enter":
				p := newPlace(quota.Units(rapid.Int64Range(1, 3).Draw(t, "cost")), rapid.Int64Range(0, 6).Draw(t, "size"), &woken)
				all = append(all, p)
				s.enter(now, p, time.Duration(rapid.Int64Range(0, 12).Draw(t, "patience")))
			case "leave":
				if len(all) > 0 {
					s.leave(now, rapid.SampledFrom(all).Draw(t, "who"))
				}
			case "limit":
				l.Capacity = quota.Units(rapid.Int64Range(0, 5).Draw(t, "limit"))
				s.reconfigure(now, l)
			}
			if s.inUse == 0 {
				most = 0
			}
			most = max(most, s.limit)
			if fault := s.fault(all, most); fault != "" {
				t.Fatal(fault)
			}
		}
		for _, p := range all {
			s.leave(now, p)
		}
		if !s.rest(now) || s.bytes != 0 {
			t.Fatalf("all have left: %+v", s)
		}
		if n := len(slices.Compact(slices.Clone(woken))); n != len(woken) {
			t.Fatal("one was woken twice")
		}
	})
}

func (s *slots) fault(all []*place, most quota.Units) string {
	var inUse quota.Units
	var waiting, bytes int64
	for _, p := range all {
		switch p.state {
		case running:
			inUse += p.cost
		case queued:
			waiting++
			bytes += p.bytes
		}
	}
	switch b := s.bounds; {
	case inUse != s.inUse || inUse > most:
		return fmt.Sprintf("%d run, %d are counted, the limit was at most %d", inUse, s.inUse, most)
	case waiting != int64(len(s.queue)) || waiting > b.Count:
		return fmt.Sprintf("%d wait, %d are in line", waiting, len(s.queue))
	case bytes != s.bytes || b.Bytes > 0 && bytes > b.Bytes:
		return fmt.Sprintf("%d bytes wait, %d are counted", bytes, s.bytes)
	case waiting > 0 && s.queue[0].cost <= s.limit-s.inUse:
		return "the first in line fits, and waits"
	}
	return ""
}
