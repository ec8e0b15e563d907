package local

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestALimitCountsWhomItIsTold(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("l", "fixed_window", 2, time.Hour, by("address")))
	charge := func(charges []Charge, address string, cost int64) []Charge {
		t.Helper()
		charges, ok := s.Plan().Limit(charges, "acme", "l", &Caller{Address: address}, cost)
		if !ok {
			t.Fatal("there is no such limit")
		}
		return charges
	}
	two := charge(charge(charge(nil, "203.0.113.7", 1), "203.0.113.8", 2), "203.0.113.7", 1)
	if len(two) != 2 {
		t.Fatalf("%d charges, want one for each address", len(two))
	}
	maker := Caller{Address: "203.0.113.9"}
	if v, err := s.Take(0, &maker, two, forever); err != nil || v.Denied != nil || v.Answer.Left != 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err := s.Take(0, &maker, charge(charge(nil, "203.0.113.9", 1), "203.0.113.8", 1), forever); err != nil || v.Denied == nil || v.At != 1 {
		t.Errorf("denied at %d: %+v, %v", v.At, v, err)
	}
	if v, err := s.Take(0, &maker, s.Plan().Dimension(nil, d, 1, 1), forever); err != nil || v.Denied != nil || v.Answer.Left != 1 {
		t.Errorf("of who makes the request nothing was taken: %+v, %v", v, err)
	}
}

// Two addresses of one network are one customer, however they are written: of a request that has
// both, all goes back.
func TestR1_10WhatOneCountGaveTwiceGoesBack(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms[:5] {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			s := setOf(t, wire("l", string(algorithm), 5, 10*time.Second, by("address")))
			var charges []Charge
			for _, address := range []string{"2001:db8::1", "2001:db8::2", "2001:db8:0::2"} {
				charges, _ = s.Plan().Limit(charges, "acme", "l", &Caller{Address: address}, 1)
			}
			if v, err := s.Take(0, &Caller{}, charges, forever); err != nil || v.Denied != nil || v.Answer.Left != 2 {
				t.Fatalf("%+v, %v", v, err)
			}
			s.GiveBack(0, charges)
			if v, err := s.Look(0, &charges[0]); err != nil || v.Answer.Left != 5 {
				t.Errorf("%d of 5 are left", v.Answer.Left)
			}
		})
	}
}

func TestALookTakesNothing(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms[:5] {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			s := setOf(t, wire("l", string(algorithm), 2, 10*time.Second, by("actor")))
			look := func(now time.Duration, want quota.Units) {
				t.Helper()
				charges, _ := s.Plan().Limit(nil, "acme", "l", &Caller{Actor: "ann"}, 1)
				for range 3 {
					v, err := s.Look(now, &charges[0])
					if err != nil || v.Answer.Left != want || (v.Denied != nil) != (want == 0) || v.Denied != nil && v.Answer.RetryIn <= 0 {
						t.Fatalf("at %s %+v, %v, want %d left", now, v, err, want)
					}
				}
			}
			keys := s.Plan().byName["l"].units
			look(0, 2)
			if n := keys.count.Load(); n != 0 {
				t.Errorf("a look made %d keys", n)
			}
			take(t, s, 0, Caller{Actor: "ann"})
			look(0, 1)
			take(t, s, 0, Caller{Actor: "ann"})
			look(0, 0)
			look(time.Hour, 2)
		})
	}
	s := setOf(t, wire("l", "fixed_window", 2, time.Hour, by("actor")))
	charges, _ := s.Plan().Limit(nil, "acme", "l", nil, 1)
	if _, err := s.Look(0, &charges[0]); err == nil {
		t.Error("a look at nobody's count")
	}
}
