package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/quotalease/quotalease/ledger/quota"
)

// TokenConfig says which tokens (JWT) are believed. All but Algorithms are needed.
type TokenConfig struct {
	JWKSFile   string   // the issuer's public keys
	Issuer     string   // iss
	Audience   string   // one of aud
	Claim      string   // that holds the tenant
	Algorithms []string // asymmetric ones; ES256, RS256 and EdDSA
}

// asymmetric are the algorithms that may be allowed. With one whose key both sides share, whoever
// can verify a token could also make one.
var asymmetric = []jose.SignatureAlgorithm{
	jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
}

const (
	// clockSkew is how far the issuer's clock may be from ours.
	clockSkew = 30 * time.Second
	// maxToken is the longest token that is looked at.
	maxToken   = 8 << 10
	minRSABits = 2048
)

// tokenRule is a TokenConfig that was checked.
type tokenRule struct {
	issuer, audience, claim string
	algorithms              []jose.SignatureAlgorithm
}

func newTokenRule(cfg TokenConfig) (*tokenRule, error) {
	for _, f := range []struct{ name, value string }{
		{"jwt-issuer", cfg.Issuer}, {"jwt-audience", cfg.Audience}, {"jwt-claim", cfg.Claim},
	} {
		if f.value == "" {
			return nil, &quota.FieldError{Field: f.name, Allowed: "what the issuer writes there; needed where tokens are verified"}
		}
	}
	rule := &tokenRule{issuer: cfg.Issuer, audience: cfg.Audience, claim: cfg.Claim}
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = []string{string(jose.ES256), string(jose.RS256), string(jose.EdDSA)}
	}
	for _, name := range cfg.Algorithms {
		alg := jose.SignatureAlgorithm(name)
		if !slices.Contains(asymmetric, alg) {
			return nil, &quota.FieldError{Field: "jwt-algorithm", Allowed: fmt.Sprintf("asymmetric ones: %v", asymmetric)}
		}
		rule.algorithms = append(rule.algorithms, alg)
	}
	return rule, nil
}

// keySet are an issuer's keys that verify signatures.
type keySet []jose.JSONWebKey

// parseJWKS reads a JSON Web Key Set. Keys of other kinds and for other uses are passed over, as
// RFC 7517 says; a key that is no public one has no business there.
func parseJWKS(texts [][]byte) (keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(texts[0], &set); err != nil {
		return nil, errors.New("not a JSON Web Key Set")
	}
	var usable keySet
	for i, text := range set.Keys {
		var kind struct {
			Kty string `json:"kty"`
			Use string `json:"use"`
		}
		if err := json.Unmarshal(text, &kind); err != nil {
			return nil, fmt.Errorf("keys[%d]: not a JSON Web Key", i)
		}
		if kind.Kty == "oct" {
			return nil, fmt.Errorf("keys[%d]: a shared secret; allowed: public keys", i)
		}
		if kind.Use != "" && kind.Use != "sig" || kind.Kty != "RSA" && kind.Kty != "EC" && kind.Kty != "OKP" {
			continue
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(text); err != nil || !key.Valid() {
			return nil, fmt.Errorf("keys[%d]: not a valid %s key", i, kind.Kty)
		}
		if !key.IsPublic() {
			return nil, fmt.Errorf("keys[%d]: a private key; allowed: public keys", i)
		}
		if rsaKey, ok := key.Key.(*rsa.PublicKey); ok && rsaKey.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("keys[%d]: an RSA key of %d bits; allowed: %d or more", i, rsaKey.N.BitLen(), minRSABits)
		}
		usable = append(usable, key)
	}
	if len(usable) == 0 {
		return nil, errors.New("no key that verifies signatures")
	}
	return usable, nil
}

// bearer is the token of a request.
func bearer(authorization []string) (string, error) {
	switch len(authorization) {
	case 0:
		return "", errNone
	case 1:
	default:
		return "", refused(Ambiguous, "Authorization is given more than once")
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "Bearer") { // another scheme is somebody else's
		return "", errNone
	}
	return strings.TrimLeft(token, " "), nil
}

// tenant is the one that a token's claim names, if everything about the token is right.
func (r *tokenRule) tenant(text string, keys keySet, now time.Time) (string, error) {
	if len(text) > maxToken {
		return "", refused(Malformed, "the token is too long")
	}
	token, err := jwt.ParseSigned(text, r.algorithms)
	if err != nil || len(token.Headers) != 1 {
		return "", refused(Malformed, "the token is not a JWT signed by an allowed algorithm")
	}
	var claims jwt.Claims
	var all map[string]any
	if !verified(token, keys, &claims, &all) {
		return "", refused(Unknown, "the token is not signed by a key that is known")
	}
	switch err := claims.ValidateWithLeeway(jwt.Expected{Issuer: r.issuer, AnyAudience: jwt.Audience{r.audience}, Time: now}, clockSkew); {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "", refused(Elsewhere, "the token is another issuer's")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "", refused(Elsewhere, "the token is for another audience")
	case err != nil:
		return "", refused(Untimely, "the token is not valid at this time")
	case claims.Expiry == nil:
		return "", refused(Untimely, "the token never expires")
	}
	tenant, ok := all[r.claim].(string)
	if !ok || tenant == "" {
		return "", refused(Nameless, "the token names no tenant")
	}
	return tenant, nil
}

// verified reports whether one of the keys that the token may mean has signed it, and reads its
// claims then. Keys that come with the token are never looked at.
func verified(token *jwt.JSONWebToken, keys keySet, dest ...any) bool {
	head := token.Headers[0]
	for _, k := range keys {
		if head.KeyID != k.KeyID && (head.KeyID != "" || len(keys) > 1) {
			continue
		}
		if k.Algorithm != "" && k.Algorithm != head.Algorithm || !fits(k, head.Algorithm) {
			continue
		}
		if token.Claims(k.Key, dest...) == nil {
			return true
		}
	}
	return false
}

// fits reports whether a key is one of an algorithm's.
func fits(k jose.JSONWebKey, algorithm string) bool {
	switch k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}
