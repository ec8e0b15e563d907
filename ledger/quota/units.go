package quota

import (
	"errors"
	"math"
	"time"
)

// Units is an amount in a dimension's own unit (requests, tokens, bytes, cents).
// All arithmetic on units is integer arithmetic, and every sum that could leave the
// int64 range is checked.
type Units int64

// MaxUnits is the largest amount that can be represented. It is never a stand-in for
// "unlimited": that is a word of its own (see Limit).
const MaxUnits Units = math.MaxInt64

// MaxCost is the largest cost of one take: the largest whole number that every JSON reader
// keeps exact.
const MaxCost = 1<<53 - 1

// ErrOverflow reports a sum or product outside the int64 range.
var ErrOverflow = errors.New("amount leaves the int64 range")

// Add returns a+b, or ErrOverflow.
func (a Units) Add(b Units) (Units, error) {
	sum := a + b
	if (b > 0 && sum < a) || (b < 0 && sum > a) {
		return 0, ErrOverflow
	}
	return sum, nil
}

// Mul returns a*b, or ErrOverflow.
func (a Units) Mul(b Units) (Units, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	product := a * b
	if product/b != a || (a == -1 && b == math.MinInt64) || (b == -1 && a == math.MinInt64) {
		return 0, ErrOverflow
	}
	return product, nil
}

// Limit is a contractual amount, or no limit at all. The zero value is the limit 0, which
// denies everything.
type Limit struct {
	Units     Units // 0 or above; 0 when Unlimited
	Unlimited bool
}

// LimitOf returns a limit of n units.
func LimitOf(n Units) Limit { return Limit{Units: n} }

// NoLimit is the limit that is none.
var NoLimit = Limit{Unlimited: true}

// Rate is how fast units come back: Units per Per. The zero value is no rate.
type Rate struct {
	Units Units
	Per   time.Duration
}
