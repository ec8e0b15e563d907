package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/ledger/quota"
)

var actionNames = []string{"cut", "cut_watch", "down", "crash", "stop", "policy", "add", "credit", "release"}

// timeline reads what happens. Agents that join are given their places first, so that other
// entries may name them.
func (p *parser) timeline(n value) {
	items := n.items("{at, for, cut}")
	if len(items) > maxEvents {
		n.refuse(fmt.Sprintf("%d entries", len(items)), fmt.Sprintf("at most %d", maxEvents))
		return
	}
	events := make([]Event, len(items))
	fields := make([]map[string]value, len(items))
	for i, item := range items {
		fields[i] = item.fields(append([]string{"at", "for", "way"}, actionNames...)...)
		events[i] = p.when(item, fields[i])
		if x, ok := fields[i]["add"]; ok {
			events[i].Action = AddAgents
			p.add(x, &events[i])
		}
	}
	for i, item := range items {
		if events[i].Action == "" {
			p.happening(item, fields[i], &events[i])
		}
		p.possible(item, fields[i], events, i)
		events[i].Note = note(&events[i], p.Regions)
	}
	p.Timeline = events
	slices.SortStableFunc(p.Timeline, func(x, y Event) int { return int(min(max(x.At-y.At, -1), 1)) })
}

// when reads the time of an entry, and holds it to naming one action.
func (p *parser) when(n value, f map[string]value) Event {
	e := Event{Way: BothWays}
	if x, ok := f["at"]; ok {
		if e.At = x.duration(0); e.At >= p.Duration {
			x.refuse(fmt.Sprintf("%s is after the scenario's end", e.At), "before "+p.Duration.String())
		}
	} else {
		n.missing("at", "when it happens, from the beginning")
	}
	if x, ok := f["for"]; ok {
		e.For = x.duration(time.Nanosecond)
		if e.At+e.For > p.Duration {
			x.refuse(fmt.Sprintf("it lasts until %s, after the scenario's end", e.At+e.For), "an end at "+p.Duration.String()+" or before; without for, it lasts for good")
		}
	}
	given := slices.DeleteFunc(slices.Sorted(maps.Keys(f)), func(k string) bool { return !slices.Contains(actionNames, k) })
	if len(given) != 1 {
		n.refuse(fmt.Sprintf("names %d of: %s", len(given), strings.Join(actionNames, ", ")), "one of them")
	}
	return e
}

func (p *parser) add(n value, e *Event) {
	for region, count := range n.fields() {
		i := slices.IndexFunc(p.Regions, func(r Region) bool { return r.Name == region })
		if i < 0 || len(n.yaml.Content) != 2 {
			n.refuse("does not name one region", "a region and how many, like {eu: 10}")
			return
		}
		e.Region, e.Count = i, int(count.whole(1, maxAgents))
		if len(p.joins)+e.Count > maxAgents {
			count.refuse("makes too many agents", fmt.Sprintf("at most %d in all", maxAgents))
			return
		}
		e.Agents = p.join(i, e.Count, e.At)
	}
}

func (p *parser) happening(n value, f map[string]value, e *Event) {
	for _, action := range []Action{CutLinks, CutWatch, Crash, Stop} {
		if x, ok := f[string(action)]; ok {
			e.Action, e.Agents = action, p.agents(x)
		}
	}
	if x, ok := f["way"]; ok {
		e.Way = Way(x.word(string(BothWays), string(There), string(Back)))
		if e.Action != CutLinks {
			x.refuse("has no meaning here", "only with cut")
		}
	}
	if x, ok := f["down"]; ok {
		e.Action = Down
		x.word("control_plane")
	}
	if x, ok := f["policy"]; ok {
		e.Action, e.Policy = Change, p.policy(x)
	}
	for action, kinds := range adjustable {
		if x, ok := f[string(action)]; ok {
			e.Action = action
			p.adjustment(x, kinds, e)
		}
	}
}

// adjustable are the kinds of dimension that an operator's decision is possible for.
var adjustable = map[Action][]quota.Kind{Credit: {quota.Period}, Release: {quota.Period, quota.Concurrency}}

