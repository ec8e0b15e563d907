package scenario

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

var demandFields = []string{"name", "tenant", "dimension", "agents", "rate", "share", "constant", "bursts", "trace",
	"from", "to", "costs", "clients", "hold"}

func (p *parser) demands(n value) {
	for _, item := range n.items("{dimension, rate}") {
		p.demand(item)
	}
	if len(p.Demand) == 0 {
		n.refuse("is empty", "one stream of calls or more")
	}
}

func (p *parser) demand(n value) {
	f := n.fields(demandFields...)
	d := Demand{Shape: Poisson, To: p.Duration, Costs: []CostShare{{Cost: 1, Share: 1}}, Clients: Clients{Denied: GiveUp, Tries: 1}}
	d.Key = p.key(n, f)
	d.Name = d.Key.Tenant
	if x, ok := f["name"]; ok {
		d.Name, _ = x.text("a name")
	}
	if slices.ContainsFunc(p.Demand, func(o Demand) bool { return o.Name == d.Name }) {
		n.refuse(fmt.Sprintf("two streams are called %q", d.Name), "one name each: the field name, else the tenant's")
	}
	if x, ok := f["from"]; ok {
		d.From = x.duration(0)
	}
	if x, ok := f["to"]; ok {
		d.To = x.duration(0)
	}
	if d.From >= d.To || d.To > p.Duration {
		n.refuse(fmt.Sprintf("from %s to %s is impossible", d.From, d.To), fmt.Sprintf("a time within the scenario's %s", p.Duration))
	}
	for i := range p.joins {
		d.Agents = append(d.Agents, i)
	}
	if x, ok := f["agents"]; ok {
		d.Agents = p.agents(x)
	}
	p.shape(n, f, &d)
	if x, ok := f["costs"]; ok {
		d.Costs = costs(x)
	}
	if x, ok := f["clients"]; ok {
		d.Clients = clients(x)
	}
	p.hold(n, f, &d)
	p.Demand = append(p.Demand, d)
}

// hold reads how long work holds its slots: calls for slots have to say, and no others can.
func (p *parser) hold(n value, f map[string]value, d *Demand) {
	dim, _ := p.Policy.Snapshot(1).Dimension(d.Key.Dimension)
	slots := dim != nil && dim.Kind == quota.Concurrency
	x, given := f["hold"]
	switch {
	case given && slots:
		d.Hold = x.duration(time.Millisecond)
	case given:
		x.refuse("has no meaning here", "only with a dimension of kind concurrency")
	case slots:
		n.missing("hold", "how long the work of a call lasts, like 30s")
	}
}

// shape reads how calls follow each other: one of rate (with constant or not), bursts and trace.
func (p *parser) shape(n value, f map[string]value, d *Demand) {
	given := 0
	for _, name := range []string{"rate", "bursts", "trace"} {
		if _, ok := f[name]; ok {
			given++
		}
	}
	if given != 1 {
		n.refuse(fmt.Sprintf("%d of rate, bursts and trace are given", given), "one of them")
		return
	}
	if x, ok := f["rate"]; ok {
		d.Rate, d.Each = x.perSecond()
	}
	if x, ok := f["constant"]; ok {
		if x.word("true", "false") == "true" {
			d.Shape = Constant
		}
	}
	if x, ok := f["share"]; ok {
		d.Zipf = zipf(x)
	}
	if x, ok := f["bursts"]; ok {
		d.Shape = Bursts
		b := x.fields("size", "every")
		size, hasSize := b["size"]
		every, hasEvery := b["every"]
		if !hasSize || !hasEvery {
			x.refuse("size or every is missing", "{size: 10, every: 20s}")
			return
		}
		d.Burst, d.Every = int(size.whole(1, 1_000_000)), every.duration(time.Millisecond)
	}
	if x, ok := f["trace"]; ok {
		d.Shape = Recorded
		p.trace(x, d)
	}
}

// leaseSize reads what agents ask for; 0: what they choose.
func (n value) leaseSize() int64 {
	const most = int64(1) << 50
	allowed := fmt.Sprintf("auto, or a whole number from 1 to %d", most)
	s, ok := n.text(allowed)
	if !ok || s == "auto" {
		return 0
	}
	size, err := strconv.ParseInt(s, 10, 64)
	if err != nil || size < 1 || size > most {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
	}
	return size
}

func zipf(n value) float64 {
	const allowed = "even, or zipf and an exponent up to 5, like zipf 1.1"
	s, ok := n.text(allowed)
	if !ok || s == "even" {
		return 0
	}
	exponent, found := strings.CutPrefix(s, "zipf ")
	v, isNumber := parseNumber(exponent)
	if !found || !isNumber || v <= 0 || v > 5 {
		n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), allowed)
	}
	return v
}

// trace reads the calls of a trace for the demand's key, moved to the beginning.
func (p *parser) trace(n value, d *Demand) {
	name, ok := n.text("a file")
	if !ok {
		return
	}
	file, err := p.open(name)
	if err != nil {
		n.refuse(err.Error(), "a trace that can be read")
		return
	}
	defer func() { _ = file.Close() }()
	events, _, err := trace.Load(context.Background(), file, trace.Options{Name: name})
	if err != nil {
		n.refuse(err.Error(), "an access log or a CSV file")
		return
	}
	for _, e := range events {
		if at := e.At.Sub(events[0].At); at < d.To-d.From {
			d.Calls = append(d.Calls, Recording{At: d.From + at, Cost: int64(e.Cost)})
		}
	}
}

// costs reads what calls cost, and the share of calls of each cost.
func costs(n value) []CostShare {
	const allowed = "costs and their shares of all calls, like {1: 95%, 20: 5%}"
	var list []CostShare
	sum := 0.0
	for text, share := range n.fields() {
		cost, err := strconv.ParseInt(text, 10, 64)
		if err != nil || cost < 1 {
			share.refuse(fmt.Sprintf("%q is not a cost", shorten(text)), "1 or more")
			continue
		}
		c := CostShare{Cost: cost, Share: share.number(allowed)}
		sum += c.Share
		list = append(list, c)
	}
	if sum < 0.999 || sum > 1.001 {
		n.refuse(fmt.Sprintf("the shares are %g together", sum), allowed)
	}
	slices.SortFunc(list, func(x, y CostShare) int { return int(min(max(x.Cost-y.Cost, -1), 1)) })
	return list
}

func clients(n value) Clients {
	f := n.fields("denied", "after", "tries")
	c := Clients{Denied: GiveUp, Tries: 1}
	if x, ok := f["denied"]; ok {
		c.Denied = OnDenial(x.word(string(GiveUp), string(Wait), string(Retry)))
		if c.Denied != GiveUp {
			c.Tries = 10
		}
	} else {
		n.missing("denied", "give_up, wait or retry")
	}
	if x, ok := f["after"]; ok {
		c.After = x.duration(0)
		if c.Denied != Retry {
			x.refuse("has no meaning with "+string(c.Denied), "only with retry")
		}
	}
	if x, ok := f["tries"]; ok {
		c.Tries = int(x.whole(1, 1_000_000))
	}
	return c
}
