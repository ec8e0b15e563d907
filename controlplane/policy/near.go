package policy

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxNear     = 3 // names to offer
	maxMistakes = 2 // letters that a typo may change, add, drop or swap for one
)

// near returns the few names that look most like the one asked for.
func near(asked string, names []string) []string {
	type candidate struct {
		name     string
		mistakes int
	}
	var found []candidate
	for _, name := range names {
		if len(name)-len(asked) > maxMistakes || len(asked)-len(name) > maxMistakes {
			if asked != "" && strings.HasPrefix(name, asked) {
				found = append(found, candidate{name, maxMistakes + 1})
			}
			continue
		}
		if n := mistakes(asked, name); n <= maxMistakes {
			found = append(found, candidate{name, n})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.mistakes, b.mistakes), cmp.Compare(a.name, b.name))
	})
	best := []string{}
	for _, c := range found[:min(len(found), maxNear)] {
		best = append(best, c.name)
	}
	return best
}

// mistakes counts the bytes that must be changed, added or dropped to make a into b, where
// two neighbours in the wrong order count once.
func mistakes(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
