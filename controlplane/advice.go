package controlplane

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// advice says what an operator could change, one line each.
func (t BoundTerms) advice(b *pb.Bound) []string {
	if t.Kind == quota.Concurrency {
		return t.slotAdvice(b)
	}
	if t.Class == quota.Exact {
		return []string{"class exact: nothing is leased, nothing goes over; every take costs one round trip"}
	}
	if b.LeaseCap == 0 {
		return []string{t.noLeases("every take goes to the exact lane")}
	}
	var lines []string
	lasts := time.Duration(min(b.LeaseLastsUs, int64(maxDuration/time.Microsecond))) * time.Microsecond
	peak, known := t.peak()
	if known {
		if lasts < 2*t.RoundTrip {
			lines = append(lines, t.tooShort(peak))
		}
		// What a lease must hold at peak cannot be told from the average of a window.
		if lasts > t.TTL && t.TTL > 0 && t.Peak > 0 {
			lines = append(lines, t.smaller(b, peak)...)
		}
		if lasts < t.TTL/4 && lasts >= 2*t.RoundTrip {
			lines = append(lines, fmt.Sprintf("choose a shorter ttl: a lease is spent long before it ends, and what a crash or a cut leaves out lives for up to %s",
				Lasting(t.TTL)))
		}
		if perSecond := mulDiv(int64(peak.units), int64(time.Second), int64(peak.per)); perSecond <= cheapPeak && t.adds() {
			lines = append(lines, fmt.Sprintf("choose the exact lane if no overshoot at all is wanted: %s it costs at most %s a second",
				t.when(), countOf(perSecond+1, "round trip")))
		}
	}
	if t.Class == quota.BestEffort && t.Kind == quota.Period {
		lines = append(lines, "best_effort: the budget limits what is outstanding or uncertain at any grant; what late reports confirm counts against the limit, not against the budget")
	}
	return lines
}

// when says which demand a line speaks of.
func (t BoundTerms) when() string {
	if t.Peak > 0 {
		return "at peak"
	}
	return "on average"
}

// slotAdvice says what an operator of slots could change: they are held, not used up.
func (t BoundTerms) slotAdvice(b *pb.Bound) []string {
	var lines []string
	switch {
	case t.Class == quota.Exact:
		lines = append(lines, "class exact: no slot lies idle with an agent; every start costs one round trip")
	case b.LeaseCap == 0:
		lines = append(lines, t.noLeases("no slot is leased ahead and every start costs one round trip"))
	case t.Class == quota.BestEffort:
		lines = append(lines, "choose class bounded if a number is wanted: best_effort gives back what a lost agent may still run")
	case t.adds():
		lines = append(lines, "choose class hard if no more than the limit may ever run: what a lost agent may still run then stays charged")
	}
	return lines
}

// noLeases says why nothing is leased, and what follows.
func (t BoundTerms) noLeases(follows string) string {
	if !t.Limit.Unlimited && t.Limit.Units == 0 {
		return "the limit is 0: everything is denied"
	}
	share := "share"
	if t.Agents == 1 {
		share = "has"
	}
	return fmt.Sprintf("%s %s a budget of %s: L is 0 and %s; leases need a budget of at least %s",
		countOf(int64(t.Agents), "agent"), share, Grouped(limitNumber(t.Budget)), follows, Grouped(int64(t.Agents)))
}

// tooShort names the budget under which a lease lasts two round trips.
func (t BoundTerms) tooShort(peak rate) string {
	line := fmt.Sprintf("a lease lasts less than two round trips (2 x %s): callers will wait; ", Lasting(t.RoundTrip))
	needed := mulDiv(int64(peak.units), int64(2*t.RoundTrip), int64(peak.per)) + 1
	needed = mulDiv(needed+int64(t.Agents)-1, 1, int64(t.Agents)) // L, rounded up
	if t.LeaseMax > 0 && int64(t.LeaseMax) < needed {
		return line + fmt.Sprintf("raise lease.max to at least %s", Grouped(needed))
	}
	line += fmt.Sprintf("raise overshoot to at least %s", countOf(mulDiv(needed, int64(t.Agents), 1), "unit"))
	if t.Agents == 1 {
		return line
	}
	return line + ", or use fewer agents"
}

// smaller says which L covers the peak for one ttl, if the present one is larger than that.
func (t BoundTerms) smaller(b *pb.Bound, peak rate) []string {
	used := mulDiv(int64(peak.units), int64(t.TTL), int64(peak.per), int64(t.Agents))
	used = max(used, 1)
	if used >= b.LeaseCap {
		return nil
	}
	return []string{fmt.Sprintf("choose a smaller L: at peak an agent spends %s in one ttl of %s; lease.max: %d lowers what is at risk from %s to %s",
		countOf(used, "unit"), Lasting(t.TTL), used, Grouped(b.AtRisk), Grouped(mulDiv(used, int64(t.Agents), 1)))}
}

const maxDuration = time.Duration(1<<63 - 1)
