package policy

import (
	"math/big"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"pgregory.net/rapid"
)

func TestPercentIsExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		share string
		of    quota.Units
		want  quota.Units
	}{
		{"0.5%", 50_000, 250},
		{"1%", 120_000, 1_200},
		{"0.1%", 1_000, 1},   // 0.1 is no binary fraction
		{"0.1%", 999, 0},     // rounded down
		{"33.333333%", 3, 0}, // a hair under one
		{"29%", 100, 29},     // 0.29 * 100 is 28.999... in floats
		{"100%", 7, 7},       //
		{"0%", quota.MaxUnits, 0},
		{"100%", quota.MaxUnits, quota.MaxUnits},
		{"0.000001%", 100_000_000, 1},
	} {
		p, ok := parsePercent(tc.share)
		if !ok {
			t.Fatalf("%s is refused", tc.share)
		}
		if got := p.Of(tc.of); got != tc.want {
			t.Errorf("%s of %d is %d, want %d", tc.share, tc.of, got, tc.want)
		}
	}
}

func TestPercentRefusesOtherWords(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "%", "1", ".5%", "5.%", "-1%", "+1%", "1e1%", "100.000001%", "101%", "0.0000001%", "1 %", "1%%", "0x1%", "1.2.3%", "99999999999999999999%"} {
		if p, ok := parsePercent(s); ok {
			t.Errorf("%q was read as %s", s, p)
		}
	}
}

func TestPercentAgreesWithBigIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Percent(rapid.Int64Range(0, int64(wholePercent)).Draw(t, "share"))
		n := rapid.Int64Range(0, int64(quota.MaxUnits)).Draw(t, "amount")
		want := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(p)))
		want.Quo(want, big.NewInt(int64(wholePercent)))
		if got := p.Of(quota.Units(n)); int64(got) != want.Int64() {
			t.Fatalf("%s of %d is %d, want %s", p, n, got, want)
		}
		if again, ok := parsePercent(p.String()); !ok || again != p {
			t.Fatalf("%s is read back as %s", p, again)
		}
	})
}

func TestBudgetUnderALimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		overshoot Overshoot
		limit     quota.Limit
		want      quota.Limit
	}{
		{"share", Overshoot{Share: onePercent / 2}, quota.LimitOf(50_000), quota.LimitOf(250)},
		{"share of no limit", Overshoot{Share: onePercent}, quota.NoLimit, quota.NoLimit},
		{"nothing of no limit", Overshoot{}, quota.NoLimit, quota.LimitOf(0)},
		{"amount", Overshoot{Absolute: true, Units: 250}, quota.LimitOf(1000), quota.LimitOf(250)},
		{"amount above a plan's limit", Overshoot{Absolute: true, Units: 250}, quota.LimitOf(100), quota.LimitOf(100)},
		{"amount without a limit", Overshoot{Absolute: true, Units: 250}, quota.NoLimit, quota.LimitOf(250)},
	} {
		if got := tc.overshoot.Of(tc.limit); got != tc.want {
			t.Errorf("%s: budget %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestShortDurationsReadBack(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", time.Minute: "1m",
		30 * time.Second: "30s", 100 * time.Second: "1m40s", 0: "0s", time.Hour + 10*time.Second: "1h0m10s",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
		if back, err := time.ParseDuration(short(d)); err != nil || back != d {
			t.Errorf("%s is read as %v, %v", short(d), back, err)
		}
	}
}
