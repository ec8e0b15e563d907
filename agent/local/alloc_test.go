package local

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// manyOf is a limit that denies nobody who asks as often as a benchmark does.
func manyOf(name, algorithm string, key ...string) *pb.LocalLimit {
	return wire(name, algorithm, 1<<40, time.Second, by(key...))
}

// Not parallel: it counts what the whole process allocates.
func TestTakingAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget at random")
	}
	for _, a := range []string{"token_bucket", "fixed_window", "sliding_counter"} {
		s := setOf(t, manyOf("l", a, "route", "tenant", "actor", "api_key", "address"), manyOf("m", a))
		c := Caller{Route: "/v1/things", Actor: "ann", APIKey: "key-1", Address: "2001:db8::1"}
		takeOnce(t, s, 0, &c)
		if n := testing.AllocsPerRun(200, func() { takeOnce(t, s, time.Second, &c) }); n != 0 {
			t.Errorf("%s: %v allocations a take of two limits", a, n)
		}
	}
	// A log remembers, and allocates as it grows; then it goes round.
	s := setOf(t, wire("l", "sliding_log", 1000, time.Microsecond, func(m *pb.LocalLimit) { m.MaxKeys = 1 }))
	now := time.Duration(0)
	if n := testing.AllocsPerRun(2000, func() {
		takeOnce(t, s, now, &Caller{})
		now += 100
	}); n != 0 {
		t.Errorf("sliding_log: %v allocations a take", n)
	}
}

func takeOnce(t testing.TB, s *Set, now time.Duration, c *Caller) {
	var room [4]Charge
	if v, err := s.Take(now, c, s.Plan().Dimension(room[:0], d, 1, 1), 0); err != nil || v.Denied != nil {
		t.Fatal(v, err)
	}
}

func BenchmarkTake(b *testing.B) {
	for name, key := range map[string][]string{"one key": nil, "by tenant": {"tenant"}, "by address": {"address"}} {
		for _, a := range []string{"token_bucket", "fixed_window", "sliding_counter"} {
			b.Run(name+"/"+a, func(b *testing.B) {
				s := setOf(b, manyOf("l", a, key...))
				c := Caller{Address: "192.0.2.1"}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					takeOnce(b, s, time.Duration(i), &c)
				}
			})
		}
	}
}

// BenchmarkTakeInParallel is of as many takers as there are processors, of one key and of many.
func BenchmarkTakeInParallel(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			limit := manyOf("l", "token_bucket", "actor")
			limit.MaxKeys = 100_000
			s := setOf(b, limit)
			callers := make([]Caller, keys)
			for i := range callers {
				callers[i].Actor = fmt.Sprint("actor-", i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					takeOnce(b, s, 0, &callers[i%keys])
				}
			})
		})
	}
}

// BenchmarkNewcomer is a take of a key that the table does not have, with the table full of idle ones.
func BenchmarkNewcomer(b *testing.B) {
	limit := manyOf("l", "token_bucket", "actor")
	limit.MaxKeys = 1000
	s := setOf(b, limit)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		takeOnce(b, s, time.Duration(i)*time.Second, &Caller{Actor: fmt.Sprint(i)})
	}
}
