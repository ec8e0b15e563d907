package envoy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestNamesAreReadable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		domain string
		path   []entry
		want   string
	}{
		{"messaging", []entry{{key: "message_type", value: "marketing"}, {key: "to_number", match: anyValue}}, "messaging.message_type_marketing.to_number"},
		{"edge", []entry{{key: "path", value: "/v1/", match: prefix}}, "edge.path_v1-8f846835"},
		{"edge", []entry{{key: "path", value: "/v1/"}}, "edge.path_v1-30f56d33"},
		{"Edge", []entry{{key: "path", match: anyValue}}, "edge.path-77765efe"},
		{"日本", []entry{{key: "*", match: anyValue}}, "rule-b8bdf778"},
		{"edge", []entry{{key: strings.Repeat("k", 80), match: anyValue}}, "edge." + strings.Repeat("k", 49) + "-bf2e4365"},
	} {
		got := dimensionName(tt.domain, tt.path)
		if got != tt.want || quota.ValidateDimension(got) != nil {
			t.Errorf("%s %v: got %s, want %s", tt.domain, tt.path, got, tt.want)
		}
	}
}

// TestNamesDependOnTheRuleAlone draws pairs of paths from words that look alike once they are
// spelled.
func TestNamesDependOnTheRuleAlone(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "A", "a.b", "a_b", "a/b", "/", "", strings.Repeat("a", 70)})
	path := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
		e := entry{key: "k" + word.Draw(t, "key"), value: word.Draw(t, "value"), match: match(rapid.IntRange(0, 2).Draw(t, "match"))}
		if e.value == "" || e.match == anyValue {
			e.match, e.value = anyValue, ""
		}
		return e
	}), 1, 3)
	rapid.Check(t, func(t *rapid.T) {
		one, two := path.Draw(t, "one"), path.Draw(t, "two")
		first, second := dimensionName("d", one), dimensionName("d", two)
		if err := quota.ValidateDimension(first); err != nil {
			t.Fatalf("%q: %v", first, err)
		}
		if (first == second) != slices.Equal(composites(one), composites(two)) {
			t.Fatalf("%v is %s, %v is %s", one, first, two, second)
		}
	})
}

// composites are what the original tells descriptors apart by.
func composites(path []entry) (all []string) {
	for _, e := range path {
		switch e.match {
		case exact:
			all = append(all, e.key+"_"+e.value)
		case prefix:
			all = append(all, e.key+"_"+e.value+"*")
		default:
			all = append(all, e.key)
		}
	}
	return all
}

func TestR1_13NoQuotaIsCountedByAddress(t *testing.T) {
	t.Parallel()
	l := mustLoad(t, mustImport(t, bounded, example(t, "addresses.yaml")))
	for _, r := range l.doc.Descriptors {
		for _, at := range r.Tenant { // of a local limit, too: there it would be in the clear
			if slices.Contains(addressKeys, r.Match[at].Key) {
				t.Errorf("%s counts each address apart", r)
			}
		}
	}
	im := mustImport(t, bounded, example(t, "addresses.yaml"))
	said := 0
	for _, n := range im.Notes {
		if strings.Contains(n.Problem, "carried over as a local limit: no quota is counted by address") {
			said++
		}
	}
	if said != im.Locals || said != 3 {
		t.Errorf("%d notes of %d local limits, want 3:\n%v", said, im.Locals, policy.Faults(im.Notes))
	}
}
