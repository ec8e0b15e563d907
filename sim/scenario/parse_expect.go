package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func (p *parser) baselines(n value) {
	methods := []string{string(StaticSplit), string(CentralCounter), string(CarryOver)}
	for _, item := range n.items(strings.Join(methods, ", ")) {
		f := item.fields("method", "each", "timeout", "keep")
		b := Baseline{Timeout: 200 * time.Millisecond, Keep: 1}
		if x, ok := f["method"]; ok {
			b.Method = Method(x.word(methods...))
		} else {
			item.missing("method", strings.Join(methods, ", "))
		}
		if x, ok := f["each"]; ok {
			b.Each = x.whole(1, 1<<50)
		}
		if x, ok := f["timeout"]; ok {
			b.Timeout = x.duration(time.Millisecond)
		}
		if x, ok := f["keep"]; ok {
			b.Keep = int(x.whole(1, 1000))
		}
		if slices.ContainsFunc(p.Demand, func(d Demand) bool { return d.Hold > 0 }) {
			item.refuse("counts units and knows no slots", "no baselines beside demand with hold")
		}
		p.Baselines = append(p.Baselines, b)
	}
}

func (p *parser) sweep(n value) {
	f := n.fields("param", "values", "ours")
	s := &Sweep{}
	if x, ok := f["param"]; ok {
		s.Param, _ = x.text("a parameter")
		if !slices.ContainsFunc(p.Params, func(o Param) bool { return o.Name == s.Param }) {
			x.refuse(fmt.Sprintf("%q is not a parameter", s.Param), "one that params names")
		}
	} else {
		n.missing("param", "a parameter")
	}
	if x, ok := f["values"]; ok {
		for _, item := range x.items("values") {
			v, _ := item.text("a value")
			s.Values = append(s.Values, v)
		}
	}
	if len(s.Values) < 2 || len(s.Values) > 100 {
		n.refuse(fmt.Sprintf("%d values", len(s.Values)), "2 to 100 values")
	}
	if x, ok := f["ours"]; ok {
		s.Ours = x.word(s.Values...)
	}
	p.Sweep = s
}

// expect reads figures to reach, like "overshoot = 0" or "utilisation >= 99%".
func (p *parser) expect(n value) {
	like := &Result{}
	for i := range p.Demand {
		like.Demands = append(like.Demands, (&demandMeter{waits: make([]histogram, len(p.Demand[i].Costs)),
			tried: make([]int64, len(p.Demand[i].Costs)), passed: make([]int64, len(p.Demand[i].Costs))}).result(&p.Demand[i]))
	}
	names := slices.Sorted(maps.Keys(like.Figures()))
	for _, item := range n.items(`figures to reach, like "utilisation >= 99%"`) {
		s, ok := item.text("a figure to reach")
		if !ok {
			continue
		}
		words := strings.Fields(s)
		if len(words) != 3 || !slices.Contains([]string{"<=", ">=", "="}, words[1]) {
			item.refuse(fmt.Sprintf("%q is not valid", shorten(s)), "a figure, one of <=, >= and =, and a number")
			continue
		}
		v, isNumber := parseNumber(words[2])
		if !isNumber {
			item.refuse(fmt.Sprintf("%q is not a number", shorten(words[2])), "a number, perhaps with %")
		}
		if !slices.Contains(names, words[0]) {
			item.refuse(fmt.Sprintf("%q is not a figure", shorten(words[0])), strings.Join(names, ", "))
		}
		p.Expect = append(p.Expect, Expectation{Metric: words[0], Op: words[1], Value: v})
	}
}
