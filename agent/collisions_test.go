package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestM3KeyCollisions takes from keys that look alike, through both doors, the agent, the control
// plane and the ledger: each has a limit of its own, or is refused. That both stores keep them
// apart is the conformance suite's to say.
func TestM3KeyCollisions(t *testing.T) {
	t.Parallel()
	const limit = 3
	inWorld(t, `
dimensions:
- {name: c, kind: period, limit: 3, period: {every: day}, class: hard, overshoot: 3, cold: {wait: 500ms, then: deny}}
- {name: b_c, kind: period, limit: 3, period: {every: day}, class: hard, overshoot: 3, cold: {wait: 500ms, then: deny}}
- {name: exact_c, kind: period, limit: 3, period: {every: day}, class: exact}
`, func(t *testing.T, w *world) {
		body := func(tenant, dimension string) string {
			text, err := json.Marshal(map[string]string{"tenant": tenant, "dimension": dimension})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		long := strings.Repeat("x", 255)
		for _, k := range []struct{ tenant, dimension string }{
			{"a_b", "c"}, {"a", "b_c"}, {"a", "c"}, {"a/b", "c"}, {"a_b ", "c"}, {"A_b", "c"}, {"a%", "c"}, {"a_b", "exact_c"}, {"a/b", "exact_c"},
			{"caf\u00e9", "c"}, {"cafe\u0301", "c"}, {"\u0430_b", "c"}, {long + "y", "c"}, {long + "z", "c"}, {long + "y", "exact_c"},
		} {
			for i := range limit {
				ask := w.post
				if i == 1 {
					ask = w.call
				}
				if v := ask("take", body(k.tenant, k.dimension)); v.Outcome != "allowed" {
					t.Errorf("%q %s: take %d of %d: %s", k.tenant, k.dimension, i+1, limit, v)
				}
			}
			for _, ask := range []func(string, string) told{w.post, w.call} {
				if v := ask("take", body(k.tenant, k.dimension)); v.Outcome != "denied" {
					t.Errorf("%q %s: more than its limit: %s", k.tenant, k.dimension, v)
				}
			}
		}
		for name, tenant := range map[string]string{
			"NUL": "a\x00b", "a line break": "a\nb", "a C1 control": "a\u0085b", "10 kB": strings.Repeat("x", 10_000), "nothing": "",
		} {
			for _, ask := range []func(string, string) told{w.post, w.call} {
				if v := ask("take", body(tenant, "c")); v.Outcome != "bad" || v.Field != "tenant" {
					t.Errorf("a tenant of %s: %s", name, v)
				}
			}
		}
		if v := w.post("take", "{\"tenant\":\"a\xff\",\"dimension\":\"c\"}"); v.Outcome != "bad" {
			t.Errorf("a tenant that is not UTF-8: %s", v)
		}
		for _, dimension := range []string{"c\x00", "C", strings.Repeat("c", 10_000)} {
			if v := w.post("take", body("a_b", dimension)); v.Outcome != "bad" || v.Field != "dimension" {
				t.Errorf("a dimension %.20q: %s", dimension, v)
			}
		}
	})
}
