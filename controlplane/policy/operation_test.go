package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// operationsWith is a good policy on lines 1 to 6, and operations from line 8 on.
func operationsWith(lines ...string) string {
	return dimensionWith() + "operations:\n" + strings.Join(lines, "\n") + "\n"
}

var badOperations = []badInput{
	{"operation without takes", operationsWith("- {name: x}"), `policy.yaml:8: operations[0].takes: is missing; allowed: 1 to 16 of {dimension, cost}`},
	{"operation of nothing", operationsWith("- {name: x, takes: []}"), `policy.yaml:8: operations[0].takes: is an empty list; allowed: 1 to 16 of {dimension, cost}`},
	{"operation with an empty field", operationsWith("- {name: x, takes: }"), `policy.yaml:8: operations[0].takes: is empty; allowed: 1 to 16 of {dimension, cost}`},
	{"operation without a name", operationsWith("- takes: [{dimension: a}]"), `policy.yaml:8: operations[0].name: is missing; allowed: the operation's name`},
	{"operation of a bad name", operationsWith("- {name: Start Export, takes: [{dimension: a}]}"), `policy.yaml:8: operations[0].name: "Start Export" is not a name`},
	{"operation twice", operationsWith("- {name: x, takes: [{dimension: a}]}", "- {name: x, takes: [{dimension: a}]}"), `policy.yaml:9: operations[1].name: operation x is given twice; first at policy.yaml:8; allowed: one in all files`},
	{"operation on_deny", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: wait}"), `policy.yaml:8: operations[0].on_deny: "wait" is not known; allowed: deny or defer`},
	{"operation unknown field", operationsWith("- {name: x, takes: [{dimension: a}], deny: wait}"), `policy.yaml:8: operations[0].deny: unknown field; allowed: name, takes, outage, local, on_deny, defer`},
	{"defer without on_deny", operationsWith("- {name: x, takes: [{dimension: a}],", "   defer: {max_age: 1h}}"), `policy.yaml:9: operations[0].defer: has no meaning with on_deny deny; allowed: only with on_deny defer`},
	{"defer for too long", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: defer, defer: {max_age: 745h}}"), `policy.yaml:8: operations[0].defer.max_age: 745h is too long; allowed: a duration such as 30s, from 1s to 744h`},
	{"defer for no time", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: defer, defer: {max_age: 0}}"), `policy.yaml:8: operations[0].defer.max_age: 0 is too short; allowed: a duration such as 30s, from 1s to 744h`},
	{"defer nobody", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: defer, defer: {max_tickets: 0}}"), `policy.yaml:8: operations[0].defer.max_tickets: 0 is too small; allowed: a whole number from 1 to 10000`},
	{"defer a million", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: defer, defer: {max_tickets: 1000000}}"), `policy.yaml:8: operations[0].defer.max_tickets: 1000000 is too large; allowed: a whole number from 1 to 10000`},
	{"defer unknown field", operationsWith("- {name: x, takes: [{dimension: a}], on_deny: defer, defer: {age: 1h}}"), `policy.yaml:8: operations[0].defer.age: unknown field; allowed: max_age, max_tickets`},
	{"defer for slots", "dimensions:\n- {name: s, kind: concurrency, limit: 5, class: hard, max_hold: 1h}\noperations:\n- {name: x, takes: [{dimension: s}], on_deny: defer}\n", `policy.yaml:4: operations[0].on_deny: dimension s is a concurrency limit, for which callers wait when they acquire; allowed: deny, or an operation without concurrency limits`},
	{"defer with a period that is none", swap("period", "period: {every: decade}") + "operations:\n- {name: x, takes: [{dimension: a}], on_deny: defer}\n", `period.every: "decade" is not allowed here`},
	{"unknown dimension", operationsWith("- {name: x, takes: [{dimension: ab}]}"), `policy.yaml:8: operations[0].takes[0].dimension: dimension "ab" is not defined; near: a; allowed: a dimension of the policy`},
	{"dimension taken twice", operationsWith("- {name: x, takes: [{dimension: a}, {dimension: a, cost: 2}]}"), `policy.yaml:8: operations[0].takes[1].dimension: dimension a is taken twice; first at policy.yaml:8; allowed: each dimension once, with the whole cost`},
	{"take of nothing", operationsWith("- {name: x, takes: [{cost: 1}]}"), `policy.yaml:8: operations[0].takes[0].dimension: is missing; allowed: the name of a dimension`},
	{"cost 0", operationsWith("- {name: x, takes: [{dimension: a, cost: 0}]}"), `policy.yaml:8: operations[0].takes[0].cost: 0 is too small; allowed: a whole number from 1 to 9007199254740991`},
	{"a cost that no door takes", operationsWith("- {name: x, takes: [{dimension: a, cost: 9007199254740992}]}"), `policy.yaml:8: operations[0].takes[0].cost: 9007199254740992 is too large; allowed: a whole number from 1 to 9007199254740991`},
	{"outage mode of an operation", operationsWith("- {name: x, takes: [{dimension: a}], outage: {mode: extend}}"), `policy.yaml:8: operations[0].outage.mode: "extend" is not known; allowed: closed or open`},
	{"outage word of an operation", operationsWith("- {name: x, takes: [{dimension: a}], outage: open}"), `policy.yaml:8: operations[0].outage: "open" is text; allowed: closed, or {mode, after, for}`},
	{"open without for", operationsWith("- {name: x, takes: [{dimension: a}], outage: {mode: open}}"), `policy.yaml:8: operations[0].outage.for: is missing; allowed: a duration such as 30s, from 1ms to 24h`},
	{"open of an exact dimension", swap("class", "class: exact") + "operations:\n- {name: x, takes: [{dimension: a}], outage: {mode: open, for: 5m}}\n", `policy.yaml:8: operations[0].outage.mode: dimension a is exact and cannot be open; allowed: closed, or an operation without exact dimensions`},
	{"rollout is to come", dimensionWith("rollout: {mode: shadow}"), `policy.yaml:7: dimensions[0].rollout: unknown field; allowed: name,`},
}

