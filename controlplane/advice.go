package controlplane

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// advice says what an operator could change, one line each.
func (t BoundTerms) advice(b *pb.Bound) []string {
	if t.Class == quota.Exact {
		return []string{"class exact: nothing is leased, nothing goes over; every take costs one round trip"}
	}
	if b.LeaseCap == 0 {
		return []string{t.noLeases()}
	}
	var lines []string
	lasts := time.Duration(min(b.LeaseLastsUs, int64(maxDuration/time.Microsecond))) * time.Microsecond
	peak, known := t.peak()
	if known {
		if lasts < 2*t.RoundTrip {
			lines = append(lines, t.tooShort(b, peak, lasts))
		}
		if lasts > t.TTL && t.TTL > 0 {
			lines = append(lines, t.smaller(b, peak)...)
		}
		if lasts < t.TTL/4 && lasts >= 2*t.RoundTrip {
			lines = append(lines, fmt.Sprintf("choose a shorter ttl: at peak a lease is spent in %s, and what a crash or a cut leaves out lives for up to %s",
				round(lasts), t.TTL))
		}
		if perSecond := mulDiv(int64(peak.units), int64(time.Second), int64(peak.per)); perSecond <= cheapPeak && t.adds() {
			lines = append(lines, fmt.Sprintf("choose the exact lane if no overshoot at all is wanted: at peak it costs at most %d round trips a second", perSecond+1))
		}
	}
	if t.Class == quota.BestEffort {
		lines = append(lines, "best_effort: the budget limits what is outstanding or uncertain at any grant; what late reports confirm counts against the limit, not against the budget")
	}
	return lines
}

func (t BoundTerms) noLeases() string {
	if !t.Limit.Unlimited && t.Limit.Units == 0 {
		return "the limit is 0: everything is denied"
	}
	return fmt.Sprintf("%d agents share a budget of %s: L is 0 and every take goes to the exact lane; leases need a budget of at least %s",
		t.Agents, Grouped(limitNumber(t.Budget)), Grouped(int64(t.Agents)))
}

// tooShort names the budget under which a lease lasts two round trips.
func (t BoundTerms) tooShort(b *pb.Bound, peak rate, lasts time.Duration) string {
	line := fmt.Sprintf("a lease lasts %s at peak, less than two round trips of %s: callers will wait; ", round(lasts), t.RoundTrip)
	needed := mulDiv(int64(peak.units), int64(2*t.RoundTrip), int64(peak.per)) + 1
	needed = mulDiv(needed+int64(t.Agents)-1, 1, int64(t.Agents)) // L, rounded up
	if t.LeaseMax > 0 && int64(t.LeaseMax) < needed {
		return line + fmt.Sprintf("raise lease.max to at least %s", Grouped(needed))
	}
	return line + fmt.Sprintf("raise overshoot to at least %s units, or use fewer agents", Grouped(mulDiv(needed, int64(t.Agents), 1)))
}

// smaller says which L covers the peak for one ttl, if the present one is larger than that.
func (t BoundTerms) smaller(b *pb.Bound, peak rate) []string {
	used := mulDiv(int64(peak.units), int64(t.TTL), int64(peak.per), int64(t.Agents))
	used = max(used, 1)
	if used >= b.LeaseCap {
		return nil
	}
	return []string{fmt.Sprintf("choose a smaller L: at peak an agent spends %s units in one ttl of %s; lease.max: %d lowers what is at risk from %s to %s",
		Grouped(used), t.TTL, used, Grouped(b.AtRisk), Grouped(mulDiv(used, int64(t.Agents), 1)))}
}

// adds reports whether the class lets a window end above its limit.
func (t BoundTerms) adds() bool {
	return (t.Class == quota.Bounded || t.Class == quota.BestEffort) && (t.Budget.Unlimited || t.Budget.Units > 0)
}

const maxDuration = time.Duration(1<<63 - 1)

func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
