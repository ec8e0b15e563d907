package quota_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestUnitsSumsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		got      func() (quota.Units, error)
		want     quota.Units
		overflow bool
	}{
		{"2 + 3", func() (quota.Units, error) { return quota.Units(2).Add(3) }, 5, false},
		{"2 + -3", func() (quota.Units, error) { return quota.Units(2).Add(-3) }, -1, false},
		{"max + 0", func() (quota.Units, error) { return quota.MaxUnits.Add(0) }, quota.MaxUnits, false},
		{"max + 1", func() (quota.Units, error) { return quota.MaxUnits.Add(1) }, 0, true},
		{"min + -1", func() (quota.Units, error) { return quota.Units(math.MinInt64).Add(-1) }, 0, true},
		{"0 * min", func() (quota.Units, error) { return quota.Units(0).Mul(math.MinInt64) }, 0, false},
		{"2^31 * 2^31", func() (quota.Units, error) { return quota.Units(1 << 31).Mul(1 << 31) }, 1 << 62, false},
		{"2^32 * 2^31", func() (quota.Units, error) { return quota.Units(1 << 32).Mul(1 << 31) }, 0, true},
		{"min * -1", func() (quota.Units, error) { return quota.Units(math.MinInt64).Mul(-1) }, 0, true},
		{"-1 * min", func() (quota.Units, error) { return quota.Units(-1).Mul(math.MinInt64) }, 0, true},
		{"1e12 a day for 31 days", func() (quota.Units, error) { return quota.Units(1e12).Mul(31) }, 31e12, false},
	} {
		got, err := tc.got()
		if got != tc.want || errors.Is(err, quota.ErrOverflow) != tc.overflow || (err != nil) != tc.overflow {
			t.Errorf("%s: %d and %v, want %d, overflow %t", tc.name, got, err, tc.want, tc.overflow)
		}
	}

	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		sum, sumErr := quota.Units(a).Add(quota.Units(b))
		checkExact(t, "sum", sum, sumErr, new(big.Int).Add(big.NewInt(a), big.NewInt(b)))
		product, productErr := quota.Units(a).Mul(quota.Units(b))
		checkExact(t, "product", product, productErr, new(big.Int).Mul(big.NewInt(a), big.NewInt(b)))
	})
}

func checkExact(t *rapid.T, what string, got quota.Units, err error, want *big.Int) {
	if !want.IsInt64() {
		if !errors.Is(err, quota.ErrOverflow) {
			t.Fatalf("%s %v outside int64 gave %d, %v", what, want, got, err)
		}
		return
	}
	if err != nil || int64(got) != want.Int64() {
		t.Fatalf("%s: %d, %v, want %v", what, got, err, want)
	}
}

func TestUnlimitedIsAWordAndZeroIsZero(t *testing.T) {
	t.Parallel()
	if zero := (quota.Limit{}); zero != quota.LimitOf(0) || zero == quota.NoLimit {
		t.Errorf("the zero limit %+v is not the limit 0", zero)
	}
	if quota.LimitOf(quota.MaxUnits) == quota.NoLimit {
		t.Error("the largest amount reads as unlimited")
	}
}
