package descriptor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

type (
	entry   = descriptor.Entry
	pattern = descriptor.Pattern
	rule    = descriptor.Rule
)

func path(words ...string) (all []entry) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		all = append(all, entry{key, value})
	}
	return all
}

func named(name, domain string, match ...string) *rule {
	r := &rule{Domain: domain, Name: name, Dimension: "d"}
	for _, e := range path(match...) {
		r.Match = append(r.Match, pattern(e))
	}
	return r
}

func compile(t testing.TB, rules ...*rule) *descriptor.Tree {
	t.Helper()
	tree, err := descriptor.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestLookup(t *testing.T) {
	t.Parallel()
	tree := compile(t,
		named("marketing", "messaging", "type=marketing", "to"),
		named("any type", "messaging", "type"),
		named("login", "auth", "type=login"),
		named("login of api", "auth", "type=login", "client=api"),
		named("v", "web", "path=/v*"),
		named("v1", "web", "path=/v1/*"),
		named("v1 users", "web", "path=/v1/users"),
		named("any path", "web", "path"),
		named("under a prefix", "web", "path=/v2/*", "user"),
	)
	for _, tc := range []struct {
		domain string
		path   []entry
		want   string
	}{
		{"messaging", path("type=marketing", "to=+1"), "marketing"},
		{"messaging", path("type=marketing"), ""}, // the exact value leads on, and does not end here
		{"messaging", path("type=status"), "any type"},
		{"messaging", path("type=status", "to=+1"), ""}, // deeper than any rule
		{"auth", path("type=login"), "login"},
		{"auth", path("type=login", "client=api"), "login of api"},
		{"auth", path("type=login", "client=web"), ""},
		{"auth", path("client=api", "type=login"), ""}, // order counts
		{"web", path("path=/v1/users"), "v1 users"},
		{"web", path("path=/v1/teams"), "v1"},
		{"web", path("path=/v3"), "v"},
		{"web", path("path=/v"), "v"},
		{"web", path("path=/"), "any path"},
		{"web", path("path=/v2/x", "user=bob"), "under a prefix"},
		{"web", path("path=/v2/x"), ""},
		{"web", path("path="), "any path"},
		{"nobody", path("type=login"), ""},
		{"", nil, ""},
		{"web", nil, ""},
	} {
		got := ""
		if r := tree.Find(tc.domain, tc.path); r != nil {
			got = r.Name
		}
		if got != tc.want {
			t.Errorf("%s %v: %q, want %q", tc.domain, tc.path, got, tc.want)
		}
	}
}

// The tree does what the sentence says: at each entry keep the rules whose pattern there is
// the best that fits.
func TestLookupIsWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	rank := func(p pattern, e entry) int {
		prefix, isPrefix := strings.CutSuffix(p.Value, "*")
		switch {
		case p.Key != e.Key:
		case p.Value == "":
			return 1
		case isPrefix && strings.HasPrefix(e.Value, prefix):
			return 2 + len(prefix)
		case !isPrefix && p.Value == e.Value:
			return 1000
		}
		return 0
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{1,3}`)
		pat := rapid.Custom(func(t *rapid.T) pattern {
			return pattern{rapid.StringMatching(`[kl]`).Draw(t, "key"), rapid.StringMatching(`([ab]{1,2}\*?)?`).Draw(t, "value")}
		})
		var rules []*rule
		seen := map[string]bool{}
		for _, m := range rapid.SliceOfN(rapid.SliceOfN(pat, 1, 3), 0, 12).Draw(t, "rules") {
			r := &rule{Domain: "d", Match: m}
			if !seen[r.Path()] {
				rules, seen[r.Path()] = append(rules, r), true
			}
		}
		tree, err := descriptor.Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
			return entry{rapid.StringMatching(`[kl]`).Draw(t, "key"), word.Draw(t, "value")}
		}), 0, 4).Draw(t, "entries")
		left := slices.Clone(rules)
		for i, e := range entries {
			best := 0
			for _, r := range left {
				if i < len(r.Match) {
					best = max(best, rank(r.Match[i], e))
				}
			}
			left = slices.DeleteFunc(left, func(r *rule) bool {
				return i >= len(r.Match) || best == 0 || rank(r.Match[i], e) != best
			})
		}
		left = slices.DeleteFunc(left, func(r *rule) bool { return len(r.Match) != len(entries) })
		var want *rule
		if len(left) > 0 {
			want = left[0]
		}
		if got := tree.Find("d", entries); got != want {
			t.Fatalf("%v: %v, want %v", entries, got, want)
		}
	})
}

func TestTwoRulesForOnePathAreRefused(t *testing.T) {
	t.Parallel()
	_, err := descriptor.Compile([]*rule{named("a", "d", "k=v*"), named("b", "d", "k=v"), named("c", "d", "k=v*")})
	var twice *descriptor.DuplicateError
	if !errors.As(err, &twice) || twice.First.Name != "a" || twice.Second.Name != "c" {
		t.Fatal(err)
	}
}

func TestM3TenantsAreNotConfused(t *testing.T) {
	t.Parallel()
	r := named("", "d", "org", "user")
	r.Tenant = []int{0, 1}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a%/2F5]{1,6}`)
		a := []entry{{"org", value.Draw(t, "a")}, {"user", value.Draw(t, "b")}}
		b := []entry{{"org", value.Draw(t, "c")}, {"user", value.Draw(t, "d")}}
		x, ok := r.TenantOf(a)
		y, ok2 := r.TenantOf(b)
		if !ok || !ok2 || (x == y) != slices.Equal(a, b) {
			t.Fatalf("%v is %q, %v is %q", a, x, b, y)
		}
	})
	for want, tc := range map[string]struct {
		places []int
		path   []entry
	}{
		"d":        {nil, path("org=acme", "user=bob")},
		"a/b%":     {[]int{0}, path("org=a/b%", "user=bob")}, // one value stands as it is
		"bob":      {[]int{1}, path("org=acme", "user=bob")},
		"bob/a%2F": {[]int{1, 0}, path("org=a/", "user=bob")},
	} {
		r.Tenant = tc.places
		if got, ok := r.TenantOf(tc.path); !ok || got != want {
			t.Errorf("%v of %v: %q %v, want %q", tc.places, tc.path, got, ok, want)
		}
	}
}

