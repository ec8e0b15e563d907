package envoy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// faultsOf imports one file and returns its faults as file:line:column: field: problem.
func faultsOf(t *testing.T, text string) string {
	t.Helper()
	im, err := Import([]policy.File{{Name: "r.yaml", Text: []byte(text)}}, bounded)
	if err == nil {
		t.Fatalf("was accepted:\n%s", shown(im))
	}
	var faults policy.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("the error is no faults: %v", err)
	}
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s: %s; allowed: %s", f.File, f.Line, f.Column, f.Field, f.Problem, f.Allowed)
	}
	return strings.Join(lines, "\n")
}

const (
	head  = "domain: d\ndescriptors:\n"
	rule3 = "  - key: k\n    rate_limit: "
	daily = "{unit: day, requests_per_unit: 1}\n"

	limitAllows = "unit, requests_per_unit, unlimited, name, replaces, unit_multiplier"
	ruleAllows  = "key, value, rate_limit, descriptors, shadow_mode, quota_mode, share_threshold, detailed_metric, value_to_metric, metadata"
	unitAllows  = "second, minute, hour, day, week, month or year"
	wordAllows  = "a whole number from 0 to 4294967295"
)

// refused has each rule of the original's loader, with the place that its author has to look at.
var refused = []struct{ name, text, want string }{
	{"no domain", "descriptors: []\n", "r.yaml:1:1: domain: is missing; allowed: the domain's name"},
	{"an empty domain", "domain: ''\n", "r.yaml:1:9: domain: is missing; allowed: the domain's name"},
	{"an empty file", "# nothing\n", "r.yaml:1:1: domain: is missing; allowed: the domain's name"},
	{"a list", "- domain: d\n", "r.yaml:1:1: : is a list; allowed: a mapping of domain, descriptors"},
	{"a misspelt field of a descriptor", head + "  - key: k\n    ratelimit: " + daily,
		"r.yaml:4:5: descriptors[0].ratelimit: unknown field; allowed: " + ruleAllows},
	{"a misspelt field of a limit", head + rule3 + "{unit: day, requestsperunit: 1}\n",
		"r.yaml:4:29: descriptors[0].rate_limit.requestsperunit: unknown field; allowed: " + limitAllows},
	{"a field of one's own", head + rule3 + "{unit: day, requests_per_unit: 20, soft_requests_per_unit: 14}\n",
		"r.yaml:4:52: descriptors[0].rate_limit.soft_requests_per_unit: unknown field; allowed: " + limitAllows},
	{"an unknown field below one that means nothing there", "domain: d\nrate_limit: {units: day}\n",
		"r.yaml:2:14: rate_limit.units: unknown field; allowed: " + strings.Join(fieldNames, ", ")},
	{"a key that is a number", head + "  - key: k\n    0.25: x\n", `r.yaml:4:5: descriptors[0]."0.25": unknown field; allowed: ` + ruleAllows},
	{"a key that is a list", head + "  - ? [a]\n    : b\n", "r.yaml:3:5: descriptors[0]: has no key; allowed: a key that is not empty\nr.yaml:3:7: descriptors[0].?: a key that is not a word; allowed: a field"},
	{"a list of words", head + "  - a\n", `r.yaml:3:5: descriptors[0]: "a" stands there; allowed: a mapping`},
	{"descriptors that are no list", "domain: d\ndescriptors: {key: k}\n", "r.yaml:2:14: descriptors: is a mapping; allowed: a list of descriptors"},
	{"no key", head + "  - value: v\n", "r.yaml:3:5: descriptors[0]: has no key; allowed: a key that is not empty"},
	{"an empty key", head + "  - key: \"\"\n", "r.yaml:3:5: descriptors[0]: has no key; allowed: a key that is not empty"},
	{"the same key twice", head + "  - key: k\n  - key: k\n",
		"r.yaml:4:5: descriptors[1]: d.k is given twice; first at r.yaml:3; allowed: each key and value once among its neighbours, where key_value is one name"},
	{"the same key and value twice", head + "  - key: a\n    descriptors: [{key: k, value: v}, {key: k, value: v}]\n",
		"r.yaml:4:39: descriptors[0].descriptors[1]: d.a.k_v is given twice; first at r.yaml:4; allowed: each key and value once among its neighbours, where key_value is one name"},
	{"a key that reads as a key and a value", head + "  - {key: a_b}\n  - {key: a, value: b}\n",
		"r.yaml:4:5: descriptors[1]: d.a_b is given twice; first at r.yaml:3; allowed: each key and value once among its neighbours, where key_value is one name"},
	{"a value that is a fraction", head + "  - {key: k, value: 1.5}\n", "r.yaml:3:21: descriptors[0].value: 1.5 is a fraction; allowed: text (quote it) or a whole number"},
	{"a value that no int64 holds", head + "  - {key: k, value: 9223372036854775808}\n",
		"r.yaml:3:21: descriptors[0].value: 9223372036854775808 leaves the int64 range; allowed: text (quote it) or a smaller number"},
	{"a value that is a list", head + "  - {key: k, value: [{}]}\n", "r.yaml:3:21: descriptors[0].value: is a list; allowed: text"},
	{"no unit", head + rule3 + "{requests_per_unit: 1}\n", "r.yaml:4:17: descriptors[0].rate_limit: has no unit; allowed: unit: " + unitAllows + ", or unlimited: true"},
	{"a unit that is none", head + rule3 + "{unit: fortnight, requests_per_unit: 1}\n", `r.yaml:4:24: descriptors[0].rate_limit.unit: "fortnight" is not a unit; allowed: ` + unitAllows},
	{"the unit UNKNOWN", head + rule3 + "{unit: unknown, requests_per_unit: 1}\n", `r.yaml:4:24: descriptors[0].rate_limit.unit: "unknown" is not a unit; allowed: ` + unitAllows},
	{"a unit beside unlimited", head + rule3 + "{unlimited: true, unit: day}\n", "r.yaml:4:41: descriptors[0].rate_limit.unit: has no meaning with unlimited; allowed: no unit beside unlimited"},
	{"a limit that is a word", head + rule3 + "unlimited\n", `r.yaml:4:17: descriptors[0].rate_limit: "unlimited" stands there; allowed: a mapping of ` + limitAllows},
	{"a negative limit", head + rule3 + "{unit: day, requests_per_unit: -1}\n", "r.yaml:4:48: descriptors[0].rate_limit.requests_per_unit: -1 is out of range; allowed: " + wordAllows},
	{"a limit of 2^32", head + rule3 + "{unit: day, requests_per_unit: 4294967296}\n", "r.yaml:4:48: descriptors[0].rate_limit.requests_per_unit: 4294967296 is out of range; allowed: " + wordAllows},
	{"a limit in quotes", head + rule3 + "{unit: day, requests_per_unit: '5'}\n", `r.yaml:4:48: descriptors[0].rate_limit.requests_per_unit: "5" stands there; allowed: ` + wordAllows},
	{"a fraction of a request", head + rule3 + "{unit: day, requests_per_unit: 0.5}\n", `r.yaml:4:48: descriptors[0].rate_limit.requests_per_unit: "0.5" stands there; allowed: ` + wordAllows},
	{"a window of no units", head + rule3 + "{unit: day, requests_per_unit: 1, unit_multiplier: 0}\n",
		"r.yaml:4:68: descriptors[0].rate_limit.unit_multiplier: 0 is out of range; allowed: a whole number from 1 to 4294967295"},
	{"replaces without a name", head + rule3 + "{unit: day, requests_per_unit: 1, replaces: [{}]}\n", "r.yaml:4:62: descriptors[0].rate_limit.replaces[0]: has no name; allowed: the name of a rate_limit"},
	{"replaces of words", head + rule3 + "{unit: day, requests_per_unit: 1, replaces: [a]}\n", `r.yaml:4:62: descriptors[0].rate_limit.replaces[0]: "a" stands there; allowed: a mapping`},
	{"replaces itself", head + rule3 + "{unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}\n",
		"r.yaml:4:71: descriptors[0].rate_limit.replaces[0]: replaces itself; allowed: the name of another rate_limit"},
	{"shadow_mode that is a word", head + "  - {key: k, shadow_mode: maybe}\n", `r.yaml:3:27: descriptors[0].shadow_mode: "maybe" stands there; allowed: true or false`},
	{"shadow_mode in quotes", head + "  - {key: k, shadow_mode: \"true\"}\n", `r.yaml:3:27: descriptors[0].shadow_mode: "true" stands there; allowed: true or false`},
	{"share_threshold without a wildcard", head + "  - {key: k, value: v, share_threshold: true}\n",
		"r.yaml:3:41: descriptors[0].share_threshold: has no meaning here; allowed: only with a wildcard, a value that holds *"},
	{"metadata that is a word", head + "  - {key: k, metadata: m}\n", `r.yaml:3:24: descriptors[0].metadata: "m" stands there; allowed: a mapping`},
	{"broken YAML", "domain: d\ndescriptors: [\n", "r.yaml:3:0: : did not find expected node content; allowed: YAML"},
}

func TestWhatTheOriginalRefusesIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := faultsOf(t, tt.text); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestAllFaultsAtOnceInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	got := faultsOf(t, head+"  - value: v\n  - key: k\n    rate_limit: {unit: eon}\n    shadow: true\n")
	lines := strings.Split(got, "\n")
	for i, place := range []string{"r.yaml:3:5: ", "r.yaml:5:24: ", "r.yaml:6:5: "} {
		if len(lines) != 3 || !strings.HasPrefix(lines[i], place) {
			t.Fatalf("want a fault at each of 3 places, got\n%s", got)
		}
	}
}

// TestWhatTheOriginalOverlooksIsAccepted has what its loader lets pass without a word.
func TestWhatTheOriginalOverlooksIsAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"domain: d\ndescriptors:\n",
		"domain: d\n",
		"domain: 5\n",
		head + "  - {key: 1, value: true}\n",
		head + "  - {key: k, value: 2026-01-31}\n",
		head + "  - {key: k, rate_limit: }\n",
		head + "  - {key: k, value: , descriptors: , shadow_mode: , metadata: }\n",
		head + rule3 + "{unlimited: on, requests_per_unit: 5}\n",
		head + rule3 + "{unit: day, requests_per_unit: , name: , replaces: }\n",
		head + rule3 + "{unit: day, requests_per_unit: 1, replaces: [{name: a}, {name: a}]}\n",
		head + "  - {key: k, unit: day, domain: x, descriptors: [{key: l, requests_per_unit: 5}]}\n",
	} {
		if im, err := Import([]policy.File{{Name: "r.yaml", Text: []byte(text)}}, bounded); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if len(im.Text) == 0 {
			t.Errorf("%q: nothing is printed", text)
		}
	}
}

