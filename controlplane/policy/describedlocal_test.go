package policy

import (
	"slices"
	"strings"
	"testing"
)

// localRules is a good policy on lines 1 to 8, and descriptors from line 9 on.
func localRules(lines ...string) string {
	return `local:
- {name: client, algorithm: fixed_window, limit: 3/m, key: [address]}
- {name: org_client, algorithm: token_bucket, limit: 5/s, key: [tenant, address, route]}
- {name: backend, algorithm: token_bucket, limit: 5/s}
- {name: workers, algorithm: concurrency, limit: 5}
dimensions:
- {name: a, kind: rate, class: hard}
descriptors:
` + strings.Join(lines, "\n") + "\n"
}

var badLocalRules = []badInput{
	{"two targets", localRules("- {domain: d, match: [{key: k}], dimension: a, local: backend}"), `policy.yaml:9: descriptors[0].local: is given beside another; allowed: one of dimension, local and unlimited: true`},
	{"unlimited and local", localRules("- {domain: d, match: [{key: k}], local: backend, unlimited: true}"), `policy.yaml:9: descriptors[0].local: is given beside another; allowed: one of dimension, local and unlimited: true`},
	{"a list of limits", localRules("- {domain: d, match: [{key: k}], local: [backend]}"), `policy.yaml:9: descriptors[0].local: `},
	{"no such limit", localRules("- {domain: d, match: [{key: k}], local: backends}"), `policy.yaml:9: descriptors[0].local: local limit "backends" is not defined; near: backend; allowed: a local limit of the policy`},
	{"a dimension for a limit", localRules("- {domain: d, match: [{key: k}], local: a}"), `policy.yaml:9: descriptors[0].local: local limit "a" is not defined; allowed: a local limit of the policy`},
	{"a limit for a dimension", localRules("- {domain: d, match: [{key: k}], dimension: backend}"), `policy.yaml:9: descriptors[0].dimension: dimension "backend" is not defined; allowed: a dimension of the policy`},
	{"slots", localRules("- {domain: d, match: [{key: k}], local: workers}"), `policy.yaml:9: descriptors[0].local: local limit workers has slots: nobody could give them back; allowed: a local limit of another algorithm`},
	{"no caller", localRules("- {domain: d, match: [{key: remote_address}], local: client}"), `policy.yaml:9: descriptors[0].caller.address: is missing: local limit client counts by it; allowed: a key of match`},
	{"a caller without the address", localRules("- {domain: d, match: [{key: k}, {key: path}],", "   caller: {route: path}, local: org_client}"), `policy.yaml:10: descriptors[0].caller.address: is missing: local limit org_client counts by it; allowed: a key of match`},
	{"a caller that does not count", localRules("- {domain: d, match: [{key: k}], local: client, caller: {address: k, actor: k}}"), `policy.yaml:9: descriptors[0].caller.actor: local limit client does not count by it; allowed: only what is in the limit's key: address`},
	{"a caller of no entry", localRules("- {domain: d, match: [{key: k}], local: client, caller: {address: remote_address}}"), `policy.yaml:9: descriptors[0].caller.address: match has no key "remote_address"; allowed: a key of match`},
	{"a caller of two entries", localRules("- {domain: d, match: [{key: k}, {key: k}], local: client, caller: {address: k}}"), `policy.yaml:9: descriptors[0].caller.address: match has the key "k" more than once; allowed: a key that match has once`},
	{"an unknown attribute", localRules("- {domain: d, match: [{key: k}], local: client, caller: {addres: k}}"), `policy.yaml:9: descriptors[0].caller.addres: unknown field; allowed: route, actor, api_key, address`},
	{"a caller that is a word", localRules("- {domain: d, match: [{key: k}], local: client, caller: k}"), `policy.yaml:9: descriptors[0].caller: `},
	{"a caller of a dimension", localRules("- {domain: d, match: [{key: k}], dimension: a, caller: {address: k}}"), `policy.yaml:9: descriptors[0].caller: has no meaning without local; allowed: only with local`},
	{"a tenant that does not count", localRules("- {domain: d, match: [{key: k}], local: backend, tenant: [k]}"), `policy.yaml:9: descriptors[0].tenant: local limit backend does not count by it; allowed: only what is in the limit's key: none`},
	{"a limit of the request's own", localRules("- {domain: d, match: [{key: k}], local: backend, overrides: refuse}"), `policy.yaml:9: descriptors[0].overrides: has no meaning with local; allowed: only with dimension`},
}

