package controlplane

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestTheCatalogueTellsAgentsAllThatTheyNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `
dimensions:
  - name: batch_jobs
    kind: concurrency
    limit: 20
    max_hold: 1h
    class: hard
    lease: {ttl: 10s, grace: 2s}
  - name: api_calls
    kind: rate
    limit: 50/s
    burst: 100
    class: best_effort
  - name: report_export
    kind: period
    limit: 1000
    period: {every: month, timezone: Asia/Seoul, anchor: {day: 5}}
    class: hard
    outage: {mode: extend, after: 3s, rate: 600/m, budget: 40}
operations:
  - name: start_export
    takes: [{dimension: batch_jobs}, {dimension: report_export, cost: 2}]
    outage: {mode: open, for: 1m}
  - name: pay
    takes: [{dimension: report_export}]
    outage: closed
descriptors:
  - {domain: web, match: [{key: path, value: /v1/*}, {key: org}], dimension: api_calls, tenant: [org], shadow: true, name: v1, replaces: [probe], overrides: accept}
  - {domain: web, match: [{key: probe}], unlimited: true, name: probe}
  - {domain: web, match: [{key: to}, {key: remote_address}], local: clients, caller: {address: remote_address}}
local:
  - {name: clients, algorithm: fixed_window, limit: 5/m, key: [tenant, address]}
`)
	c := w.agent().sync(&pb.SyncRequest{}).GetCatalogue()
	if c != nil {
		t.Fatal("an agent of this version has it already")
	}
	c = catalogue(w.cp.policies.snapshot())
	dims := map[string]*pb.Dimension{}
	for _, d := range c.GetDimensions() {
		dims[d.GetName()] = d
	}
	v1 := &pb.Descriptor{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "path", Value: "/v1/*"}, {Key: "org"}}, Dimension: "api_calls",
		Tenant: []int32{1}, Shadow: true, Name: "v1", Replaces: []string{"probe"}, Overrides: true}
	probe := &pb.Descriptor{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "probe"}}, Name: "probe"}
	clients := &pb.Descriptor{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "to"}, {Key: "remote_address"}}, Dimension: "clients",
		Local: true, Tenant: []int32{0}, Caller: []*pb.DescriptorCaller{{Attribute: "address", At: 1}}}
	if d := c.GetDescriptors(); len(d) != 3 || !proto.Equal(d[0], v1) || !proto.Equal(d[1], probe) || !proto.Equal(d[2], clients) {
		t.Errorf("descriptors: %v", d)
	}
	us := func(d time.Duration) int64 { return d.Microseconds() }
	jobs, calls, exports := dims["batch_jobs"], dims["api_calls"], dims["report_export"]
	if jobs.GetMaxHoldUs() != us(time.Hour) || jobs.GetGraceUs() != us(2*time.Second) || jobs.GetPeriod() != nil || jobs.GetRate() != nil || jobs.GetLimit() != 20 {
		t.Errorf("slots: %v", jobs)
	}
	if r := calls.GetRate(); r.GetUnits() != 50 || r.GetPerUs() != us(time.Second) || calls.GetLimit() != 100 || calls.GetMaxHoldUs() != 0 {
		t.Errorf("rate: %v", calls)
	}
	out := &pb.Outage{Mode: "extend", AfterUs: us(3 * time.Second), Rate: &pb.Rate{Units: 600, PerUs: us(time.Minute)}, Budget: 40}
	if !proto.Equal(exports.GetOutage(), out) || exports.GetPeriod().GetAnchorDay() != 5 || exports.GetPeriod().GetTimezone() != "Asia/Seoul" {
		t.Errorf("period: %v", exports)
	}
	want := []*pb.Operation{
		{Name: "pay", Takes: []*pb.Take{{Dimension: "report_export", Cost: 1}}, Outage: &pb.Outage{Mode: "closed", AfterUs: us(10 * time.Second)}},
		{Name: "start_export", Takes: []*pb.Take{{Dimension: "batch_jobs", Cost: 1}, {Dimension: "report_export", Cost: 2}},
			Outage: &pb.Outage{Mode: "open", AfterUs: us(10 * time.Second), ForUs: us(time.Minute)}},
	}
	if len(c.GetOperations()) != 2 || !proto.Equal(c.GetOperations()[0], want[0]) || !proto.Equal(c.GetOperations()[1], want[1]) {
		t.Errorf("operations: %v", c.GetOperations())
	}
}