func TestWhatIsReadIsBounded(t *testing.T) {
	t.Parallel()
	deep := "domain: d\n"
	for i := range MaxLevels + 1 {
		pad := strings.Repeat("  ", i)
		deep += pad + "descriptors:\n" + pad + "- key: k\n"
	}
	// Each level repeats the one below ten times.
	bomb := "domain: d\nmetadata:\n- &a0 {key: k}\n"
	for i := range 9 {
		bomb += fmt.Sprintf("- &a%d {key: k, descriptors: [%s]}\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for _, tt := range []struct{ name, text, want string }{
		{"levels", deep, "nested too deep; allowed: at most 16 levels"},
		{"descriptors", head + strings.Repeat("  - {key: k}\n", MaxRules+1), "too many descriptors; allowed: at most 10000 in all files"},
		{"an alias bomb", bomb + "descriptors: *a9\n", ""},
		{"an alias bomb of descriptors", bomb + "descriptors: [*a9]\n", "too many descriptors"},
		{"an alias bomb where nothing is read", bomb + "rate_limit: *a9\n", "aliases make it too large"},
		{"a value that holds itself", head + "  - &a {key: k, descriptors: [*a]}\n", "nested too deep"},
		{"a misplaced value that holds itself", "domain: d\nrate_limit: &a {unit: *a}\n", "is too deep"},
		{"a merge that holds itself", "domain: d\ndescriptors: [&a {<<: *a}]\n", "is too deep"},
		{"a key", head + "  - key: " + strings.Repeat("k", 257) + "\n", "is 257 bytes long"},
		{"a control character", head + "  - key: \"a\\nb\"\n", "control characters"},
		{"limits", head + manyLimits(policy.MaxDimensions+1), "too many limits; allowed: at most 1000 in all files"},
		{"bytes", "domain: d\n" + strings.Repeat("#", policy.MaxFileBytes), "bytes long; allowed: at most 4194304"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := faultsOf(t, tt.text); !strings.Contains(got, tt.want) {
				t.Errorf("got %.600s\nwant %s", got, tt.want)
			}
		})
	}
	var big []policy.File
	for i := range 5 {
		big = append(big, policy.File{Name: fmt.Sprint(i), Text: []byte("domain: d\n" + strings.Repeat("#", policy.MaxFileBytes-10))})
	}
	if _, err := Import(big, bounded); err == nil || !strings.Contains(err.Error(), "bytes together; allowed: at most 16777216") {
		t.Errorf("got %.200v", err)
	}
	mustImport(t, bounded, policy.File{Name: "r.yaml", Text: []byte(head + manyLimits(policy.MaxDimensions))})
}

func manyLimits(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {key: k%d, rate_limit: %s}\n", i, strings.TrimSpace(daily))
	}
	return b.String()
}