func (p *parser) adjustment(n value, kinds []quota.Kind, e *Event) {
	f := n.fields("tenant", "dimension", "units")
	e.Key = p.key(n, f)
	if x, ok := f["units"]; ok {
		e.Units = x.whole(1, 1<<53)
	} else {
		n.missing("units", "how many units, 1 or more")
	}
	if dim, ok := p.Policy.Snapshot(1).Dimension(e.Key.Dimension); ok && !slices.Contains(kinds, dim.Kind) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.String()
		}
		f["dimension"].refuse(fmt.Sprintf("%q is of kind %s", e.Key.Dimension, dim.Kind), "a dimension of kind "+strings.Join(names, " or "))
	}
}

// possible refuses what cannot happen: to do something to an agent before it joins, or while
// it is down or cut off already.
func (p *parser) possible(n value, f map[string]value, events []Event, i int) {
	e := &events[i]
	if _, ok := f["for"]; ok && e.Action.atOnce() {
		n.refuse("for has no meaning with "+string(e.Action), "an entry without for")
	}
	for _, place := range e.Agents {
		if e.Action != AddAgents && place < len(p.joins) && p.joins[place] > e.At {
			n.refuse(fmt.Sprintf("an agent that joins at %s cannot be meant at %s", p.joins[place], e.At), "agents that there are at that time")
			return
		}
	}
	for j := range events[:i] {
		o := &events[j]
		if o.Action == Down && p.asks(n, e, o) || e.Action == Down && p.asks(n, o, e) {
			return
		}
		if !alike(o.Action, e.Action) || e.Action.atOnce() || !overlap(e, o) {
			continue
		}
		if e.Action == Down || slices.ContainsFunc(e.Agents, func(a int) bool { return slices.Contains(o.Agents, a) }) {
			n.refuse(fmt.Sprintf("%s at %s begins before the %s at %s has ended", e.Action, e.At, o.Action, o.At), "entries one after the other")
			return
		}
	}
}

// atOnce reports that an action takes no time: what it did stays.
func (a Action) atOnce() bool {
	return slices.Contains([]Action{Change, AddAgents, Credit, Release}, a)
}

// alike reports that of two actions on one agent the second cannot begin before the first ended.
func alike(x, y Action) bool {
	ends := func(a Action) bool { return a == Crash || a == Stop }
	return x == y || ends(x) && ends(y)
}

// asks refuses an operator's decision while nobody answers the operator.
func (p *parser) asks(n value, e, down *Event) bool {
	if e.Action != Credit && e.Action != Release || !overlap(&Event{At: e.At, For: 1}, down) {
		return false
	}
	n.refuse(fmt.Sprintf("%s at %s finds the control plane down", e.Action, e.At), "a time at which the control plane answers")
	return true
}

func overlap(x, y *Event) bool {
	ends := func(e *Event) time.Duration {
		if e.For == 0 {
			return longest
		}
		return e.At + e.For
	}
	return x.At < ends(y) && y.At < ends(x)
}

// note says in words what happens.
func note(e *Event, regions []Region) string {
	many := fmt.Sprintf("%d agents", len(e.Agents))
	if len(e.Agents) == 1 {
		many = "1 agent"
	}
	switch e.Action {
	case CutLinks:
		if e.Way != BothWays {
			return many + " cut off, " + string(e.Way)
		}
		return many + " cut off"
	case CutWatch:
		return "no notices to " + many
	case Down:
		return "control plane down"
	case Crash:
		return many + " crash"
	case Change:
		return "policy changes"
	case Stop:
		return many + " stop"
	case Credit:
		return fmt.Sprintf("credit of %s to %s", controlplane.Grouped(e.Units), e.Key.Dimension)
	case Release:
		return fmt.Sprintf("up to %s held units of %s released", controlplane.Grouped(e.Units), e.Key.Dimension)
	case AddAgents:
		return many + " join " + regions[e.Region].Name
	}
	return ""
}
