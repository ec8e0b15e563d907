package controlplane

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// DefaultRoundTrip is the time from an ask to its answer that a bound assumes when it warns
// of leases too small to last.
const DefaultRoundTrip = policy.RoundTrip

// cheapPeak is a demand, in takes a second, that the exact lane serves without strain.
const cheapPeak = 50

// BoundTerms is what the overshoot arithmetic of one dimension starts from.
type BoundTerms struct {
	Dimension string
	Tenant    string // empty: the dimension's default limit
	Class     quota.Class
	Limit     quota.Limit
	Budget    quota.Limit
	LeaseMax  quota.Units // 0: none
	TTL       time.Duration
	Window    time.Duration // over which the limit is spread when there is no peak; 0: endless
	Agents    int
	Peak      quota.Units // units a second of all agents together; 0: the limit over its window
	RoundTrip time.Duration
	Outage    policy.Outage
	Cold      policy.Cold
	Released  quota.Units // held units that operators gave back in the tenant's current window
}

// TermsOf reads from a policy what the bound of a dimension starts from: the limit that a
// tenant has at now, or without a tenant the dimension's own. Agents and Peak are the caller's.
func TermsOf(s *policy.Snapshot, dim *policy.Dimension, tenant string, now time.Time) (BoundTerms, error) {
	window := dim.Period.WindowAt(now)
	t := BoundTerms{Dimension: dim.Name, Tenant: tenant, Class: dim.Class, Limit: dim.Limit,
		Budget: dim.Overshoot.Of(dim.Limit), LeaseMax: dim.Lease.Max, TTL: dim.Lease.TTL,
		Window: window.End.Sub(window.Start), Outage: dim.Outage, Cold: dim.Cold}
	if window.Endless() {
		t.Window = 0
	}
	if tenant != "" {
		terms, _, err := s.Resolve(quota.Key{Tenant: tenant, Dimension: dim.Name}, dim.Moment(now))
		if err != nil {
			return BoundTerms{}, err
		}
		t.Limit, t.Budget = terms.Limit, terms.Budget
	}
	return t, nil
}

// rate is units per time, exact.
type rate struct {
	units quota.Units
	per   time.Duration
}

func (t BoundTerms) peak() (rate, bool) {
	switch {
	case t.Peak > 0:
		return rate{t.Peak, time.Second}, true
	case !t.Limit.Unlimited && t.Limit.Units > 0 && t.Window > 0:
		return rate{t.Limit.Units, t.Window}, true
	}
	return rate{}, false
}

// ComputeBound states what a dimension can end a window with, and what its leases cost.
//
// What the class adds to the limit (DESIGN 3.3, 3.4): exact and hard add nothing, because
// every unit that is out stays charged. bounded adds its budget B: that much unconfirmed use
// may be given back to the pool. best_effort adds B too, as what is outstanding or uncertain
// at any grant. Use without a lease comes on top where policy allows it: Beyond names it.
func ComputeBound(t BoundTerms) *pb.Bound {
	t.Agents = max(t.Agents, 1)
	if t.RoundTrip <= 0 {
		t.RoundTrip = DefaultRoundTrip
	}
	l := keyCap(ledger.Terms{Class: t.Class, Limit: t.Limit}, LeaseCap(t.Budget, t.Agents), t.LeaseMax)
	b := &pb.Bound{
		Dimension: t.Dimension, Tenant: t.Tenant, Class: t.Class.String(),
		Limit: limitNumber(t.Limit), Budget: limitNumber(t.Budget),
		Agents: int32(min(t.Agents, maxAgents)), LeaseCap: int64(l), TtlUs: t.TTL.Microseconds(),
		PeakPerSecond: int64(t.Peak), Beyond: t.beyond(),
	}
	b.AtRisk = mulDiv(int64(l), int64(t.Agents), 1)
	b.Most, b.Over = t.most()
	if peak, ok := t.peak(); ok && l > 0 {
		// One agent spends an N-th of the peak: L lasts L x N / peak, and a fetch comes with
		// every L units.
		b.LeaseLastsUs = mulDiv(b.AtRisk, int64(peak.per), int64(peak.units), int64(time.Microsecond))
		b.FetchesPerSecondMilli = mulDiv(int64(peak.units), 1000*int64(time.Second), int64(l), int64(peak.per))
	}
	b.Advice = t.advice(b)
	return b
}

// maxAgents keeps N within the message's field.
const maxAgents = 1<<31 - 1

// most is the limit with what the class adds, and the addition in percent of the limit.
func (t BoundTerms) most() (int64, string) {
	if t.Limit.Unlimited {
		return unlimited, "0 %"
	}
	added := quota.LimitOf(0)
	if t.Class == quota.Bounded || t.Class == quota.BestEffort {
		added = t.Budget
	}
	if added.Unlimited {
		return unlimited, "without limit"
	}
	return addUp(t.Limit.Units, added.Units), percentOf(added.Units, t.Limit.Units)
}

// beyond names the use that policy lets pass without a lease, and what operators gave back:
// no budget holds either.
func (t BoundTerms) beyond() []string {
	var lines []string
	if t.Outage.Open {
		lines = append(lines, fmt.Sprintf("plus whatever outage mode open lets pass, without a limit, for up to %s of each outage", Lasting(t.Outage.For)))
	}
	if t.Cold.Debt {
		lines = append(lines, fmt.Sprintf("plus %s at each start of an agent (cold: debt)", countOf(int64(t.Cold.Units), "unit")))
	}
	if t.Released > 0 {
		lines = append(lines, fmt.Sprintf("plus %s that an operator released of what was held", countOf(int64(t.Released), "unit")))
	}
	return lines
}

// BoundLine says a bound in a few words, e.g. "up to 136,000 (13.3 % over)".
func BoundLine(b *pb.Bound) string {
	if b.Most == unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("up to %s (%s over)", Grouped(b.Most), b.Over)
}

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
