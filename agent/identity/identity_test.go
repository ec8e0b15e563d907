package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const acmeKey = "acme-9f86d081884c7d659a2feaa0c55ad015"

func hashOf(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:])
}

// file writes a file of a test's own.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, text)
	return path
}

func rewrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// verifier believes every source: a proxy at 10.0.0.0/8 or on this machine, certificates by CN,
// tokens of tokenWorld and acme's API key.
func verifier(t testing.TB, w *tokenWorld) *Verifier {
	t.Helper()
	v, err := New(everybody(t, w))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func everybody(t testing.TB, w *tokenWorld) Config {
	t.Helper()
	return Config{
		Proxies:     []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")},
		Certificate: "cn:{tenant}", Token: w.config(t), KeysFile: file(t, "keys", hashOf(acmeKey)+" acme\n"),
	}
}

// from is a request of a peer with headers.
func from(peer string, pairs ...string) Evidence {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return Evidence{Peer: netip.MustParseAddr(peer), Values: h.Values, Now: noon}
}

// certificate is a leaf as TLS hands it over.
func certificate(cn string, change ...func(*x509.Certificate)) *x509.Certificate {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: cn}, SerialNumber: big.NewInt(1),
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour),
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func (e Evidence) with(c *x509.Certificate) Evidence {
	e.Certificate = c
	return e
}

// nobody checks that a request is refused, and why.
func nobody(t *testing.T, v *Verifier, e Evidence, why string) {
	t.Helper()
	got, err := v.Tenant(e)
	var r *RefusedError
	if !errors.As(err, &r) || got != "" || r.Why != why {
		t.Errorf("%q, %v; want nobody, because %q", got, err, why)
	}
}

func somebody(t *testing.T, v *Verifier, e Evidence, want string) {
	t.Helper()
	if got, err := v.Tenant(e); err != nil || got != want {
		t.Errorf("%q, %v; want %s", got, err, want)
	}
}

func TestM4NobodyIsBelievedByDefault(t *testing.T) {
	t.Parallel()
	v, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := newTokenWorld(t)
	everything := from("127.0.0.1", TenantHeader, "acme", "Authorization", "Bearer "+w.sign(t, w.claims(nil)), "X-Api-Key", acmeKey)
	nobody(t, v, everything.with(certificate("acme")), "")
	if v.Proxy(everything) {
		t.Error("a proxy without a list")
	}
}

// REQUIREMENTS R4.4.
func TestR4_4ForgedHeadersNameNobody(t *testing.T) {
	t.Parallel()
	v := verifier(t, newTokenWorld(t))
	forged := []string{TenantHeader, "acme", "X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1", "X-Real-Ip", "10.1.2.3",
		"X-Forwarded-Client-Cert", `Subject="CN=acme"`, "X-Tenant", "acme"}
	nobody(t, v, from("192.0.2.7", forged...), "")
	nobody(t, v, from("10.1.2.3", forged...), "") // on the list, but across a network, and without a certificate
	somebody(t, v, from("192.0.2.7", append(forged, "X-Api-Key", acmeKey)...), "acme")
	// What is forged changes nothing for who is known.
	somebody(t, v, from("192.0.2.7", TenantHeader, "other", "X-Api-Key", acmeKey), "acme")
	// A proxy that passes on X-Forwarded-For and knows of nobody names nobody.
	nobody(t, v, from("127.0.0.1", forged[2:]...), "")
}

func TestProxiesByAddress(t *testing.T) {
	t.Parallel()
	v := verifier(t, newTokenWorld(t))
	proxy := certificate("", func(c *x509.Certificate) { c.DNSNames = []string{"proxy.internal"} })
	somebody(t, v, from("127.0.0.1", TenantHeader, "acme"), "acme")
	somebody(t, v, from("::ffff:127.0.0.1", TenantHeader, "acme"), "acme")
	somebody(t, v, from("10.1.2.3", TenantHeader, "고객/é").with(proxy), "고객/é")
	nobody(t, v, from("11.1.2.3", TenantHeader, "acme").with(proxy), "")
	nobody(t, v, from("::1", TenantHeader, "acme"), "")
	nobody(t, v, from("127.0.0.1", TenantHeader, ""), "")
	nobody(t, v, from("127.0.0.1", TenantHeader, "acme", TenantHeader, "acme"), "the tenant header is given more than once")
	nobody(t, v, from("127.0.0.1", TenantHeader, "a\x01b"), "what names the tenant is no tenant's name")
	nobody(t, v, Evidence{Values: http.Header{TenantHeader: {"acme"}}.Values, Now: noon}, "")
}

