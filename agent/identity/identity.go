package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	Metrics     prometheus.Registerer // of refusals; none: they are not counted
}

// Evidence is what a request brings: who sent it over which connection, and its headers.
type Evidence struct {
	Peer        netip.Addr                 // of the TCP connection; zero: none
	Certificate *x509.Certificate          // of the client, verified by TLS; nil: none
	Values      func(name string) []string // of a header
	Now         time.Time
}

// OfRequest is what an HTTP request brings. It goes by the connection, so that nothing that makes
// an address of a header, as of X-Forwarded-For, may have changed the request's RemoteAddr.
func OfRequest(r *http.Request, now time.Time) Evidence {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // what is no address is on no list
	return Evidence{Peer: peer.Addr(), Certificate: Verified(r.TLS), Values: r.Header.Values, Now: now}
}

// RefusedError says why nobody is believed. Its words are ours, never the caller's.
type RefusedError struct {
	Why    string // empty: the request brings no evidence
	Source Source // that was refused
	Reason Reason
	tokens bool // are believed here, so that a challenge asks for one
}

func (e *RefusedError) Error() string {
	if e.Why == "" {
		return "no verified tenant"
	}
	return "no verified tenant: " + e.Why
}

// Challenge is the value of WWW-Authenticate that fits the refusal.
func (e *RefusedError) Challenge() string {
	switch {
	case !e.tokens:
		return `Quotalease realm="tenant"`
	case e.Source == Token && e.Reason != Ambiguous:
		return `Bearer realm="tenant", error="invalid_token"`
	}
	return `Bearer realm="tenant"`
}

func refused(reason Reason, why string) error { return &RefusedError{Reason: reason, Why: why} }

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
	refusals    *prometheus.CounterVec // nil: not counted
}

// New reads the files that cfg names.
func New(cfg Config) (*Verifier, error) {
	v := &Verifier{keyHeader: cfg.KeyHeader, log: cfg.Logger}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics != nil {
		v.refusals = newRefusals()
		if err := cfg.Metrics.Register(v.refusals); err != nil {
			return nil, fmt.Errorf("register the metric of refused identities: %w", err)
		}
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
	for _, source := range []struct {
		name  Source
		names func(Evidence) (string, error)
	}{{Proxy, v.byProxy}, {Certificate, v.byCertificate}, {Token, v.byToken}, {APIKey, v.byKey}} {
		named, err := source.names(e)
		switch {
		case errors.Is(err, errNone):
			continue
		case err != nil:
			return "", v.refuse(source.name, err)
		case quota.ValidateTenant(named) != nil:
			return "", v.refuse(source.name, refused(BadTenant, "what names the tenant is no tenant's name"))
		case tenant != "" && named != tenant:
			return "", v.refuse(Several, refused(Ambiguous, "its sources name different tenants"))
		}
		tenant = named
	}
	if tenant == "" {
		return "", v.refuse(None, refused(Absent, ""))
	}
	return tenant, nil
}

// FromProxy refuses what comes from no proxy on the list.
func (v *Verifier) FromProxy(e Evidence) error {
	if v.Proxy(e) {
		return nil
	}
	return v.refuse(Proxy, refused(Unknown, "it comes from no trusted proxy"))
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
		return "", refused(Ambiguous, "the tenant header is given more than once")
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
		return "", refused(Ambiguous, "the API key is given more than once")
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
