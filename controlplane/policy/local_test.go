package policy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// localWith is a good policy on lines 1 to 6, and local limits from line 8 on.
func localWith(lines ...string) string {
	return dimensionWith() + "local:\n" + strings.Join(lines, "\n") + "\n"
}

// namedBy is a policy with two limits, and a dimension and an operation that name some.
func namedBy(dimension, operation string) string {
	return "local:\n- {name: reqs, algorithm: fixed_window, limit: 5/s}\n- {name: bytes, algorithm: token_bucket, limit: 5/s, counts: cost}\n- {name: slots, algorithm: concurrency, limit: 5}\n" +
		"dimensions:\n- {name: a, kind: rate, class: hard, local: " + dimension + "}\n- {name: j, kind: concurrency, limit: 5, max_hold: 1h, class: hard}\n" +
		"operations:\n- {name: x, takes: [{dimension: a}], local: " + operation + "}\n"
}

var badLocals = []badInput{
	{"local limit without a name", localWith("- {algorithm: fixed_window, limit: 5/s}"), `policy.yaml:8: local[0].name: is missing; allowed: the local limit's name`},
	{"local limit without an algorithm", localWith("- {name: x, limit: 5/s}"), `policy.yaml:8: local[0].algorithm: is missing; allowed: token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_counter or concurrency`},
	{"unknown algorithm", localWith("- {name: x, algorithm: token_pail, limit: 5/s}"), `policy.yaml:8: local[0].algorithm: "token_pail" is not known; allowed: token_bucket,`},
	{"local limit twice", localWith("- {name: x, algorithm: fixed_window, limit: 5/s}", "- {name: x, algorithm: fixed_window, limit: 5/s}"), `policy.yaml:9: local[1].name: local limit x is given twice; first at policy.yaml:8; allowed: one in all files`},
	{"local limit named as a dimension", localWith("- {name: a, algorithm: fixed_window, limit: 5/s}"), `policy.yaml:8: local[0].name: a is a dimension, too; allowed: a name of its own: a denial names who denies by it`},
	{"unknown field of a local limit", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, ttl: 1s}"), `policy.yaml:8: local[0].ttl: unknown field; allowed: name, algorithm, limit, burst, queue,`},
	{"local limit without a limit", localWith("- {name: x, algorithm: fixed_window}"), `policy.yaml:8: local[0].limit: is missing; allowed: N/s, N/m`},
	{"local limit that is none", localWith("- {name: x, algorithm: fixed_window, limit: unlimited}"), `policy.yaml:8: local[0].limit: "unlimited" is not a rate; allowed: N/s, N/m, N/h, N/d or N/DURATION such as 1000/60s`},
	{"burst of a window", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, burst: 5}"), `policy.yaml:8: local[0].burst: has no meaning with algorithm fixed_window; allowed: only with algorithm token_bucket`},
	{"queue of a bucket", localWith("- {name: x, algorithm: token_bucket, limit: 5/s, queue: 5}"), `policy.yaml:8: local[0].queue: has no meaning with algorithm token_bucket; allowed: only with algorithm leaky_bucket or concurrency`},
	{"leaky bucket without a queue", localWith("- {name: x, algorithm: leaky_bucket, limit: 5/s}"), `policy.yaml:8: local[0].queue: is missing; allowed: how many may be in it`},
	{"a queue nobody can wait for", localWith("- {name: x, algorithm: leaky_bucket, limit: 5/s, queue: 101}"), `policy.yaml:8: local[0].queue: a queue of 101 takes longer than 20s to empty at 5/s; allowed: a queue that callers can wait for`},
	{"count_denied of a bucket", localWith("- {name: x, algorithm: token_bucket, limit: 5/s, count_denied: true}"), `policy.yaml:8: local[0].count_denied: has no meaning with algorithm token_bucket; allowed: only with algorithm sliding_log`},
	{"count_denied as a word", localWith("- {name: x, algorithm: sliding_log, limit: 5/s, count_denied: \"yes\"}"), `policy.yaml:8: local[0].count_denied: "yes" is text; allowed: true or false`},
	{"a large log", localWith("- {name: x, algorithm: sliding_log, limit: 10001/h, start: full}"), `policy.yaml:8: local[0].limit: 10001 is too large: a sliding log remembers every one; allowed: at most 10000, or another algorithm`},
	{"a log of many keys", localWith("- {name: x, algorithm: sliding_log, limit: 100/s, max_keys: 100001}"), `policy.yaml:8: local[0].max_keys: 100001 keys of 100 are too many for a sliding log; allowed: at most 100000, or another algorithm`},
	{"slots with a rate", localWith("- {name: x, algorithm: concurrency, limit: 5/s}"), `policy.yaml:8: local[0].limit: "5/s" is text; allowed: a whole number from 0 to 1000000`},
	{"slots with a start", localWith("- {name: x, algorithm: concurrency, limit: 5, start: full}"), `policy.yaml:8: local[0].start: has no meaning with algorithm concurrency; allowed: only with algorithm token_bucket, leaky_bucket,`},
	{"slots with a burst", localWith("- {name: x, algorithm: concurrency, limit: 5, burst: 6}"), `policy.yaml:8: local[0].burst: has no meaning with algorithm concurrency`},
	{"a queue without a count", localWith("- {name: x, algorithm: concurrency, limit: 5, queue: {age: 1s}}"), `policy.yaml:8: local[0].queue.count: is missing; allowed: how many may wait`},
	{"a queue of the wrong shape", localWith("- {name: x, algorithm: concurrency, limit: 5, queue: 7}"), `policy.yaml:8: local[0].queue: 7 is a number; allowed: a mapping of count, bytes, age`},
	{"a queue's age", localWith("- {name: x, algorithm: concurrency, limit: 5, queue: {count: 1, age: 2h}}"), `policy.yaml:8: local[0].queue.age: 2h is too long; allowed: a duration such as 30s, from 1ms to 1h`},
	{"unknown attribute", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, key: [shoe_size]}"), `policy.yaml:8: local[0].key[0]: "shoe_size" is not known; allowed: route, tenant, actor, api_key or address`},
	{"attribute twice", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, key: [route, route]}"), `policy.yaml:8: local[0].key[1]: route is given twice; allowed: each once`},
	{"prefix without addresses", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, ipv6_prefix: 56}"), `policy.yaml:8: local[0].ipv6_prefix: has no meaning without address in key; allowed: only with address in key`},
	{"prefix", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, key: [address], ipv6_prefix: 129}"), `policy.yaml:8: local[0].ipv6_prefix: 129 is too large; allowed: a whole number from 1 to 128`},
	{"max_keys 0", localWith("- {name: x, algorithm: fixed_window, limit: 5/s, max_keys: 0}"), `policy.yaml:8: local[0].max_keys: 0 is too small; allowed: a whole number from 1 to 10000000`},
	{"unknown local limit", namedBy("[recs]", "[]"), `policy.yaml:6: dimensions[0].local[0]: local limit "recs" is not defined; near: reqs; allowed: a local limit of the policy`},
	{"local limit named twice", namedBy("[reqs, reqs]", "[]"), `policy.yaml:6: dimensions[0].local[1]: reqs is given twice; allowed: each once`},
	{"a word for a list", namedBy("reqs", "[]"), `policy.yaml:6: dimensions[0].local: "reqs" is text; allowed: a list of local limits`},
	{"cost of an operation", namedBy("[bytes]", "[bytes]"), `policy.yaml:9: operations[0].local[0]: local limit bytes counts cost, which an operation has none of; allowed: one that counts requests, or list it at the dimensions`},
	{"slots that nobody gives back", namedBy("[slots]", "[]"), `policy.yaml:6: dimensions[0].local[0]: local limit slots has slots, which only an acquire gives back; allowed: at a dimension of kind concurrency, or an operation that takes from one`},
	{"slots of an operation that is taken", namedBy("[]", "[slots]"), `policy.yaml:9: operations[0].local[0]: local limit slots has slots, which only an acquire gives back`},
}

func TestBadLocalLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range badLocals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := parseOne(tc.text)
			var faults Faults
			if d != nil || !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("document %v, got\n%v\nwant one fault\n%s", d, err, tc.want)
			}
		})
	}
}

func TestLocalLimitsAreReadWithTheirDefaults(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `local:
- {name: tb, algorithm: token_bucket, limit: 100/s, key: [address, route], ipv6_prefix: 56, start: full, idle: 1m, max_keys: 5, counts: cost}
- {name: off, algorithm: token_bucket, limit: 0/s, burst: 9}
- {name: lb, algorithm: leaky_bucket, limit: 5/s, queue: 100}
- {name: log, algorithm: sliding_log, limit: 1000/s, count_denied: true}
- {name: w, algorithm: concurrency, limit: 8, queue: {count: 100, bytes: 4096}}
dimensions:
- {name: a, kind: rate, class: hard, local: [tb, lb]}
- {name: j, kind: concurrency, limit: 5, max_hold: 1h, class: hard, local: [w]}
operations:
- {name: x, takes: [{dimension: j}], local: [w, lb]}
`).Snapshot(1)
	second := func(n quota.Units) quota.Rate { return quota.Rate{Units: n, Per: time.Second} }
	want := []*Local{
		{Name: "lb", Algorithm: "leaky_bucket", Rate: second(5), Capacity: 100, IPv6Prefix: 64, Idle: 10 * time.Minute, MaxKeys: 100_000},
		{Name: "log", Algorithm: "sliding_log", Rate: second(1000), CountDenied: true, IPv6Prefix: 64, Idle: 10 * time.Minute, MaxKeys: 10_000},
		{Name: "off", Algorithm: "token_bucket", Rate: second(0), IPv6Prefix: 64, Idle: 10 * time.Minute, MaxKeys: 100_000},
		{Name: "tb", Algorithm: "token_bucket", Rate: second(100), Capacity: 100, Key: []string{"route", "address"}, IPv6Prefix: 56, CountCost: true, StartFull: true, Idle: time.Minute, MaxKeys: 5},
		{Name: "w", Algorithm: "concurrency", Capacity: 8, Queue: LocalQueue{Count: 100, Bytes: 4096, Age: time.Second}, IPv6Prefix: 64, Idle: 10 * time.Minute, MaxKeys: 100_000},
	}
	if got := s.Locals(); !reflect.DeepEqual(got, want) {
		for i := range got {
			t.Errorf("%+v\nwant %+v", got[i], want[min(i, len(want)-1)])
		}
	}
	d, _ := s.Dimension("a")
	op, _ := s.Operation("x")
	if !slices.Equal(d.Local, []string{"lb", "tb"}) || !slices.Equal(op.Local, []string{"lb", "w"}) {
		t.Errorf("named by %v and %v", d.Local, op.Local)
	}
}

