package controlplane

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// percentOf rounds half up to one decimal and leaves out a zero decimal.
func percentOf(part, whole quota.Units) string {
	if part == 0 {
		return "0 %"
	}
	if whole == 0 {
		return "without limit"
	}
	tenths := new(big.Int).Mul(big.NewInt(int64(part)), big.NewInt(2000))
	tenths.Add(tenths, big.NewInt(int64(whole)))
	tenths.Quo(tenths, new(big.Int).Mul(big.NewInt(2), big.NewInt(int64(whole))))
	one, rest := new(big.Int).QuoRem(tenths, big.NewInt(10), new(big.Int))
	if rest.Sign() == 0 {
		if one.Sign() == 0 {
			return "below 0.1 %"
		}
		return one.String() + " %"
	}
	return one.String() + "." + rest.String() + " %"
}

// Grouped writes a number with commas between thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// countOf writes an amount and what it is of.
func countOf(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Grouped(n) + " " + thing + "s"
}

// Lasting writes a duration as people read it: 48 ms, 0.6 s, 30 s, 1m30s, 24h.
func Lasting(d time.Duration) string {
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return "below 1 ms"
	case d < 100*time.Millisecond:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	s := d.Truncate(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// mulDiv is a x b / (the product of the divisors), rounded down and held at the int64 range.
func mulDiv(a, b int64, by ...int64) int64 {
	product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	for _, d := range by {
		product.Quo(product, big.NewInt(d))
	}
	if !product.IsInt64() {
		return int64(quota.MaxUnits)
	}
	return product.Int64()
}

// addUp sums amounts of 0 or more and stops at the int64 range.
func addUp(amounts ...quota.Units) int64 {
	var sum quota.Units
	for _, n := range amounts {
		next, err := sum.Add(n)
		if err != nil {
			return int64(quota.MaxUnits)
		}
		sum = next
	}
	return int64(sum)
}

// unlimited stands for no limit on the wire.
const unlimited = -1

func limitNumber(l quota.Limit) int64 {
	if l.Unlimited {
		return unlimited
	}
	return int64(l.Units)
}
