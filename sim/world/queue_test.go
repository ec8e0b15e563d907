package world

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEventsComeInTheOrderOfTheirTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 50).Draw(t, "times")
		var q queue
		var got [][2]int
		for i, at := range times {
			q.push(time.Duration(at), func() { got = append(got, [2]int{at, i}) })
		}
		for {
			at, ok := q.next()
			if !ok {
				break
			}
			e := q.pop()
			if e.at != at {
				t.Fatalf("the next event was to be at %d and is at %d", at, e.at)
			}
			e.do()
		}
		if len(got) != len(times) {
			t.Fatalf("%d of %d events happened", len(got), len(times))
		}
		for i := 1; i < len(got); i++ {
			x, y := got[i-1], got[i]
			if x[0] > y[0] || x[0] == y[0] && x[1] > y[1] {
				t.Fatalf("%v happened before %v", x, y)
			}
		}
	})
}