func TestDiffAndExplainOfLocalLimits(t *testing.T) {
	t.Parallel()
	const before = "dimensions:\n- {name: a, kind: rate, class: hard}\noperations:\n- {name: x, takes: [{dimension: a}]}\n"
	const after = "local:\n- {name: b, algorithm: token_bucket, limit: 100/s, burst: 200, key: [tenant]}\n- {name: w, algorithm: sliding_log, limit: 5/s}\n" +
		"dimensions:\n- {name: a, kind: rate, class: hard, local: [b]}\noperations:\n- {name: x, takes: [{dimension: a}], local: [w]}\n"
	was, is := mustParse(t, before), mustParse(t, after)
	diff := func(from, to *Document) (lines []string) {
		for _, c := range Diff(from, to) {
			lines = append(lines, c.String())
		}
		return lines
	}
	want := []string{
		"dimensions.a.local: none -> b",
		"local.b: added (algorithm token_bucket, limit 100/s, capacity 200, key tenant, counts requests, start empty, idle 10m, max_keys 100000)",
		"local.w: added (algorithm sliding_log, limit 5/s, capacity 0, key none, counts requests, start empty, idle 10m, max_keys 100000)",
		"operations.x.local: none -> w",
	}
	if got := diff(was, is); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	more := mustParse(t, strings.Replace(after, "burst: 200", "burst: 300, start: full", 1))
	if got := diff(is, more); !slices.Equal(got, []string{"local.b.capacity: 200 -> 300", "local.b.start: empty -> full"}) || is.Sum() == more.Sum() {
		t.Errorf("got %q", got)
	}
	lines, err := is.Snapshot(1).Explain(quota.Key{Tenant: "acme", Dimension: "a"}, today)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"local limit b of each agent: token_bucket of 100/s with burst 200, counts requests by tenant",
		"operation x: takes 1, under the local limits w",
	} {
		if !slices.Contains(lines, line) {
			t.Errorf("no %q in\n%s", line, strings.Join(lines, "\n"))
		}
	}
}

func TestALongStartIsWarnedOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- {name: x, algorithm: fixed_window, limit: 5/h}":              "policy.yaml:8: local[0].limit: after each start of an agent nothing passes for up to 1h; start: full lets it pass, and twice as much around a restart",
		"- {name: x, algorithm: fixed_window, limit: 5/h, start: full}": "",
		"- {name: x, algorithm: token_bucket, limit: 5/h}":              "",
		"- {name: x, algorithm: sliding_log, limit: 5/m}":               "",
	} {
		if got := Faults(mustParse(t, localWith(text)).Warnings).Error(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