func TestATenantThatCanBeNone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		places []int
		path   []entry
	}{
		{[]int{0}, path("org=", "user=bob")},
		{[]int{0}, path("org=a\x00", "user=bob")},
		{[]int{0}, path("org=\xff", "user=bob")},
		{[]int{0}, path("org="+strings.Repeat("x", 257), "user=bob")},
		{[]int{0, 1}, path("org=acme", "user=")},
		{[]int{0, 1}, path("org="+strings.Repeat("/", 100), "user=bob")},
	} {
		r := named("", "d", "org", "user")
		r.Tenant = tc.places
		if got, ok := r.TenantOf(tc.path); ok {
			t.Errorf("%v: %q", tc.path, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	tree := compile(f, named("any", "d", "k"), named("exact", "d", "k=v"), named("prefix", "d", "k=v*"), named("two", "d", "k=v", "l=w*"))
	f.Add("d", "k", "v", "l", "w1", true)
	f.Add("", "", "", "", "", false)
	f.Fuzz(func(t *testing.T, domain, key, value, key2, value2 string, both bool) {
		entries := []entry{{key, value}}
		if both {
			entries = append(entries, entry{key2, value2})
		}
		r := tree.Find(domain, entries)
		if r == nil {
			return
		}
		if domain != r.Domain || len(r.Match) != len(entries) {
			t.Fatalf("%q %v found %v", domain, entries, r)
		}
		for i, p := range r.Match {
			if p.Key != entries[i].Key || p.Exact() && p.Value != entries[i].Value {
				t.Fatalf("%q %v found %v", domain, entries, r)
			}
		}
		for i := range r.Match {
			r := *r
			r.Tenant = []int{i}
			if tenant, ok := r.TenantOf(entries); ok && tenant != entries[i].Value {
				t.Fatalf("%v names %q", entries, tenant)
			}
		}
	})
}
