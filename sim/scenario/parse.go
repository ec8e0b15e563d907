package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// source is where a scenario came from.
type source struct {
	name string
	text []byte
	open func(name string) (io.ReadCloser, error)
}

// Most that a scenario may hold.
const (
	maxAgents = 20_000
	maxEvents = 1000
)

// epoch is when scenarios begin that do not say when: every window up to an hour begins then.
var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Parse reads a scenario. open opens the traces that it names. The error is Faults.
func Parse(name string, text []byte, set []Param, open func(string) (io.ReadCloser, error)) (*Scenario, error) {
	r := &reader{file: name}
	s := &Scenario{Seed: 1, Start: epoch, Commit: 2 * time.Millisecond, source: source{name, text, open}}
	root, ok := r.parse(text)
	if ok {
		p := &parser{reader: r, Scenario: s, set: set, open: open}
		p.read(root)
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(x, y Fault) int { return x.Line - y.Line })
		return nil, r.faults
	}
	return s, nil
}

// With reads the same scenario with other parameters. The seed stays, whoever set it.
func (s *Scenario) With(set ...Param) (*Scenario, error) {
	all := append(slices.Clone(s.Params), set...)
	other, err := Parse(s.source.name, s.source.text, all, s.source.open)
	if err != nil {
		return nil, err
	}
	other.Seed = s.Seed
	return other, nil
}

type parser struct {
	*reader
	*Scenario
	set    []Param
	open   func(string) (io.ReadCloser, error)
	places [][]int // of every region's agents, those included that come later
	joins  []time.Duration
}

func (p *parser) read(root value) {
	names := []string{"name", "description", "params", "seed", "start", "duration", "control_plane", "lease_size", "policy",
		"regions", "demand", "timeline", "baselines", "sweep", "expect"}
	if root.yaml.Kind == yaml.MappingNode {
		p.params(root)
	}
	f := root.fields(names...)
	for _, need := range []string{"name", "description", "duration", "policy", "regions", "demand"} {
		if _, ok := f[need]; !ok {
			root.missing(need, "every scenario has one")
		}
	}
	if n, ok := f["name"]; ok {
		p.Name, _ = n.text("a name")
	}
	if n, ok := f["description"]; ok {
		p.Description, _ = n.text("what the scenario shows")
		p.Description = strings.Join(strings.Fields(p.Description), " ")
	}
	if n, ok := f["seed"]; ok {
		p.Seed = uint64(n.whole(0, 1<<62))
	}
	if n, ok := f["start"]; ok {
		s, _ := n.text("an instant like 2026-11-30T12:00:00Z")
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			n.refuse(fmt.Sprintf("%q is not valid", shorten(s)), "an instant like 2026-11-30T12:00:00Z")
		}
		p.Start = at.UTC()
	}
	if n, ok := f["duration"]; ok {
		p.Duration = n.duration(time.Millisecond)
	}
	if n, ok := f["control_plane"]; ok {
		if c, ok := n.fields("commit")["commit"]; ok {
			p.Commit = c.duration(0)
		}
	}
	if n, ok := f["lease_size"]; ok {
		p.LeaseSize = n.leaseSize()
	}
	if n, ok := f["policy"]; ok {
		p.Policy = p.policy(n)
	}
	if n, ok := f["regions"]; ok {
		p.regions(n)
	}
	if len(p.faults) > 0 {
		return // what follows refers to what was read so far
	}
	if n, ok := f["timeline"]; ok {
		p.timeline(n)
	}
	p.demands(f["demand"])
	if n, ok := f["baselines"]; ok {
		p.baselines(n)
	}
	if n, ok := f["sweep"]; ok {
		p.sweep(n)
	}
	if n, ok := f["expect"]; ok {
		p.expect(n)
	}
}

var paramUse = regexp.MustCompile(`\$\{([a-z_][a-z0-9_]*)\}`)

// params reads the parameters, and puts their values where the file names them.
func (p *parser) params(root value) {
	values, used := map[string]string{}, map[string]bool{}
	for i := 0; i+1 < len(root.yaml.Content); i += 2 {
		if root.yaml.Content[i].Value != "params" {
			continue
		}
		block := root.child("params", root.yaml.Content[i+1])
		if block.yaml.Kind != yaml.MappingNode {
			block.refuse("is not a mapping", "names and their values")
			return
		}
		for j := 0; j+1 < len(block.yaml.Content); j += 2 {
			name := block.yaml.Content[j].Value
			if !paramUse.MatchString("${" + name + "}") {
				block.child(name, block.yaml.Content[j]).refuse("is not a name", "small letters, digits and _")
				continue
			}
			value, _ := block.child(name, block.yaml.Content[j+1]).text("a number or a word")
			values[name] = value
			p.Params = append(p.Params, Param{name, value})
		}
	}
	for _, set := range p.set {
		i := slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == set.Name })
		if i < 0 {
			names := make([]string, len(p.Params))
			for i, x := range p.Params {
				names[i] = x.Name
			}
			p.faults = append(p.faults, Fault{File: p.file, Field: "params." + set.Name, Problem: "the scenario has no such parameter",
				Allowed: cmp.Or(strings.Join(names, ", "), "none: it has no params")})
			continue
		}
		p.Params[i].Value, values[set.Name] = set.Value, set.Value
	}
	var walk func(y *yaml.Node)
	walk = func(y *yaml.Node) {
		if y.Kind == yaml.ScalarNode && strings.Contains(y.Value, "${") {
			y.Value = paramUse.ReplaceAllStringFunc(y.Value, func(use string) string {
				name := use[2 : len(use)-1]
				to, ok := values[name]
				if !ok {
					value{r: p.reader, yaml: y}.refuse(use+" is not a parameter", "one that params names")
				}
				used[name] = true
				return to
			})
		}
		for _, c := range y.Content {
			walk(c)
		}
	}
	walk(root.yaml)
	for _, x := range p.Params {
		if !used[x.Name] {
			root.child("params."+x.Name, root.yaml).refuse("is not used", "parameters that the file uses as ${"+x.Name+"}")
		}
	}
}