func TestSourcesMustAgree(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	v := verifier(t, w)
	token := func(tenant string) string { return "Bearer " + w.sign(t, w.claims(map[string]any{"tenant": tenant})) }
	const differ = "its sources name different tenants"
	all := []string{TenantHeader, "acme", "Authorization", token("acme"), "X-Api-Key", acmeKey}

	somebody(t, v, from("127.0.0.1", all...).with(certificate("acme")), "acme")
	nobody(t, v, from("127.0.0.1", all...).with(certificate("other")), differ)
	nobody(t, v, from("127.0.0.1", TenantHeader, "other", "X-Api-Key", acmeKey), differ)
	nobody(t, v, from("192.0.2.7", "Authorization", token("other"), "X-Api-Key", acmeKey), differ)
	nobody(t, v, from("127.0.0.1", TenantHeader, "acme", "Authorization", token("Acme")), differ)
	// A good source beside a bad one is nobody's either.
	nobody(t, v, from("127.0.0.1", TenantHeader, "acme", "X-Api-Key", "some-key-that-nobody-has"), "the API key is not known")
	nobody(t, v, from("192.0.2.7", "Authorization", "Bearer x.y.z", "X-Api-Key", acmeKey), "the token is not a JWT signed by an allowed algorithm")
}

func TestChallengesFitWhatWasSent(t *testing.T) {
	t.Parallel()
	v := verifier(t, newTokenWorld(t))
	for authorization, want := range map[string]string{
		"":                   `Bearer realm="tenant"`,
		"Basic YWNtZTphY21l": `Bearer realm="tenant"`,
		"Bearer nonsense":    `Bearer realm="tenant", error="invalid_token"`,
	} {
		_, err := v.Tenant(from("192.0.2.7", "Authorization", authorization))
		var r *RefusedError
		if !errors.As(err, &r) || r.Challenge() != want {
			t.Errorf("%q: %+v, want the challenge %s", authorization, r, want)
		}
	}
}

func TestKeysNameTheirTenant(t *testing.T) {
	t.Parallel()
	const other = "other-key-0123456789abcdef"
	short := strings.Repeat("k", minKey-1)
	v, err := New(Config{KeyHeader: "X-Customer-Key", KeysFile: file(t, "keys", "# ours\n\n"+
		strings.ToUpper(hashOf(acmeKey))+" acme\r\n"+hashOf(other)+"  A Corp, Ltd.\n"+hashOf(short)+" guessable\n")})
	if err != nil {
		t.Fatal(err)
	}
	somebody(t, v, from("192.0.2.7", "X-Customer-Key", acmeKey), "acme")
	somebody(t, v, from("192.0.2.7", "X-Customer-Key", other), "A Corp, Ltd.")
	nobody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "")
	for _, key := range []string{"", acmeKey + " ", acmeKey[1:], hashOf(acmeKey), strings.ToUpper(acmeKey), short, strings.Repeat("k", maxKey+1)} {
		nobody(t, v, from("192.0.2.7", "X-Customer-Key", key), "the API key is not known")
	}
	nobody(t, v, from("192.0.2.7", "X-Customer-Key", acmeKey, "X-Customer-Key", acmeKey), "the API key is given more than once")
}

func TestKeyFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		acmeKey + " acme\n":                       "line 1: no hash; allowed: 64 hexadecimal digits, a space, a tenant",
		hashOf("x") + "\n":                        "line 1: no tenant; allowed: 1 to 256 bytes",
		"\n" + hashOf("x") + " a\x01\n":           "line 2: no tenant; allowed: 1 to 256 bytes",
		hashOf("x")[1:] + "g acme\n":              "line 1: no hash",
		hashOf("x") + "\tacme\n":                  "line 1: no hash",
		hashOf("x") + " a\n" + hashOf("x") + " a": "line 2: this key's hash was given before",
	} {
		_, err := New(Config{KeysFile: file(t, "keys", text)})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "read the API keys: ") {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
	if _, err := New(Config{KeysFile: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := New(Config{KeysFile: file(t, "keys", ""), KeyHeader: "X Key"}); err == nil || !strings.HasPrefix(err.Error(), "api-key-header: ") {
		t.Errorf("no header's name: %v", err)
	}
}

// Neither an error nor a refusal repeats what it was given: it may be a secret in a wrong place.
func TestNoSecretIsRepeated(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-s3cr3t-s3cr3t-s3cr3t"
	var all []string
	registry := prometheus.NewRegistry()
	_, err := New(Config{KeysFile: file(t, "keys", secret+" acme\n")})
	all = append(all, err.Error())
	_, err = New(Config{Token: TokenConfig{JWKSFile: file(t, "jwks", `{"keys":[{"kty":"oct","k":"`+secret+`"}]}`), Issuer: "i", Audience: "a", Claim: "c"}})
	all = append(all, err.Error())
	cfg := everybody(t, newTokenWorld(t))
	cfg.Metrics = registry
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"X-Api-Key", secret}, {"Authorization", "Bearer " + secret}, {"Authorization", "Bearer a." + secret + ".c"}} {
		_, err := v.Tenant(from("192.0.2.7", pair[0], pair[1]))
		all = append(all, err.Error(), fmt.Sprintf("%+v", err))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(all, fmt.Sprint(families)) {
		if strings.Contains(text, "s3cr3t") {
			t.Errorf("repeated: %s", text)
		}
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
