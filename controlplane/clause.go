package controlplane

import (
	"fmt"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// clause is the paragraph that a contract with the tenant can quote (R2.17): what passes at most,
// and what that number takes for granted. The number of agents is no part of it: the budget holds
// whatever that is. Its wording is compared by contracts and changes only with its meaning.
func (t BoundTerms) clause(b *pb.Bound) string {
	sentences := t.clauseLimit(b)
	if !t.inForce().Unlimited {
		sentences = append(sentences, t.clauseMost(b)...)
		sentences = append(sentences, t.clauseBeyond(b)...)
		sentences = append(sentences, t.clauseLost()...)
		sentences = append(sentences, t.clauseCut()...)
		sentences = append(sentences, t.clauseGranted()...)
	}
	return "**" + markdown(t.Dimension) + ".** " + strings.Join(sentences, " ")
}

// units is an amount with the dimension's word for it.
func (t BoundTerms) units(n int64) string {
	if t.Unit == "" {
		return countOf(n, "unit")
	}
	return Grouped(n) + " " + markdown(t.Unit)
}

func (t BoundTerms) clauseLimit(b *pb.Bound) []string {
	who := markdown(t.Tenant)
	if t.inForce().Unlimited {
		return []string{"The use of " + who + " is counted and has no limit."}
	}
	switch t.Kind {
	case quota.RateLimit:
		return []string{fmt.Sprintf("The limit of %s is %s, of which a burst of %s may come at once.", who, t.rateWords(), t.units(b.Limit))}
	case quota.Concurrency:
		return []string{fmt.Sprintf("The limit of %s is %s at the same time.", who, t.units(b.Limit))}
	}
	if t.Credit > 0 {
		return []string{fmt.Sprintf("The limit of %s is %s in each %s; with credits of %s it is %s in the present one.",
			who, t.units(int64(t.Limit.Units)), calendarWords(t.Calendar), Grouped(int64(t.Credit)), Grouped(b.Limit))}
	}
	return []string{fmt.Sprintf("The limit of %s is %s in each %s.", who, t.units(b.Limit), calendarWords(t.Calendar))}
}

// clauseMost is what passes at most, in the words of each kind.
func (t BoundTerms) clauseMost(b *pb.Bound) []string {
	over := "which is the limit itself"
	if t.adds() {
		over = fmt.Sprintf("which is %s (%s) above the limit", Grouped(b.Budget), b.Over)
	}
	switch {
	case t.boundless():
		return []string{"Work that goes on after contact with the place where it runs was lost is not counted: there is no number for how far that can pass the limit."}
	case t.Kind == quota.RateLimit:
		if !t.adds() {
			return []string{"In no interval of time is more let pass than that burst and what the rate gives in its length; use counts at the moment at which it is decided on."}
		}
		return []string{fmt.Sprintf("In no interval of time is more let pass than that burst, what the rate gives in its length, and %s beside; use counts at the moment at which it is decided on.", Grouped(b.Budget))}
	case t.Kind == quota.Concurrency:
		return []string{fmt.Sprintf("At no time do more than %s run, %s, as long as no run takes longer than %s; a longer one is counted on top.",
			Grouped(b.Most), over, Lasting(t.MaxHold))}
	}
	return []string{fmt.Sprintf("No more than %s are let pass in one such %s, %s, whatever the number of places where they are counted.",
		Grouped(b.Most), t.Calendar.Every(), over)}
}

// settlesAbove reports that a reservation may be settled with more than its estimate. It was used
// before anybody knew of it, so that no limit holds it back: hard and exact take maxima alone.
func (t BoundTerms) settlesAbove() bool {
	return t.Kind != quota.Concurrency && (t.Class == quota.Bounded || t.Class == quota.BestEffort)
}

// clauseBeyond is what policy, operators and estimates let pass outside of that.
func (t BoundTerms) clauseBeyond(b *pb.Bound) []string {
	var all []string
	switch {
	case t.Outage.Extend:
		all = append(all, fmt.Sprintf("While the service's control plane cannot be reached, at most %s more are let pass in all such outages of one %s together, %s with them.",
			Grouped(b.Emergency), t.Calendar.Every(), Grouped(addUp(quota.Units(b.Most), quota.Units(b.Emergency)))))
	case t.Outage.Open:
		all = append(all, fmt.Sprintf("While the service's control plane cannot be reached, use is let pass and counted afterwards for up to %s of each outage: there is no number for that, and it is on top.",
			Lasting(t.Outage.For)))
	}
	for _, o := range t.Opened {
		all = append(all, fmt.Sprintf("While the service's control plane cannot be reached, the operation %s is let pass and counted afterwards for up to %s of each outage: there is no number for that, and it is on top.",
			markdown(o.Operation), Lasting(o.For)))
	}
	if t.Cold.Debt {
		all = append(all, fmt.Sprintf("At each start of a place where use is counted, up to %s may pass before it is counted, on top.", Grouped(int64(t.Cold.Units))))
	}
	if t.settlesAbove() {
		all = append(all, "Of a cost that was estimated before it was known, what turns out to be more than the estimate is counted afterwards, on top.")
	}
	if t.Released > 0 {
		all = append(all, fmt.Sprintf("By decision of an operator %s that may have been used were given back, on top.", Grouped(int64(t.Released))))
	}
	return all
}

// clauseLost is what the tenant may miss when an agent dies.
func (t BoundTerms) clauseLost() []string {
	most := t.atMost()
	switch {
	case t.Kind == quota.Concurrency && t.Class == quota.BestEffort:
	case t.Kind == quota.Concurrency:
		return []string{fmt.Sprintf("What a place that fails had in use or in hand counts against the limit for at most %s more.", Lasting(t.Longest+t.Grace+t.MaxHold))}
	case t.Class == quota.Exact:
	case t.Kind == quota.RateLimit:
		return []string{fmt.Sprintf("What places that fail had in hand%s counts as passed.", most)}
	case t.Class == quota.Hard || t.Class == quota.Bounded:
		return []string{fmt.Sprintf("What places that fail had in hand at that moment%s counts against the limit until it is known to be unused; it is not billed.", most)}
	}
	return nil
}

// atMost is the budget as an insertion.
func (t BoundTerms) atMost() string {
	if t.Budget.Unlimited {
		return ""
	}
	return fmt.Sprintf(", at most %s,", Grouped(int64(t.Budget.Units)))
}

// clauseCut is what a lower limit cannot take back at once.
func (t BoundTerms) clauseCut() []string {
	if t.Class == quota.Exact {
		return nil
	}
	cut := fmt.Sprintf("When the limit is lowered or ended, what was in hand at that moment%s may still be used for up to %s.", t.atMost(), Lasting(t.Longest))
	if t.Kind == quota.Concurrency {
		cut += " Work that runs is not cut."
	}
	if t.Outage.Extend {
		cut += " What was set aside for outages may be used up to the end of its " + string(t.Calendar.Every()) + "."
	}
	return []string{cut}
}

// clauseGranted is what the numbers rest on.
func (t BoundTerms) clauseGranted() []string {
	return []string{"These numbers take for granted that the service's database keeps what it has acknowledged, also when it fails over, for which it needs a synchronous standby; " +
		"that the clocks of the machines concerned drift apart by at most 500 parts in a million; " +
		"and that none of these machines is copied while it runs."}
}

// rateWords is a rate in words: 10 requests in 1 s.
func (t BoundTerms) rateWords() string {
	return fmt.Sprintf("%s in %s", t.units(int64(t.Rate.Units)), Lasting(t.Rate.Per))
}

// calendarWords is a period in words: calendar month of the time zone Asia/Seoul.
func calendarWords(c quota.Calendar) string {
	s := "calendar " + string(c.Every())
	if zone := c.Timezone(); zone != "" {
		s += " of the time zone " + strings.ReplaceAll(zone, "_", `\_`)
	}
	switch {
	case c.Every() == quota.EveryWeek && c.AnchorDay() > 1:
		s += fmt.Sprintf(", beginning on day %d of the week", c.AnchorDay())
	case c.Every() == quota.EveryMonth && c.AnchorDay() > 1:
		s += fmt.Sprintf(", beginning on day %d or the last day of a shorter month", c.AnchorDay())
	}
	if at := c.AnchorTime(); at != "" && at != "00:00" {
		s += ", at " + at
	}
	return s
}

// markdown makes a name stand for itself in markdown: no markup, link, image, HTML, list or line
// break comes of it, wherever it stands.
func markdown(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strings.ContainsRune("\\`*_{}[]<>|~&!:@$^=.", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
