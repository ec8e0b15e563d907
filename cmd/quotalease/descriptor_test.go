package main

import (
	"encoding/json"
	"testing"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestExplainOfADescriptor(t *testing.T) {
	t.Parallel()
	server := busy()
	server.replies["GetPolicy"] = &pb.GetPolicyReply{Version: version(1, "cli", "mina", "proxies"), Text: devPolicy}
	c := server.serve(t)
	for descriptor, want := range map[string]string{
		"gateway/tenant=acme,path=/exports/7": `rule: gateway/tenant,path=/exports*, named exports
tenant: acme (the value of tenant)
dimension: report_export

tenant acme: listed with plan basic
limit: 80000 units, decided by the override of sales-ops until 2027-01-31 (Q4 deal)
`,
		"gateway/tenant=acme,path=/healthz": `rule: gateway/tenant,path=/healthz
counted: nowhere, it is unlimited and always allowed
`,
		"gateway/path=/exports": `rule: none matches, so it is allowed and not counted; rules of gateway: tenant, tenant,path=/exports*, tenant,path=/healthz
`,
	} {
		r := c.run(t, "policy", "explain", "--descriptor", descriptor)
		r.expect(t, exitDone)
		if r.out != want {
			t.Errorf("%s:\n%s\nwant\n%s", descriptor, r.out, want)
		}
	}
	r := c.run(t, "policy", "explain", "--descriptor", "gateway/tenant=acme", "-o", "json")
	r.expect(t, exitDone)
	var view descriptorView
	if err := json.Unmarshal([]byte(r.out), &view); err != nil || *view.Match != "gateway/tenant" || *view.Tenant != "acme" || *view.Dimension != "api_calls" || view.Limit.Rule != "override" {
		t.Errorf("%v\n%s", err, r.out)
	}
	server.replies["GetPolicy"] = &pb.GetPolicyReply{Version: version(1, "cli", "mina", "proxies"), Text: `local: [{name: clients, algorithm: fixed_window, limit: 60/m, key: [address]}]
dimensions: [{name: a, kind: rate, class: hard}]
descriptors: [{domain: edge, match: [{key: remote_address}], local: clients, caller: {address: remote_address}}]
`}
	c = server.serve(t)
	r = c.run(t, "policy", "explain", "--descriptor", "edge/remote_address=203.0.113.7")
	r.expect(t, exitDone)
	if want := "rule: edge/remote_address\nlocal limit clients of each agent: fixed_window of 60/m, counts requests by address\naddress: the value of remote_address, kept as a keyed hash\n"; r.out != want {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
	r = c.run(t, "policy", "explain", "--descriptor", "edge/remote_address=203.0.113.7", "-o", "json")
	r.expect(t, exitDone)
	view = descriptorView{}
	if err := json.Unmarshal([]byte(r.out), &view); err != nil || *view.Local != "clients" || view.Tenant != nil || view.Dimension != nil || view.Limit != nil || view.Unlimited {
		t.Errorf("%v\n%s", err, r.out)
	}
	r = c.run(t, "policy", "explain", "--descriptor", "gateway")
	r.expect(t, exitRefused)
	wantText(t, "a descriptor without a path", r.err, "--descriptor: DOMAIN/KEY=VALUE,KEY=VALUE")
	r = c.run(t, "policy", "explain", "acme", "api_calls", "--descriptor", "gateway/tenant=acme")
	r.expect(t, exitRefused)
}
