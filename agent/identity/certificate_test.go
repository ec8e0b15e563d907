package identity

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestCertificatesNameTheirTenant(t *testing.T) {
	t.Parallel()
	uri := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
	}
	dns := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, names...) }
	}
	const spiffe = "spiffe://example.org/tenant/{tenant}/agent"
	for _, tt := range []struct {
		name, rule string
		c          *x509.Certificate
		want, why  string // neither: says nothing
	}{
		{"spiffe", spiffe, certificate("", uri("spiffe://example.org/tenant/acme/agent")), "acme", ""},
		{"spiffe, the domain in capitals", spiffe, certificate("", uri("spiffe://EXAMPLE.org/tenant/acme/agent")), "acme", ""},
		{"spiffe, of another domain", spiffe, certificate("", uri("spiffe://example.com/tenant/acme/agent")), "", ""},
		{"spiffe, another path", spiffe, certificate("", uri("spiffe://example.org/tenant/acme/server")), "", ""},
		{"spiffe, two segments", spiffe, certificate("", uri("spiffe://example.org/tenant/acme/x/agent")), "", ""},
		{"spiffe, an escaped slash", spiffe, certificate("", uri("spiffe://example.org/tenant/acme%2Fx/agent")), "", ""},
		{"spiffe, dots", spiffe, certificate("", uri("spiffe://example.org/tenant/../agent")), "", ""},
		{"spiffe, with a port", spiffe, certificate("", uri("spiffe://example.org:1/tenant/acme/agent")), "", ""},
		{"spiffe, with a query", spiffe, certificate("", uri("spiffe://example.org/tenant/acme/agent?x")), "", ""},
		{"another scheme", spiffe, certificate("", uri("https://example.org/tenant/acme/agent")), "", ""},
		{"spiffe, two tenants", spiffe, certificate("", uri("spiffe://example.org/tenant/a/agent"), uri("spiffe://example.org/tenant/b/agent")), "", "the client's certificate names several tenants"},
		{"spiffe, a CN is not looked at", spiffe, certificate("acme"), "", ""},
		{"dns", "dns:{tenant}.t.example.org", certificate("x", dns("Acme.T.example.org")), "acme", ""},
		{"dns, whole", "dns:{tenant}", certificate("x", dns("acme.example.org")), "acme.example.org", ""},
		{"dns, two labels", "dns:{tenant}.t.example.org", certificate("x", dns("a.b.t.example.org")), "", ""},
		{"dns, another suffix", "dns:{tenant}.t.example.org", certificate("x", dns("acme.t.example.org.evil.example")), "", ""},
		{"dns, a wildcard", "dns:{tenant}.t.example.org", certificate("x", dns("*.t.example.org")), "", ""},
		{"dns, twice the same", "dns:{tenant}.t.example.org", certificate("x", dns("acme.t.example.org", "ACME.t.example.org")), "acme", ""},
		{"dns, two tenants", "dns:{tenant}", certificate("x", dns("a", "b")), "", "the client's certificate names several tenants"},
		{"cn", "cn:{tenant}", certificate("A Corp, Ltd."), "A Corp, Ltd.", ""},
		{"cn, with text around it", "cn:tenant={tenant};prod", certificate("tenant=acme;prod"), "acme", ""},
		{"cn, other text", "cn:tenant={tenant};prod", certificate("tenant=acme;test"), "", ""},
		{"cn, none", "cn:{tenant}", certificate(""), "", ""},
		{"no longer valid", "cn:{tenant}", certificate("acme", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }), "", "the client's certificate is not valid at this time"},
		{"not valid yet", "cn:{tenant}", certificate("acme", func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Second) }), "", "the client's certificate is not valid at this time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := New(Config{Certificate: tt.rule})
			if err != nil {
				t.Fatal(err)
			}
			e := from("192.0.2.7").with(tt.c)
			if tt.want == "" {
				nobody(t, v, e, tt.why)
				return
			}
			somebody(t, v, e, tt.want)
		})
	}
}

func TestCertificateRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"", "{tenant}", "cn:", "cn:{tenant}{tenant}", "cn:{name}", "CN:{tenant}", "dns:x{tenant}.example.org", "dns:{tenant}example.org",
		"spiffe://{tenant}", "spiffe://{tenant}/x", "spiffe://example.org/x{tenant}", "spiffe://example.org/{tenant}x", "spiffe://Example.org/{tenant}",
		"spiffe://example.org//{tenant}", "spiffe://example.org/{tenant}/", "spiffe://example.org/../{tenant}", "spiffe:///{tenant}", "https://example.org/{tenant}",
	} {
		if r, err := parseCertificateRule(rule); err == nil || !strings.HasPrefix(err.Error(), "certificate-tenant: spiffe://") {
			t.Errorf("%q: %+v, %v", rule, r, err)
		}
	}
}

// Whatever the rule and the names: a tenant is what stands in the rule's place, and no other rule
// is read.
func FuzzCertificateRule(f *testing.F) {
	f.Add("cn:{tenant}", "acme")
	f.Add("dns:{tenant}.example.org", "acme.example.org")
	f.Add("spiffe://example.org/tenant/{tenant}/x", "spiffe://example.org/tenant/acme/x")
	f.Fuzz(func(t *testing.T, rule, name string) {
		r, err := parseCertificateRule(rule)
		if err != nil {
			return
		}
		tenant, ok := r.match(name)
		if !ok {
			return
		}
		if tenant == "" || r.prefix+tenant+r.suffix != name {
			t.Fatalf("%q in %q: %q", rule, name, tenant)
		}
		if r.kind == spiffeURI && strings.ContainsAny(tenant, "/%?#") {
			t.Fatalf("%q in %q: %q is more than a segment", rule, name, tenant)
		}
	})
}
