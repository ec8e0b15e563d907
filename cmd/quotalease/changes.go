package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// changeLines writes changes for people. What was added or removed is named with the fields
// that somebody chose: those that a dimension has by itself say nothing, and are in the JSON.
func changeLines(changes []string) []string {
	return each(changes, func(change string) string {
		for _, what := range []string{": added (", ": removed ("} {
			head, facts, ok := strings.Cut(change, what)
			if facts, closed := strings.CutSuffix(facts, ")"); ok && closed {
				return head + what + strings.Join(chosen(splitFacts(facts)), ", ") + ")"
			}
		}
		return change
	})
}

// splitFacts cuts a summary at its commas, but not at those in quoted text.
func splitFacts(summary string) []string {
	var facts []string
	begin, quoted := 0, false
	for i := 0; i < len(summary); i++ {
		switch {
		case summary[i] == '\\' && quoted:
			i++
		case summary[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(summary[i:], ", "):
			facts = append(facts, summary[begin:i])
			begin = i + 2
		}
	}
	return append(facts, summary[begin:])
}

// chosen leaves out the facts of a dimension that hold without being written.
func chosen(facts []string) []string {
	said := map[string]string{}
	for _, fact := range facts {
		name, value, _ := strings.Cut(fact, " ")
		said[name] = value
	}
	usual := defaultFacts(said)
	var kept []string
	for _, fact := range facts {
		if !usual[fact] {
			kept = append(kept, fact)
		}
	}
	return kept
}

// leastDimensions are what a dimension of each kind must write, besides its class.
var leastDimensions = map[string]string{
	"period":      "limit: 0, period: {every: %s}",
	"rate":        "limit: 0/s",
	"concurrency": "limit: 0, max_hold: 1s",
}

// defaultFacts asks the policy's own reader what it fills in. What every dimension must write
// is no default; what is no dimension has none.
func defaultFacts(said map[string]string) map[string]bool {
	kind, every := said["kind"], said["period.every"]
	least, ok := leastDimensions[kind]
	if !ok {
		return nil
	}
	if kind == "period" {
		least = fmt.Sprintf(least, every)
	}
	text := fmt.Sprintf("dimensions: [{name: any, kind: %s, class: %s, %s}]\n", kind, said["class"], least)
	doc, err := policy.Parse([]policy.File{{Text: []byte(text)}}, time.Time{})
	if err != nil {
		return nil
	}
	usual := map[string]bool{}
	for _, change := range policy.Diff(nil, doc) {
		for _, fact := range splitFacts(change.New) {
			usual[fact] = true
		}
	}
	for _, written := range []string{"limit 0", "limit 0/s", "burst 0", "max_hold 1s"} {
		delete(usual, written)
	}
	for _, name := range []string{"kind", "class"} {
		delete(usual, name+" "+said[name])
	}
	if kind == "period" {
		delete(usual, "period.every "+every)
	}
	return usual
}
