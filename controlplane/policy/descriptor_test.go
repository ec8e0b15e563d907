package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// rulesWith is a good policy on lines 1 to 6, and descriptors from line 8 on.
func rulesWith(lines ...string) string {
	return dimensionWith() + "descriptors:\n" + strings.Join(lines, "\n") + "\n"
}

const ruleFields = "domain, match, dimension, local, unlimited, tenant, caller, shadow, name, replaces, overrides"

var badDescriptors = []badInput{
	{"rule without a domain", rulesWith("- {match: [{key: k}], dimension: a}"), `policy.yaml:8: descriptors[0].domain: is missing; allowed: ` + domainAllowed},
	{"rule of an empty domain", rulesWith(`- {domain: "", match: [{key: k}], dimension: a}`), `policy.yaml:8: descriptors[0].domain: is empty; allowed: ` + domainAllowed},
	{"rule of a domain that is a number", rulesWith(`- {domain: 5, match: [{key: k}], dimension: a}`), `policy.yaml:8: descriptors[0].domain: 5 is a number; allowed: ` + domainAllowed + ` (quote it)`},
	{"rule without a match", rulesWith("- {domain: d, dimension: a}"), `policy.yaml:8: descriptors[0].match: is missing; allowed: 1 to 16 of {key, value}`},
	{"rule that matches nothing", rulesWith("- {domain: d, match: [], dimension: a}"), `policy.yaml:8: descriptors[0].match: is an empty list; allowed: 1 to 16 of {key, value}`},
	{"entry without a key", rulesWith("- {domain: d, match: [{value: v}], dimension: a}"), `policy.yaml:8: descriptors[0].match[0].key: is missing; allowed: a descriptor's key, 1 to 256 bytes`},
	{"entry with an unknown field", rulesWith("- {domain: d, match: [{key: k, values: v}], dimension: a}"), `policy.yaml:8: descriptors[0].match[0].values: unknown field; allowed: key, value`},
	{"entry with a lone star", rulesWith(`- {domain: d, match: [{key: k, value: "*"}], dimension: a}`), `policy.yaml:8: descriptors[0].match[0].value: * alone would be any value; allowed: an exact value, a prefix and *, or left out for any value`},
	{"entry with an empty value", rulesWith(`- {domain: d, match: [{key: k, value: ""}], dimension: a}`), `policy.yaml:8: descriptors[0].match[0].value: is empty; allowed: an exact value`},
	{"entry with a value that is a number", rulesWith("- {domain: d, match: [{key: k, value: 404}], dimension: a}"), `policy.yaml:8: descriptors[0].match[0].value: 404 is a number; allowed: an exact value, a prefix and *, or left out for any value (quote it)`},
	{"too many entries", rulesWith("- {domain: d, match: [" + strings.Repeat("{key: k}, ", 17) + "], dimension: a}"), `policy.yaml:8: descriptors[0].match[16]: too many entries in descriptors[0].match; allowed: at most 16`},
	{"rule that counts nowhere", rulesWith("- {domain: d, match: [{key: k}]}"), `policy.yaml:8: descriptors[0].dimension: is missing; allowed: one of dimension, local and unlimited: true`},
	{"rule that counts and does not", rulesWith("- {domain: d, match: [{key: k}], dimension: a, unlimited: true}"), `policy.yaml:8: descriptors[0].unlimited: is given beside dimension; allowed: one of dimension, local and unlimited: true`},
	{"rule that is not unlimited", rulesWith("- {domain: d, match: [{key: k}], unlimited: false}"), `policy.yaml:8: descriptors[0].unlimited: false says nothing; allowed: one of dimension, local and unlimited: true`},
	{"unlimited in shadow", rulesWith("- {domain: d, match: [{key: k}], unlimited: true, shadow: true}"), `policy.yaml:8: descriptors[0].shadow: has no meaning with unlimited; allowed: only with dimension or local`},
	{"rule of an unknown dimension", rulesWith("- {domain: d, match: [{key: k}], dimension: ab}"), `policy.yaml:8: descriptors[0].dimension: dimension "ab" is not defined; near: a; allowed: a dimension of the policy`},
	{"rule of a concurrency limit", "dimensions:\n- {name: jobs, kind: concurrency, limit: 5, class: hard, max_hold: 1h}\ndescriptors:\n- {domain: d, match: [{key: k}], dimension: jobs}\n",
		`policy.yaml:4: descriptors[0].dimension: dimension jobs is a concurrency limit: nobody could give its slots back; allowed: a dimension of kind period or rate`},
	{"tenant of no entry", rulesWith("- {domain: d, match: [{key: k}], dimension: a, tenant: [org]}"), `policy.yaml:8: descriptors[0].tenant[0]: match has no key "org"; allowed: a key of match`},
	{"tenant of two entries", rulesWith("- {domain: d, match: [{key: k}, {key: k}], dimension: a, tenant: [k]}"), `policy.yaml:8: descriptors[0].tenant[0]: match has the key "k" more than once; allowed: a key that match has once`},
	{"tenant twice", rulesWith("- {domain: d, match: [{key: k}], dimension: a, tenant: [k, k]}"), `policy.yaml:8: descriptors[0].tenant[1]: "k" is given twice; allowed: keys of match, each once`},
	{"shadow of a word", rulesWith("- {domain: d, match: [{key: k}], dimension: a, shadow: maybe}"), `policy.yaml:8: descriptors[0].shadow: "maybe" is text; allowed: true or false`},
	{"one path twice", rulesWith("- {domain: d, match: [{key: k, value: v*}], dimension: a}", `- {domain: d, match: [{value: "v*", key: k}], unlimited: true}`), `policy.yaml:9: descriptors[1]: descriptor d/k=v* is given twice; first at policy.yaml:8; allowed: one in all files`},
	{"one name twice", rulesWith("- {domain: d, match: [{key: k}], dimension: a, name: n}", "- {domain: d, match: [{key: l}], dimension: a, name: n}"), `policy.yaml:9: descriptors[1].name: name n is given twice; first at policy.yaml:8; allowed: one in all files`},
	{"rule that replaces itself", rulesWith("- {domain: d, match: [{key: k}], dimension: a, name: n, replaces: [n]}"), `policy.yaml:8: descriptors[0].replaces[0]: a rule does not replace itself; allowed: the name of another rule of the domain`},
	{"rule with an odd word for overrides", rulesWith("- {domain: d, match: [{key: k}], dimension: a, overrides: true}"), `policy.yaml:8: descriptors[0].overrides: "true" is not known; allowed: refuse or accept`},
	{"rule with an unknown field", rulesWith("- {domain: d, match: [{key: k}], dimension: a, shadow_mode: true}"), `policy.yaml:8: descriptors[0].shadow_mode: unknown field; allowed: ` + ruleFields},
}

