package clockwork

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQueueKeepsTheOrderOfTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(t, "times")
		var q Queue[int]
		want := make([]int, len(times))
		for i, at := range times {
			q.Push(time.Duration(at), i)
			want[i] = i
		}
		slices.SortStableFunc(want, func(x, y int) int { return times[x] - times[y] })
		for _, i := range want {
			if at, ok := q.Next(); !ok || at != time.Duration(times[i]) {
				t.Fatalf("the next is due at %d (%v), want %d", at, ok, times[i])
			}
			if first := q.First(); first != i {
				t.Fatalf("first is event %d, want %d of %v", first, i, times)
			}
			if got := q.Pop(); got != i {
				t.Fatalf("got event %d, want %d of %v", got, i, times)
			}
		}
		if _, ok := q.Next(); ok || q.Len() != 0 {
			t.Fatal("the queue is not empty")
		}
	})
}

func TestMovingTheFirstIsTakingItOutAndPlanningItAnew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var moved, popped Queue[int]
		for i, at := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(t, "times") {
			moved.Push(time.Duration(at), i)
			popped.Push(time.Duration(at), i)
		}
		for _, later := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 40).Draw(t, "later") {
			at, _ := moved.Next()
			moved.Move(at + time.Duration(later))
			popped.Push(at+time.Duration(later), popped.Pop())
		}
		for popped.Len() > 0 {
			if x, y := moved.Pop(), popped.Pop(); x != y {
				t.Fatalf("moved has %d, taken out and planned anew %d", x, y)
			}
		}
	})
}

func TestStreamsAreDecidedByTheirNumbers(t *testing.T) {
	t.Parallel()
	read := func(s *Stream) []byte {
		b := make([]byte, 32)
		if n, err := s.Read(b); n != len(b) || err != nil {
			t.Fatalf("read %d bytes: %v", n, err)
		}
		return b
	}
	one := NewStream(1, 2)
	first := read(one)
	if !bytes.Equal(first, read(NewStream(1, 2))) {
		t.Error("the same numbers make two streams")
	}
	if bytes.Equal(first, read(NewStream(2, 1))) {
		t.Error("other numbers make the same stream")
	}
	one.Reseed(1, 2)
	if !bytes.Equal(first, read(one)) {
		t.Error("a stream that is reseeded goes on as it was")
	}
}