// policy reads a policy that stands in the scenario. Its faults get the lines of this file.
func (p *parser) policy(n value) *policy.Document {
	text, ok := n.text("a policy, as a block of text")
	if !ok {
		return nil
	}
	if n.yaml.Style&yaml.LiteralStyle == 0 {
		n.refuse("is not a block of text", "a block of text: policy: |")
		return nil
	}
	doc, err := policy.Parse([]policy.File{{Name: p.file, Text: []byte(strings.Repeat("\n", n.yaml.Line) + text)}}, time.Time{})
	var faults policy.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			p.faults = append(p.faults, Fault{File: p.file, Line: f.Line, Field: n.path + ": " + f.Field, Problem: f.Problem, Allowed: f.Allowed})
		}
	case err != nil:
		n.refuse(err.Error(), "a policy")
	}
	return doc
}

func (p *parser) regions(n value) {
	for _, item := range n.items("{name, agents, latency, spread}") {
		f := item.fields("name", "agents", "latency", "spread")
		r := Region{Agents: 1}
		if x, ok := f["name"]; ok {
			r.Name, _ = x.text("a name")
			if slices.ContainsFunc(p.Regions, func(o Region) bool { return o.Name == r.Name }) {
				x.refuse("is given twice", "one region of a name")
			}
			if strings.ContainsAny(r.Name, "/ ,") {
				x.refuse(fmt.Sprintf("%q is not a name", r.Name), "a word without / and blanks")
			}
		} else {
			item.missing("name", "the region's name")
		}
		if x, ok := f["agents"]; ok {
			r.Agents = int(x.whole(1, maxAgents))
		}
		if x, ok := f["latency"]; ok {
			r.Latency = x.duration(0)
		}
		if x, ok := f["spread"]; ok {
			if r.Spread = x.duration(0); r.Spread > r.Latency {
				x.refuse("is more than the latency", "at most "+r.Latency.String())
			}
		}
		p.Regions = append(p.Regions, r)
		p.places = append(p.places, nil)
		p.join(len(p.Regions)-1, r.Agents, 0)
	}
	if len(p.Regions) == 0 {
		n.refuse("is empty", "one region or more")
	}
	if len(p.joins) > maxAgents {
		n.refuse(fmt.Sprintf("%d agents", len(p.joins)), fmt.Sprintf("at most %d in all", maxAgents))
	}
}

// join gives places to agents of a region that begin at a moment.
func (p *parser) join(region, count int, at time.Duration) []int {
	var places []int
	for range count {
		places = append(places, len(p.joins))
		p.joins = append(p.joins, at)
	}
	p.places[region] = append(p.places[region], places...)
	return places
}

var selection = regexp.MustCompile(`^([^/]+)(?:/([0-9]{1,6})(?:-([0-9]{1,6}))?)?$`)

// agents reads which agents are meant: all, a region, or some of a region by number from 0.
func (p *parser) agents(n value) []int {
	const allowed = "all, a region, or some of its agents by number, like eu/0-15"
	var list []int
	items := []value{n}
	if n.yaml.Kind == yaml.SequenceNode {
		items = n.items(allowed)
	}
	for _, item := range items {
		s, _ := item.text(allowed)
		if s == "all" {
			for place := range p.joins {
				list = append(list, place)
			}
			continue
		}
		m := selection.FindStringSubmatch(s)
		region := -1
		if m != nil {
			region = slices.IndexFunc(p.Regions, func(r Region) bool { return r.Name == m[1] })
		}
		if region < 0 {
			item.refuse(fmt.Sprintf("%q names no agents", shorten(s)), allowed)
			continue
		}
		first, last := 0, len(p.places[region])-1
		if m[2] != "" {
			_, _ = fmt.Sscan(m[2], &first) // digits, by the pattern
			last = first
		}
		if m[3] != "" {
			_, _ = fmt.Sscan(m[3], &last)
		}
		if m[3] != "" && first > last {
			item.refuse(fmt.Sprintf("%q runs backwards", s), "the smaller number first")
			continue
		}
		if first > last || last >= len(p.places[region]) {
			item.refuse(fmt.Sprintf("%q names agents that there are not", s), fmt.Sprintf("%s/0-%d", m[1], len(p.places[region])-1))
			continue
		}
		list = append(list, p.places[region][first:last+1]...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (p *parser) key(n value, f map[string]value) quota.Key {
	key := quota.Key{Tenant: "acme"}
	if x, ok := f["tenant"]; ok {
		key.Tenant, _ = x.text("a tenant's name")
	}
	x, ok := f["dimension"]
	if !ok {
		n.missing("dimension", "a dimension of the policy")
		return key
	}
	key.Dimension, _ = x.text("a dimension of the policy")
	if _, _, err := p.Policy.Snapshot(1).Resolve(key, p.Start); err != nil {
		names := make([]string, len(p.Policy.Dimensions))
		for i, dim := range p.Policy.Dimensions {
			names[i] = dim.Name
		}
		x.refuse(err.Error(), "a dimension of the policy: "+strings.Join(names, ", "))
	}
	return key
}
