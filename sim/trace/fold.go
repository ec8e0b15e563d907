package trace

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Names of dimensions that are not taken from the trace.
const (
	RootDimension  = "root"  // the path /
	OtherDimension = "other" // what Fold puts together, and names without a letter or digit
)

// MaxDimensions is how many dimensions a replay keeps apart by default.
const MaxDimensions = 50

// DimensionName turns any text into a name that a policy may define: lower case, every
// character that is not allowed becomes '-', what stands before the first letter or digit
// goes, and so does what is too long. Different texts may get the same name.
func DimensionName(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case isAlnum(r) || r == '_' || r == '.':
			return r
		}
		return '-'
	}, s)
	start := strings.IndexFunc(name, isAlnum)
	if start < 0 {
		return OtherDimension
	}
	name = name[start:]
	return name[:min(len(name), quota.MaxDimensionBytes)]
}

func isAlnum(r rune) bool { return (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') }

// Fold keeps apart the dimensions with the most events, as many as keep says, and renames
// the rest to OtherDimension. Of equally frequent ones the first by name stays. The events
// given are not changed.
func Fold(events []Event, keep int) []Event {
	keep = max(keep, 0)
	count := make(map[string]int)
	for _, e := range events {
		count[e.Dimension]++
	}
	delete(count, OtherDimension) // has its place anyway
	if len(count) <= keep {
		return events
	}
	byCount := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	for _, name := range byCount[:keep] {
		delete(count, name) // what is left is folded
	}
	folded := slices.Clone(events)
	for i := range folded {
		if _, rare := count[folded[i].Dimension]; rare {
			folded[i].Dimension = OtherDimension
		}
	}
	return folded
}
