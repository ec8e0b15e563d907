package envoy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// FuzzImport holds every text to one of two ends: faults that name their places, or a policy
// that loads.
func FuzzImport(f *testing.F) {
	for _, name := range examples(f) {
		f.Add(example(f, name).Text)
	}
	f.Add([]byte(head + "  - &a {key: k, descriptors: [*a]}\n"))
	f.Add([]byte(head + "  - {<<: [{key: a}, {value: \"\\u263a\"}], rate_limit: {unit: day}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		im, err := Import([]policy.File{{Name: "r.yaml", Text: text}}, bounded)
		if err != nil {
			var faults policy.Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("refused without a fault: %v", err)
			}
			return
		}
		if !slices.IsSortedFunc(im.Notes, func(a, b policy.Fault) int { return a.Line - b.Line }) {
			t.Errorf("notes are not in the order of the file:\n%v", policy.Faults(im.Notes))
		}
		_, err = policy.Parse([]policy.File{{Name: "imported.yaml", Text: im.Text}}, time.Time{})
		if im.Dimensions == 0 && err != nil && strings.HasSuffix(err.Error(), "no dimension is defined; allowed: one or more in all files") {
			return // such rules can only be added to others
		}
		if err != nil {
			t.Fatalf("%v\nof\n%s\nfrom\n%s", err, im.Text, text)
		}
	})
}
