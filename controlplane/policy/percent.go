package policy

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Percent is an exact share, counted in millionths of a percent.
type Percent int64

const (
	onePercent    Percent = 1_000_000
	wholePercent          = 100 * onePercent
	percentDigits         = 6 // decimals that Percent can hold
)

// PercentAllowed says what ParsePercent takes.
const PercentAllowed = "0% to 100%, with at most 6 decimals"

// Of returns the share of n, rounded down. The product is 128 bits wide, so no amount is
// too large; n must not be negative.
func (p Percent) Of(n quota.Units) quota.Units {
	hi, lo := bits.Mul64(uint64(n), uint64(p))
	share, _ := bits.Div64(hi, lo, uint64(wholePercent))
	return quota.Units(share)
}

// String returns the shortest form, e.g. 0.5%.
func (p Percent) String() string {
	whole := strconv.FormatInt(int64(p/onePercent), 10)
	part := int64(p % onePercent)
	if part == 0 {
		return whole + "%"
	}
	digits := strconv.FormatInt(int64(onePercent)+part, 10)[1:] // keeps the leading zeros
	return whole + "." + strings.TrimRight(digits, "0") + "%"
}

// ParsePercent reads a share as policy files write it.
func ParsePercent(s string) (Percent, error) {
	p, ok := parsePercent(s)
	if !ok {
		return 0, &quota.FieldError{Field: "percentage", Allowed: PercentAllowed}
	}
	return p, nil
}

// parsePercent reads decimal digits and a % sign; it never touches a float.
func parsePercent(s string) (Percent, bool) {
	number, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	whole, part, dotted := strings.Cut(number, ".")
	if !isDigits(whole) || len(whole) > 3 || (dotted && !isDigits(part)) || len(part) > percentDigits {
		return 0, false
	}
	digits := whole + part + strings.Repeat("0", percentDigits-len(part))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || Percent(n) > wholePercent {
		return 0, false
	}
	return Percent(n), true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
