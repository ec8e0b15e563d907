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
	class, every := "", ""
	for _, fact := range facts {
		if word, ok := strings.CutPrefix(fact, "class "); ok {
			class = word
		}
		if word, ok := strings.CutPrefix(fact, "period.every "); ok {
			every = word
		}
	}
	usual := defaultFacts(class, every)
	var kept []string
	for _, fact := range facts {
		if !usual[fact] {
			kept = append(kept, fact)
		}
	}
	return kept
}

// defaultFacts asks the policy's own reader what it fills in. What every dimension must write
// is no default; what is no dimension has none.
func defaultFacts(class, every string) map[string]bool {
	least := fmt.Sprintf("dimensions: [{name: any, kind: period, limit: 0, period: {every: %s}, class: %s}]\n", every, class)
	doc, err := policy.Parse([]policy.File{{Text: []byte(least)}}, time.Time{})
	if err != nil {
		return nil
	}
	usual := map[string]bool{}
	for _, change := range policy.Diff(nil, doc) {
		for _, fact := range splitFacts(change.New) {
			usual[fact] = true
		}
	}
	for _, written := range []string{"kind period", "limit 0", "period.every " + every, "class " + class} {
		delete(usual, written)
	}
	return usual
}