const rulesPolicy = `dimensions:
- {name: marketing_messages, kind: period, limit: 5, period: {every: day, timezone: Asia/Seoul}, class: hard, plans: {gold: {limit: 50}}}
- {name: calls, kind: rate, limit: 10/s, burst: 20, class: bounded, overshoot: 5}
descriptors:
- {domain: messaging, match: [{key: message_type, value: marketing}, {key: to_number}], dimension: marketing_messages, name: marketing, overrides: accept}
- {domain: messaging, match: [{key: path, value: /v1/*}, {key: org}, {key: user}], dimension: calls, tenant: [org], shadow: true, replaces: [marketing, gone]}
- {domain: auth, match: [{key: kind, value: login}], dimension: marketing_messages}
- {domain: auth, match: [{key: kind, value: probe}], unlimited: true}
default_plan: gold
`

func TestDescriptorsSayWhereRequestsAreCounted(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, rulesPolicy)
	s := doc.Snapshot(3)
	for _, tc := range []struct {
		descriptor string
		key        quota.Key
		want       []string
	}{
		{"messaging/message_type=marketing,to_number=%2B82", quota.Key{Tenant: "+82", Dimension: "marketing_messages"}, []string{
			"rule: messaging/message_type=marketing,to_number, named marketing",
			`tenant: "+82" (the value of to_number)`, "dimension: marketing_messages",
			"a limit that the request brings along: honoured, in an account of its own"}},
		{"messaging/path=/v1/x,org=acme,user=bob", quota.Key{Tenant: "acme", Dimension: "calls"}, []string{
			`rule: messaging/path=/v1/*,org,user`, "tenant: acme (the value of org)", "dimension: calls",
			"shadow: decides and counts, and always allows", "replaces, in the same request: gone, marketing"}},
		{"auth/kind=login", quota.Key{Tenant: "auth", Dimension: "marketing_messages"}, []string{
			"rule: auth/kind=login", "tenant: auth (the domain, since no entry of the rule names it)", "dimension: marketing_messages"}},
		{"auth/kind=probe", quota.Key{}, []string{"rule: auth/kind=probe", "counted: nowhere, it is unlimited and always allowed"}},
		{"auth/kind=logout", quota.Key{}, []string{"rule: none matches, so it is allowed and not counted; rules of auth: kind=login, kind=probe"}},
		{"audio/kind=login", quota.Key{}, []string{"rule: none matches, so it is allowed and not counted; domains with rules: auth, messaging"}},
		{"messaging/message_type=marketing,to_number", quota.Key{}, []string{
			"rule: messaging/message_type=marketing,to_number, named marketing",
			"tenant: none, the values can be no tenant's name: refused as unknown_tenant",
			"a limit that the request brings along: honoured, in an account of its own"}},
	} {
		d, err := s.ExplainDescriptor(tc.descriptor)
		if err != nil || d.Key != tc.key || !slices.Equal(d.Lines, tc.want) {
			t.Errorf("%s: %v, %v\n%s", tc.descriptor, d.Key, err, strings.Join(d.Lines, "\n"))
		}
	}
	for _, bad := range []string{"", "auth", "/k=v", "auth/", "auth/=v", "auth/k=v,", "auth/k=%zz"} {
		var field *quota.FieldError
		if _, err := s.ExplainDescriptor(bad); !errors.As(err, &field) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	warned := `policy.yaml:6: descriptors[1].replaces[1]: no rule of domain messaging has the name "gone"`
	if got := doc.Warnings[len(doc.Warnings)-1].Error(); got != warned {
		t.Errorf("warnings %q", got)
	}
	lines, err := s.Explain(quota.Key{Tenant: "x", Dimension: "marketing_messages"}, today)
	if want := "descriptors: auth/kind=login, messaging/message_type=marketing,to_number"; err != nil || lines[len(lines)-1] != want {
		t.Errorf("%v %q", err, lines)
	}
}

