package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counted are the refusals of a registry, as "source reason count".
func counted(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() != "quotalease_agent_identity_refused_total" || len(labels) != 2 {
				t.Fatalf("%s%v", f.GetName(), labels)
			}
			lines = append(lines, fmt.Sprint(labels["source"], " ", labels["reason"], " ", m.GetCounter().GetValue()))
		}
	}
	return lines
}

func TestRefusalsAreCountedByTheirReason(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	registry := prometheus.NewRegistry()
	cfg := everybody(t, w)
	cfg.Metrics = registry
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newTokenWorld(t)
	old := certificate("acme", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) })
	token := func(change map[string]any) Evidence { return w.asks(t, w.claims(change)) }
	var want []string
	for refusal, e := range map[string]Evidence{
		"none absent":          from("192.0.2.7"),
		"proxy ambiguous":      from("127.0.0.1", TenantHeader, "acme", TenantHeader, "acme"),
		"proxy bad_tenant":     from("127.0.0.1", TenantHeader, "a\x01b"),
		"certificate untimely": from("192.0.2.7").with(old),
		"token malformed":      from("192.0.2.7", "Authorization", "Bearer x"),
		"token ambiguous":      from("192.0.2.7", "Authorization", "Bearer x", "Authorization", "Bearer y"),
		"token unknown":        stranger.asks(t, stranger.claims(nil)),
		"token untimely":       token(map[string]any{"exp": noon.Add(-time.Hour).Unix()}),
		"token elsewhere":      token(map[string]any{"aud": "billing"}),
		"token nameless":       token(map[string]any{"tenant": nil}),
		"token bad_tenant":     token(map[string]any{"tenant": strings.Repeat("a", 257)}),
		"api_key unknown":      from("192.0.2.7", "X-Api-Key", "some-key-that-nobody-has"),
		"api_key ambiguous":    from("192.0.2.7", "X-Api-Key", acmeKey, "X-Api-Key", acmeKey),
		"several ambiguous":    from("127.0.0.1", TenantHeader, "other", "X-Api-Key", acmeKey),
	} {
		for range 2 {
			if tenant, err := v.Tenant(e); err == nil {
				t.Errorf("%s: it is %s's", refusal, tenant)
			}
		}
		want = append(want, refusal+" 2")
	}
	if err := v.FromProxy(from("192.0.2.7", TenantHeader, "acme")); err == nil {
		t.Error("a stranger is taken for a proxy")
	}
	want = append(want, "proxy unknown 1")
	// Who is believed is counted nowhere.
	somebody(t, v, from("127.0.0.1", TenantHeader, "acme", "X-Api-Key", acmeKey), "acme")
	if err := v.FromProxy(from("127.0.0.1")); err != nil {
		t.Error(err)
	}
	got := counted(t, registry)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("counted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Callers choose no label, whatever they send.
func TestM1RefusalsMakeNoSeriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	cfg := everybody(t, newTokenWorld(t))
	cfg.Metrics = registry
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		for _, e := range []Evidence{
			from("192.0.2.7", "X-Api-Key", fmt.Sprint("guess-number-of-many-", i)),
			from("192.0.2.7", "Authorization", fmt.Sprint("Bearer ", i)),
			from("127.0.0.1", TenantHeader, fmt.Sprint("\x01", i)),
		} {
			if tenant, err := v.Tenant(e); err == nil {
				t.Fatalf("%+v is %s's", e, tenant)
			}
		}
	}
	if got := counted(t, registry); len(got) != 3 {
		t.Errorf("%d series: %v", len(got), got)
	}
	if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "register the metric of refused identities: ") {
		t.Errorf("twice in one registry: %v", err)
	}
}
