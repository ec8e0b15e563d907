package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// TenantHeader is where a proxy on the list names the tenant that it has verified.
const TenantHeader = "X-Quotalease-Tenant"

// Config says which sources a tenant's identity may come from. One that is left out is none:
// with an empty Config nobody is believed.
type Config struct {
	Proxies     []netip.Prefix // of TCP peers whose TenantHeader is believed
	Certificate string         // where in a client's certificate its tenant stands, such as spiffe://example.org/tenant/{tenant}
	Token       TokenConfig
	KeysFile    string // a line per API key: its SHA-256 in hexadecimal, a space, its tenant
	KeyHeader   string // that a key comes in; X-Api-Key
	Logger      *slog.Logger
}

// Evidence is what a request brings: who sent it over which connection, and its headers.
type Evidence struct {
	Peer        netip.Addr                 // of the TCP connection; zero: none
	Certificate *x509.Certificate          // of the client, verified by TLS; nil: none
	Values      func(name string) []string // of a header
	Now         time.Time
}

// RefusedError says why nobody is believed. Its words are ours, never the caller's.
type RefusedError struct {
	Why     string // empty: the request brings no evidence
	Invalid bool   // a token was sent, and is not good
}

func (e *RefusedError) Error() string {
	if e.Why == "" {
		return "no verified tenant"
	}
	return "no verified tenant: " + e.Why
}

func refused(why string) error { return &RefusedError{Why: why} }

// errNone is a source that has nothing to say of a request.
var errNone = errors.New("no evidence")

// Verifier tells whose a request is. Its methods are safe for concurrent use.
type Verifier struct {
	proxies     []netip.Prefix
	certificate *certificateRule
	token       *tokenRule
	jwks        *watched[keySet]
	keyHeader   string
	keys        *watched[keyTable]
	log         *slog.Logger
}

// New reads the files that cfg names.
func New(cfg Config) (*Verifier, error) {
	v := &Verifier{keyHeader: cfg.KeyHeader, log: cfg.Logger}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if v.proxies, err = proxyList(cfg.Proxies); err != nil {
		return nil, err
	}
	if cfg.Certificate != "" {
		if v.certificate, err = parseCertificateRule(cfg.Certificate); err != nil {
			return nil, err
		}
	}
	if cfg.Token.JWKSFile != "" {
		if v.token, err = newTokenRule(cfg.Token); err != nil {
			return nil, err
		}
		if v.jwks, err = watch("read the keys of tokens", parseJWKS, cfg.Token.JWKSFile); err != nil {
			return nil, err
		}
	}
	if cfg.KeysFile != "" {
		if v.keyHeader == "" {
			v.keyHeader = "X-Api-Key"
		}
		if !headerName(v.keyHeader) {
			return nil, &quota.FieldError{Field: "api-key-header", Allowed: "a header's name: letters, digits and '-'"}
		}
		if v.keys, err = watch("read the API keys", parseKeys, cfg.KeysFile); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Tenant is whose a request is. Everything that the request brings must be good, and all of it
// must name the same tenant: a doubt is nobody's. The error is *RefusedError.
func (v *Verifier) Tenant(e Evidence) (string, error) {
	tenant := ""
	for _, source := range []func(Evidence) (string, error){v.byProxy, v.byCertificate, v.byToken, v.byKey} {
		named, err := source(e)
		switch {
		case errors.Is(err, errNone):
			continue
		case err != nil:
			return "", err
		case quota.ValidateTenant(named) != nil:
			return "", refused("what names the tenant is no tenant's name")
		case tenant != "" && named != tenant:
			return "", refused("its sources name different tenants")
		}
		tenant = named
	}
	if tenant == "" {
		return "", &RefusedError{}
	}
	return tenant, nil
}

// Challenge is the value of WWW-Authenticate that fits an error of Tenant.
func (v *Verifier) Challenge(err error) string {
	if v.token == nil {
		return `Quotalease realm="tenant"`
	}
	var r *RefusedError
	if errors.As(err, &r) && r.Invalid {
		return `Bearer realm="tenant", error="invalid_token"`
	}
	return `Bearer realm="tenant"`
}

// byProxy believes a header of a proxy on the list. What anybody else sends in it is no evidence.
func (v *Verifier) byProxy(e Evidence) (string, error) {
	if !v.Proxy(e) {
		return "", errNone
	}
	switch values := e.Values(TenantHeader); len(values) {
	case 0:
		return "", errNone
	case 1:
		if values[0] == "" { // how some proxies write that they know of nobody
			return "", errNone
		}
		return values[0], nil
	default: // one of them is not the proxy's
		return "", refused("the tenant header is given more than once")
	}
}

func (v *Verifier) byCertificate(e Evidence) (string, error) {
	if v.certificate == nil || e.Certificate == nil {
		return "", errNone
	}
	return v.certificate.tenant(e.Certificate, e.Now)
}

func (v *Verifier) byToken(e Evidence) (string, error) {
	if v.token == nil {
		return "", errNone
	}
	text, err := bearer(e.Values("Authorization"))
	if err != nil {
		return "", err
	}
	return v.token.tenant(text, v.jwks.get(), e.Now)
}

func (v *Verifier) byKey(e Evidence) (string, error) {
	if v.keys == nil {
		return "", errNone
	}
	switch values := e.Values(v.keyHeader); len(values) {
	case 0:
		return "", errNone
	case 1:
		return v.keys.get().tenant(values[0])
	default:
		return "", refused("the API key is given more than once")
	}
}

// Own is the tenant that a verified caller's request is for: the caller's own, which the request
// may name too. Another's is refused, with ErrOthers.
func Own(verified, named string) (string, error) {
	if named != "" && named != verified {
		return "", ErrOthers
	}
	return verified, nil
}

// ErrOthers is a request of a verified caller for somebody else's quota.
var ErrOthers = fmt.Errorf("not allowed: %w", &quota.FieldError{Field: "tenant", Allowed: "the caller's own, or left out"})

func headerName(s string) bool {
	for _, r := range s {
		if r != '-' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
