package bench

import (
	"fmt"
	"slices"
)

// flat is how much the ledger's load may grow while decisions grow a hundredfold.
var flat = Reach{Most: 1.2}

// grown is a number of what grows at its largest, beside the same at its smallest.
func grown(name string, g Growth, unit string, of func(Point) float64, r Reach) []Verdict {
	if len(g.Points) < 2 {
		return nil
	}
	small, large := g.Points[0], g.Points[len(g.Points)-1]
	return beside(name, of(large), "at "+amount(small.At, g.Of), of(small), unit, r)
}

func beside(name string, ours float64, yardstick string, its float64, unit string, r Reach) []Verdict {
	if ours <= 0 || its <= 0 {
		return nil // it was not measured, or there was none
	}
	return []Verdict{held(Verdict{Name: name, Ours: ours, Yardstick: yardstick, Its: its, Unit: unit, Ratio: ours / its}, r)}
}

func (r *run) judgeGrowth() []Verdict { return r.report.judgeGrowth(r.o.sizes()) }

// judgeGrowth tells what became of the cost, from the smallest to the largest.
func (r *Report) judgeGrowth(s sizes) []Verdict {
	var list []Verdict
	for _, g := range r.Growth {
		if g.Scene == growDecisions {
			list = append(list, judgeDecisions(g)...)
			continue
		}
		at := amount(g.Points[len(g.Points)-1].At, g.Of)
		list = append(list, grown("leases a decision, "+at, g, "", func(p Point) float64 { return p.Grants / max(1, p.Decisions) }, Reach{})...)
		list = append(list, grown("Postgres CPU a decision, "+at, g, "us", func(p Point) float64 { return 1000 * p.CPUms / max(1, p.Decisions) }, Reach{})...)
		list = append(list, grown("p99 of a take, "+at, g, "ms", func(p Point) float64 { return p.P99ms }, Reach{})...)
	}
	list = append(list, judge(askFigures(growAgents, s.agents, "agents"), r.Results)...)
	list = append(list, judge(askFigures(growKeys, s.keys, "keys"), r.Results)...)
	if e := r.Edge; e != nil {
		list = append(list, beside("p99 of a take, the second after the edge", e.After.P99ms, "long before it", e.Steady.P99ms, "ms", Reach{})...)
		list = append(list, beside("transactions, most before the edge", e.Lead.Most, "long before it", e.Steady.Commits, "/s", Reach{})...)
	}
	if len(r.Restarts) > 1 {
		few, many := r.Restarts[0], r.Restarts[1]
		by := "with " + amount(few.Accounts, "accounts")
		list = append(list, beside("first grant after a start, "+amount(many.Accounts, "accounts"), many.GrantMs, by, few.GrantMs, "ms", Reach{})...)
		list = append(list, beside("serves after a start, "+amount(many.Accounts, "accounts"), many.ReadyMs, by, few.ReadyMs, "ms", Reach{})...)
	}
	for i := range list {
		list[i].Grows = true
	}
	return list
}

// judgeDecisions holds the ledger's load to staying as it is.
func judgeDecisions(g Growth) []Verdict {
	last := g.Points[len(g.Points)-1]
	at := "at " + amount(last.At, g.Of)
	if last.Decisions < 0.95*float64(last.At) {
		at = fmt.Sprintf("at %s, all that this machine made of %s", amount(int(last.Decisions), g.Of), amount(last.At, g.Of))
	}
	return slices.Concat(
		grown("transactions "+at, g, "/s", func(p Point) float64 { return p.Commits }, flat),
		grown("the same with all reads "+at, g, "/s", func(p Point) float64 { return p.Uses }, flat),
		grown("Postgres CPU "+at, g, "ms/s", func(p Point) float64 { return p.CPUms }, Reach{}))
}

// askFigures are what an ask costs among the most, beside one among the fewest.
func askFigures(scene string, at []int, of string) []figure {
	few, many := amount(at[0], of), amount(at[len(at)-1], of)
	return []figure{
		{"grants, " + many, scene, many, few, perSecond, Reach{}},
		{"p99 of a grant, " + many, scene, many, few, p99, Reach{}},
		{"Postgres CPU a grant, " + many, scene, many, few, cpuEach, Reach{}},
	}
}