const localRulesPolicy = `local:
- {name: client, algorithm: fixed_window, limit: 3/m, key: [address]}
- {name: org_client, algorithm: token_bucket, limit: 5/s, burst: 9, key: [tenant, address, route]}
- {name: backend, algorithm: token_bucket, limit: 5/s}
dimensions:
- {name: a, kind: rate, class: hard}
descriptors:
- {domain: edge, match: [{key: remote_address}], local: client, caller: {address: remote_address}, name: clients, shadow: true}
- {domain: edge, match: [{key: path, value: /v1/*}, {key: org}, {key: remote_address}], local: org_client, caller: {address: remote_address, route: path}}
- {domain: edge, match: [{key: org}, {key: path}, {key: remote_address}], local: org_client, caller: {address: remote_address, route: path}, tenant: [org, path]}
- {domain: edge, match: [{key: all}], local: backend}
`

func TestDescriptorsSayWhichLocalLimitDecides(t *testing.T) {
	t.Parallel()
	s := mustParse(t, localRulesPolicy).Snapshot(3)
	for descriptor, want := range map[string][]string{
		"edge/remote_address=203.0.113.7": {
			"rule: edge/remote_address, named clients",
			"local limit client of each agent: fixed_window of 3/m, counts requests by address",
			"address: the value of remote_address, kept as a keyed hash",
			"shadow: decides and counts, and always allows"},
		"edge/path=/v1/x,org=acme,remote_address=203.0.113.7": {
			"rule: edge/path=/v1/*,org,remote_address",
			"local limit org_client of each agent: token_bucket of 5/s with burst 9, counts requests by route, tenant, address",
			"tenant: acme (the value of org)",
			"route: the value of path",
			"address: the value of remote_address, kept as a keyed hash"},
		"edge/org=acme,path=x,remote_address=here": {
			"rule: edge/org,path,remote_address",
			"local limit org_client of each agent: token_bucket of 5/s with burst 9, counts requests by route, tenant, address",
			`tenant: "acme/x" (the value of org and path)`,
			"route: the value of path",
			"address: none, the value of remote_address can be none: refused as unknown_tenant"},
		"edge/all=x": {"rule: edge/all", "local limit backend of each agent: token_bucket of 5/s with burst 5, counts requests"},
	} {
		d, err := s.ExplainDescriptor(descriptor)
		if err != nil || d.Key.Dimension != "" || !slices.Equal(d.Lines, want) {
			t.Errorf("%s: %v, %v\n%s", descriptor, d.Key, err, strings.Join(d.Lines, "\n"))
		}
		if strings.Contains(strings.Join(d.Lines, "\n"), "203.0.113") {
			t.Errorf("the address is shown: %q", d.Lines)
		}
	}
}

func TestAChangeOfALocalRuleIsShown(t *testing.T) {
	t.Parallel()
	before := mustParse(t, localRulesPolicy)
	after := mustParse(t, strings.NewReplacer("{key: all}], local: backend", "{key: all}], local: client, caller: {address: all}",
		"match: [{key: remote_address}], local: client, caller: {address: remote_address}, name", "match: [{key: remote_address}], unlimited: true, name", ", shadow: true", "").Replace(localRulesPolicy))
	var got []string
	for _, c := range Diff(before, after) {
		got = append(got, c.String())
	}
	want := []string{
		`descriptors."edge/all".caller: none -> address of all`,
		`descriptors."edge/all".local: backend -> client`,
		`descriptors."edge/remote_address".caller: address of remote_address -> none`,
		`descriptors."edge/remote_address".dimension: none -> unlimited`,
		`descriptors."edge/remote_address".local: client -> none`,
		`descriptors."edge/remote_address".shadow: true -> false`,
		`descriptors."edge/remote_address".tenant: edge -> none`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