func TestOperationsTakeFromSeveralDimensions(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `operations:
- name: start_export
  takes: [{dimension: report_export}, {dimension: export_slots, cost: 2}]
- {name: read, takes: [{dimension: report_export}], outage: {mode: open, after: 1s, for: 5m}}
- {name: pay, takes: [{dimension: report_export}], outage: closed}
dimensions:
- {name: report_export, kind: period, limit: 50000, class: hard, period: {every: day}}
- {name: export_slots, kind: concurrency, limit: 20, class: hard, max_hold: 2h}
`).Snapshot(1)
	for name, want := range map[string]Operation{
		"start_export": {Name: "start_export", Takes: []Take{{"export_slots", 2}, {"report_export", 1}}},
		"read":         {Name: "read", Takes: []Take{{"report_export", 1}}, Outage: &Outage{Open: true, After: time.Second, For: 5 * time.Minute}},
		"pay":          {Name: "pay", Takes: []Take{{"report_export", 1}}, Outage: &Outage{After: 10 * time.Second}},
	} {
		got, ok := s.Operation(name)
		if !ok || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, want)
		}
	}
	if got, ok := s.Operation("start"); ok {
		t.Errorf("an operation nobody defined: %+v", got)
	}
	if n := len(s.Operations()); n != 3 {
		t.Errorf("%d operations, want 3", n)
	}
}

func TestTooManyTakes(t *testing.T) {
	t.Parallel()
	takes := strings.Repeat("{dimension: a}, ", 17)
	_, err := parseOne(operationsWith("- {name: x, takes: [" + takes + "]}"))
	if err == nil || !strings.Contains(err.Error(), "is taken twice") {
		t.Errorf("got %v", err)
	}
	var names, dims []string
	for i := range 17 {
		name := "d" + string(rune('a'+i))
		names = append(names, "{dimension: "+name+"}")
		dims = append(dims, "- {name: "+name+", kind: rate, class: hard}")
	}
	_, err = parseOne("dimensions:\n" + strings.Join(dims, "\n") + "\noperations:\n- {name: x, takes: [" + strings.Join(names, ", ") + "]}\n")
	if want := "policy.yaml:20: operations[0].takes[16]: too many takes in operations[0].takes; allowed: at most 16"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestACostAboveTheLimitIsWarnedOf(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, operationsWith("- {name: x, takes: [{dimension: a, cost: 1001}]}"))
	want := "policy.yaml:8: operations[0].takes[0].dimension: a cost of 1001 is above the limit of 1000: only a plan or an override with a higher one lets it pass"
	if got := Faults(doc.Warnings).Error(); got != want {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

// Who is denied an operation waits its turn where policy says so, with limits that have defaults.
func TestR4_5OperationsSayWhetherDeniedCallersMayWait(t *testing.T) {
	t.Parallel()
	before := `operations:
- {name: plain, takes: [{dimension: calls}]}
- {name: turn, takes: [{dimension: calls}], on_deny: defer}
- {name: short, takes: [{dimension: exports}], on_deny: defer, defer: {max_age: 90s, max_tickets: 10}}
dimensions:
- {name: calls, kind: rate, limit: 500/1s, burst: 500, class: hard}
- {name: exports, kind: period, limit: 50000, class: hard, period: {every: day}}
`
	doc := mustParse(t, before)
	s := doc.Snapshot(1)
	for name, want := range map[string]*Deferral{
		"plain": nil, "turn": {MaxAge: time.Hour, MaxTickets: 1000}, "short": {MaxAge: 90 * time.Second, MaxTickets: 10},
	} {
		if op, ok := s.Operation(name); !ok || !reflect.DeepEqual(op.Defer, want) {
			t.Errorf("%s: %+v, want %+v", name, op.Defer, want)
		}
	}
	if len(doc.Warnings) != 1 || !strings.Contains(doc.Warnings[0].Error(), "a ticket is too old after 1m30s, and the window of exports is a day") {
		t.Errorf("warnings: %v, want one about a day's window", doc.Warnings)
	}
	after := mustParse(t, strings.Replace(before, "max_age: 90s", "max_age: 2m", 1))
	changes := Diff(doc, after)
	if len(changes) != 1 || changes[0] != (Change{Path: "operations.short.defer.max_age", Old: "1m30s", New: "2m"}) {
		t.Errorf("changes: %+v", changes)
	}
}
