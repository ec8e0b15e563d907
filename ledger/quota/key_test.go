package quota_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger/quota"
)

// CASES M3: tenants a_b + c and a + b_c, unicode, NUL and 10 kB are distinct or refused.
func TestKeysAreDistinctOrRefused(t *testing.T) {
	t.Parallel()
	accepted := []quota.Key{
		{Tenant: "a_b", Dimension: "c"}, {Tenant: "a", Dimension: "b_c"},
		{Tenant: "a/b", Dimension: "c"}, {Tenant: "a", Dimension: "b.c"},
		{Tenant: "Acme", Dimension: "c"}, {Tenant: "acme", Dimension: "c"},
		{Tenant: "고객", Dimension: "c"},
		{Tenant: "caf\u00e9", Dimension: "c"}, {Tenant: "cafe\u0301", Dimension: "c"},
		{Tenant: strings.Repeat("x", quota.MaxTenantBytes), Dimension: strings.Repeat("x", quota.MaxDimensionBytes)},
	}
	seen := map[quota.Key]bool{}
	for _, k := range accepted {
		if err := k.Validate(); err != nil {
			t.Errorf("key %q: %v", k, err)
		}
		if seen[k] {
			t.Errorf("key %q is taken for another", k)
		}
		seen[k] = true
	}

	const (
		tenant    = "tenant: 1 to 256 bytes of UTF-8 without control characters"
		dimension = "dimension: 1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"
	)
	for _, tc := range []struct {
		name string
		key  quota.Key
		want string
	}{
		{"no tenant", quota.Key{Dimension: "c"}, tenant},
		{"NUL", quota.Key{Tenant: "a\x00b", Dimension: "c"}, tenant},
		{"newline", quota.Key{Tenant: "a\n", Dimension: "c"}, tenant},
		{"C1 control", quota.Key{Tenant: "a\u0085", Dimension: "c"}, tenant},
		{"not UTF-8", quota.Key{Tenant: "a\xff", Dimension: "c"}, tenant},
		{"10 kB", quota.Key{Tenant: strings.Repeat("x", 10_000), Dimension: "c"}, tenant},
		{"one byte too long in UTF-8", quota.Key{Tenant: strings.Repeat("고", 86), Dimension: "c"}, tenant},
		{"no dimension", quota.Key{Tenant: "a"}, dimension},
		{"slash in a dimension", quota.Key{Tenant: "a", Dimension: "b/c"}, dimension},
		{"capital in a dimension", quota.Key{Tenant: "a", Dimension: "Calls"}, dimension},
		{"leading dash", quota.Key{Tenant: "a", Dimension: "-calls"}, dimension},
		{"NUL in a dimension", quota.Key{Tenant: "a", Dimension: "b\x00"}, dimension},
		{"unicode in a dimension", quota.Key{Tenant: "a", Dimension: "호출"}, dimension},
		{"long dimension", quota.Key{Tenant: "a", Dimension: strings.Repeat("x", quota.MaxDimensionBytes+1)}, dimension},
	} {
		err := tc.key.Validate()
		var field *quota.FieldError
		if !errors.As(err, &field) || err.Error() != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}

	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) quota.Key {
			return quota.Key{Tenant: rapid.String().Draw(t, name+" tenant"), Dimension: rapid.StringMatching(`[a-z0-9][a-z0-9_.-]{0,8}`).Draw(t, name+" dimension")}
		}
		a, b := draw("a"), draw("b")
		if (a == b) != (a.Tenant == b.Tenant && a.Dimension == b.Dimension) {
			t.Fatalf("%q and %q are confused", a, b)
		}
		bad := a.Tenant == "" || len(a.Tenant) > quota.MaxTenantBytes || !utf8.ValidString(a.Tenant) || strings.ContainsFunc(a.Tenant, unicode.IsControl)
		if (a.Validate() != nil) != bad {
			t.Fatalf("key %q: %v", a, a.Validate())
		}
		// A dimension has no slash, so even the text that people read splits in one way.
		if a.Validate() == nil && b.Validate() == nil && a != b && a.String() == b.String() {
			t.Fatalf("%q and %q print alike", a, b)
		}
	})
}

func FuzzKeyValidate(f *testing.F) {
	f.Add("acme", "report_export")
	f.Add("a\x00b", "b/c")
	f.Fuzz(func(t *testing.T, tenant, dimension string) {
		k := quota.Key{Tenant: tenant, Dimension: dimension}
		if k.Validate() != nil {
			return
		}
		if strings.ContainsRune(dimension, '/') || strings.ContainsFunc(tenant, unicode.IsControl) || len(tenant)+len(dimension) > quota.MaxTenantBytes+quota.MaxDimensionBytes {
			t.Fatalf("accepted %q", k)
		}
	})
}

func TestWordsReadAsTheyPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []quota.Class{quota.Exact, quota.Hard, quota.Bounded, quota.BestEffort} {
		if got, err := quota.ParseClass(c.String()); got != c || err != nil {
			t.Errorf("class %v reads %v, %v", c, got, err)
		}
	}
	_, err := quota.ParseClass("Exact")
	if err == nil || err.Error() != "class: exact, hard, bounded or best_effort" {
		t.Errorf("class Exact: %v", err)
	}
	if got := quota.Class(9).String(); got != "class(9)" {
		t.Errorf("an unknown class prints %q", got)
	}
}
