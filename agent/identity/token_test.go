package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokenWorld is an issuer.
type tokenWorld struct {
	key any // that signs
	alg jose.SignatureAlgorithm
	kid string
	set []jose.JSONWebKey
}

func newTokenWorld(t testing.TB) *tokenWorld {
	t.Helper()
	key := newKey(t)
	return &tokenWorld{key: key, alg: jose.ES256, kid: "k1", set: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Use: "sig"}}}
}

func (w *tokenWorld) jwks(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: w.set})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *tokenWorld) config(t testing.TB) TokenConfig {
	t.Helper()
	return TokenConfig{JWKSFile: file(t, "jwks.json", w.jwks(t)), Issuer: "https://id.example.org", Audience: "quota", Claim: "tenant"}
}

// claims are good ones, with changes; nil takes one away.
func (w *tokenWorld) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": "https://id.example.org", "aud": []string{"quota", "else"}, "sub": "u-7", "tenant": "acme",
		"iat": noon.Add(-time.Minute).Unix(), "exp": noon.Add(time.Minute).Unix()}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (w *tokenWorld) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if w.kid != "" {
		options = options.WithHeader("kid", w.kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: w.alg, Key: w.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func tokens(t testing.TB, cfg TokenConfig) *Verifier {
	t.Helper()
	v, err := New(Config{Token: cfg})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *tokenWorld) asks(t testing.TB, claims map[string]any) Evidence {
	t.Helper()
	return from("192.0.2.7", "Authorization", "Bearer "+w.sign(t, claims))
}

func TestTokensNameTheirTenant(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	v := tokens(t, w.config(t))
	for name, claims := range map[string]map[string]any{
		"plain":                      nil,
		"one audience":               {"aud": "quota"},
		"without iat":                {"iat": nil},
		"nbf now":                    {"nbf": noon.Unix()},
		"their clock is ahead":       {"iat": noon.Add(29 * time.Second).Unix(), "nbf": noon.Add(29 * time.Second).Unix()},
		"expired, by their slow one": {"exp": noon.Add(-29 * time.Second).Unix()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			somebody(t, v, w.asks(t, w.claims(claims)), "acme")
		})
	}
	somebody(t, v, from("192.0.2.7", "Authorization", "bearer  "+w.sign(t, w.claims(nil))), "acme")

	cfg := w.config(t)
	cfg.Claim = "https://example.org/tenant"
	somebody(t, tokens(t, cfg), w.asks(t, w.claims(map[string]any{cfg.Claim: "namespaced"})), "namespaced")

	rsaKey, err := rsa.GenerateKey(rand.Reader, minRSABits)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []*tokenWorld{
		{key: rsaKey, alg: jose.RS256, set: []jose.JSONWebKey{{Key: rsaKey.Public()}}}, // no kid: the only key is meant
		{key: edKey, alg: jose.EdDSA, kid: "e", set: []jose.JSONWebKey{{Key: newKey(t).Public(), KeyID: "x"}, {Key: edKey.Public(), KeyID: "e", Algorithm: "EdDSA"}}},
	} {
		somebody(t, tokens(t, other.config(t)), other.asks(t, w.claims(nil)), "acme")
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	v := tokens(t, w.config(t))
	const (
		untimely = "the token is not valid at this time"
		unsigned = "the token is not signed by a key that is known"
		unfit    = "the token is not a JWT signed by an allowed algorithm"
		nameless = "the token names no tenant"
	)
	at := func(d time.Duration) int64 { return noon.Add(d).Unix() }
	for name, tt := range map[string]struct {
		claims map[string]any
		why    string
	}{
		"expired":                {map[string]any{"exp": at(-31 * time.Second)}, untimely},
		"never expires":          {map[string]any{"exp": nil}, "the token never expires"},
		"not yet":                {map[string]any{"nbf": at(31 * time.Second)}, untimely},
		"issued tomorrow":        {map[string]any{"iat": at(24 * time.Hour)}, untimely},
		"another issuer":         {map[string]any{"iss": "https://id.example.org/"}, "the token is another issuer's"},
		"no issuer":              {map[string]any{"iss": nil}, "the token is another issuer's"},
		"another audience":       {map[string]any{"aud": "billing"}, "the token is for another audience"},
		"no audience":            {map[string]any{"aud": nil}, "the token is for another audience"},
		"no tenant":              {map[string]any{"tenant": nil}, nameless},
		"an empty tenant":        {map[string]any{"tenant": ""}, nameless},
		"a number for a tenant":  {map[string]any{"tenant": 7}, nameless},
		"several tenants":        {map[string]any{"tenant": []string{"acme", "other"}}, nameless},
		"the name in capitals":   {map[string]any{"tenant": nil, "Tenant": "acme"}, nameless},
		"a tenant with controls": {map[string]any{"tenant": "a\x00b"}, "what names the tenant is no tenant's name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nobody(t, v, w.asks(t, w.claims(tt.claims)), tt.why)
		})
	}

	stranger := newTokenWorld(t) // who says that its key is ours
	nobody(t, v, stranger.asks(t, w.claims(nil)), unsigned)
	stranger.kid = "k2"
	nobody(t, v, stranger.asks(t, w.claims(nil)), unsigned)

	good := w.sign(t, w.claims(nil))
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	for name, tt := range map[string][2]string{
		"no algorithm":       {none + "." + parts[1] + ".", unfit},
		"changed claims":     {parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":"other"}`)) + "." + parts[2], unsigned},
		"changed signature":  {good[:len(good)-8] + "AAAAAAAA", unsigned},
		"two parts":          {parts[0] + "." + parts[1], unfit},
		"encrypted":          {"a.b.c.d.e", unfit},
		"nothing":            {"", unfit},
		"too long":           {good + strings.Repeat("A", maxToken), "the token is too long"},
		"a list":             {good + ", " + good, unfit},
		"JSON serialization": {`{"payload":"x","signatures":[]}`, unfit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nobody(t, v, from("192.0.2.7", "Authorization", "Bearer "+tt[0]), tt[1])
		})
	}
	nobody(t, v, from("192.0.2.7", "Authorization", "Bearer "+good, "Authorization", "Bearer "+good), "Authorization is given more than once")
	nobody(t, v, from("192.0.2.7", "Authorization", "Basic "+good), "")

	// The public key as a shared secret: the oldest trick.
	public, err := json.Marshal(w.set[0])
	if err != nil {
		t.Fatal(err)
	}
	shared := &tokenWorld{key: public, alg: jose.HS256, kid: "k1"}
	nobody(t, v, shared.asks(t, w.claims(nil)), unfit)
	// Among several keys, a token without a kid means none.
	several := newTokenWorld(t)
	several.set = append(several.set, w.set[0])
	several.kid = ""
	nobody(t, tokens(t, several.config(t)), several.asks(t, w.claims(nil)), unsigned)
	// A key that is meant for another algorithm does not verify this one.
	meant := newTokenWorld(t)
	meant.set[0].Algorithm = "ES384"
	nobody(t, tokens(t, meant.config(t)), meant.asks(t, w.claims(nil)), unsigned)
}

func TestTokenConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	set := func(keys ...jose.JSONWebKey) string { return (&tokenWorld{set: keys}).jwks(t) }
	for name, tt := range map[string]struct {
		change func(*TokenConfig)
		says   string
	}{
		"no issuer":         {func(c *TokenConfig) { c.Issuer = "" }, "jwt-issuer: "},
		"no audience":       {func(c *TokenConfig) { c.Audience = "" }, "jwt-audience: "},
		"no claim":          {func(c *TokenConfig) { c.Claim = "" }, "jwt-claim: "},
		"a shared secret":   {func(c *TokenConfig) { c.Algorithms = []string{"ES256", "HS256"} }, "jwt-algorithm: asymmetric ones: [ES256 "},
		"no algorithm":      {func(c *TokenConfig) { c.Algorithms = []string{"none"} }, "jwt-algorithm: "},
		"no JSON":           {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", "x") }, "not a JSON Web Key Set"},
		"no keys":           {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", "{}") }, "no key that verifies signatures"},
		"only others' keys": {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", `{"keys":[{"kty":"NEW"}]}`) }, "no key that verifies signatures"},
		"for encryption": {func(c *TokenConfig) {
			c.JWKSFile = file(t, "jwks", set(jose.JSONWebKey{Key: newKey(t).Public(), Use: "enc"}))
		}, "no key that verifies signatures"},
		"a private key": {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", set(jose.JSONWebKey{Key: newKey(t)})) }, "keys[0]: a private key"},
		"a secret":      {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", `{"keys":[{"kty":"oct","k":"AAAA"}]}`) }, "keys[0]: a shared secret"},
		"a weak key":    {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", set(w.set[0], jose.JSONWebKey{Key: weak.Public()})) }, "keys[1]: an RSA key of 1024 bits; allowed: 2048 or more"},
		"a broken key":  {func(c *TokenConfig) { c.JWKSFile = file(t, "jwks", `{"keys":[{"kty":"EC","crv":"P-256"}]}`) }, "keys[0]: not a valid EC key"},
	} {
		cfg := w.config(t)
		tt.change(&cfg)
		if _, err := New(Config{Token: cfg}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %s", name, err, tt.says)
		}
	}
}

// Whatever the bytes: who has no key of the issuer's is nobody.
func FuzzToken(f *testing.F) {
	w := newTokenWorld(f)
	v := tokens(f, w.config(f))
	stranger := newTokenWorld(f)
	for _, seed := range []string{"", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", stranger.sign(f, w.claims(nil)), "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsxIn0.e30.AAAA"} {
		f.Add("Bearer " + seed)
	}
	f.Fuzz(func(t *testing.T, authorization string) {
		tenant, err := v.Tenant(from("192.0.2.7", "Authorization", authorization))
		var r *RefusedError
		if tenant != "" || !errors.As(err, &r) {
			t.Fatalf("%q: %q, %v", authorization, tenant, err)
		}
	})
}

// Whatever a key set holds: what is read of it are public keys that sign.
func FuzzJWKS(f *testing.F) {
	w := newTokenWorld(f)
	for _, seed := range []string{w.jwks(f), "{}", `{"keys":[{}]}`, `{"keys":[{"kty":"oct","k":"AA"}]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, `{"keys":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseJWKS([][]byte{text})
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%q: %d keys, %v", text, len(keys), err)
		}
		for _, k := range keys {
			if !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
				t.Fatalf("%q: %+v", text, k)
			}
		}
	})
}