func TestALimitThatARequestBringsAlong(t *testing.T) {
	t.Parallel()
	s := mustParse(t, rulesPolicy).Snapshot(3)
	at := time.Date(2026, 11, 30, 7, 41, 13, 0, time.UTC)
	dim, ok := s.Dimension("marketing_messages@70/MINUTE")
	if !ok || dim.Period.WindowAt(at).String() != "2026-11-30T07:41:00Z/2026-11-30T07:42:00Z" {
		t.Fatalf("%+v %v", dim, ok)
	}
	terms, m := resolve(t, s, "+82", "marketing_messages@70/MINUTE", at)
	base, _ := resolve(t, s, "+82", "marketing_messages", at)
	if terms.Limit != quota.LimitOf(70) || terms.Budget != quota.LimitOf(7) || m.Rule != RuleRequest || terms.Class != base.Class || terms.TTL != base.TTL {
		t.Errorf("%+v %+v", terms, m)
	}
	if base.Limit != quota.LimitOf(50) {
		t.Errorf("the dimension's own limit is %v", base.Limit)
	}
	lines, err := s.Explain(quota.Key{Tenant: "+82", Dimension: "marketing_messages@70/MINUTE"}, at)
	if err != nil || !slices.Contains(lines, "limit: 70 requests, decided by the request, which brought it along") {
		t.Errorf("%v %q", err, lines)
	}
	for _, name := range []string{"calls@5/MINUTE", "marketing_messages@5/minute", "nothing@5/MINUTE", "marketing_messages@5/MINUTE@5/MINUTE"} {
		if _, ok := s.Dimension(name); ok {
			t.Errorf("%s: no rule accepts it", name)
		}
		if _, _, err := s.Resolve(quota.Key{Tenant: "t", Dimension: name}, at); !errors.Is(err, ErrUnknownDimension) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAChangeOfDescriptorsIsShown(t *testing.T) {
	t.Parallel()
	before := mustParse(t, rulesPolicy)
	after := mustParse(t, strings.Replace(strings.Replace(rulesPolicy, "shadow: true", "shadow: false", 1),
		"- {domain: auth, match: [{key: kind, value: probe}], unlimited: true}\n", "", 1))
	var got []string
	for _, c := range Diff(before, after) {
		got = append(got, c.String())
	}
	want := []string{
		`descriptors."auth/kind=probe": removed (dimension unlimited, tenant none, shadow false, name none, replaces none, overrides refuse)`,
		`descriptors."messaging/path=/v1/*,org,user".shadow: true -> false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if before.Sum() == after.Sum() {
		t.Error("the sum does not tell them apart")
	}
}
