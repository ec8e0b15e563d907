package identity

import (
	"crypto/x509"
	"net/url"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// certificateRule says where in a certificate the tenant stands: what the name begins with, and
// what it ends with. Only names of one kind are looked at.
type certificateRule struct {
	kind           certificateKind
	prefix, suffix string
}

type certificateKind string

// The kinds, as a rule begins.
const (
	spiffeURI  certificateKind = "spiffe://" // a URI of SPIFFE; the tenant is one segment of its path
	dnsName    certificateKind = "dns:"      // a DNS name; the tenant is one label, or the whole name
	commonName certificateKind = "cn:"       // the subject's common name
)

const placeholder = "{tenant}"

// parseCertificateRule reads spiffe://example.org/tenant/{tenant}, dns:{tenant}.tenants.example.org
// or cn:{tenant}.
func parseCertificateRule(text string) (*certificateRule, error) {
	bad := &quota.FieldError{Field: "certificate-tenant",
		Allowed: "spiffe://DOMAIN/PATH with one segment {tenant}, dns:{tenant}.SUFFIX, dns:{tenant} or cn:{tenant}, with or without text around it"}
	before, after, one := strings.Cut(text, placeholder)
	if !one || strings.ContainsAny(before+after, "{}") {
		return nil, bad
	}
	switch {
	case strings.HasPrefix(before, string(spiffeURI)):
		domain, path, _ := strings.Cut(strings.TrimPrefix(before, string(spiffeURI)), "/")
		if !segment(domain) || domain != strings.ToLower(domain) || !segments(path) || before[len(before)-1] != '/' ||
			after != "" && (after[0] != '/' || !segments(after[1:]) || strings.HasSuffix(after, "/")) {
			return nil, bad
		}
		return &certificateRule{spiffeURI, before, after}, nil
	case strings.HasPrefix(before, string(dnsName)):
		before = strings.TrimPrefix(before, string(dnsName))
		if before != "" && !strings.HasSuffix(before, ".") || after != "" && after[0] != '.' {
			return nil, bad
		}
		return &certificateRule{dnsName, strings.ToLower(before), strings.ToLower(after)}, nil
	case strings.HasPrefix(before, string(commonName)):
		return &certificateRule{commonName, strings.TrimPrefix(before, string(commonName)), after}, nil
	}
	return nil, bad
}

// tenant is the one that the certificate names by the rule. A certificate without such a name, as
// a proxy's may be, says nothing; one with two names says too much.
func (r *certificateRule) tenant(c *x509.Certificate, now time.Time) (string, error) {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) { // a connection may outlive what it began with
		return "", refused(Untimely, "the client's certificate is not valid at this time")
	}
	found := ""
	for _, name := range r.names(c) {
		tenant, ok := r.match(name)
		switch {
		case !ok:
		case found != "" && found != tenant:
			return "", refused(Ambiguous, "the client's certificate names several tenants")
		default:
			found = tenant
		}
	}
	if found == "" {
		return "", errNone
	}
	return found, nil
}

func (r *certificateRule) names(c *x509.Certificate) (names []string) {
	switch r.kind {
	case spiffeURI:
		for _, u := range c.URIs {
			names = append(names, spiffeText(u))
		}
	case dnsName:
		for _, d := range c.DNSNames {
			names = append(names, strings.ToLower(d))
		}
	case commonName:
		names = append(names, c.Subject.CommonName)
	}
	return names
}

// spiffeText is a SPIFFE ID as it is written; empty for what is none.
func spiffeText(u *url.URL) string {
	if u.Scheme != "spiffe" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Port() != "" || u.Opaque != "" {
		return ""
	}
	return string(spiffeURI) + strings.ToLower(u.Host) + u.EscapedPath()
}

func (r *certificateRule) match(name string) (string, bool) {
	rest, begins := strings.CutPrefix(name, r.prefix)
	tenant, ends := strings.CutSuffix(rest, r.suffix)
	if !begins || !ends || tenant == "" {
		return "", false
	}
	switch r.kind {
	case spiffeURI:
		return tenant, segment(tenant)
	case dnsName: // a wildcard is everybody's
		return tenant, !strings.Contains(tenant, "*") && (r.prefix+r.suffix == "" || !strings.Contains(tenant, "."))
	}
	return tenant, true
}

// segments are those of a path that ends with a slash or not.
func segments(path string) bool {
	for s := range strings.SplitSeq(strings.TrimSuffix(path, "/"), "/") {
		if path != "" && !segment(s) {
			return false
		}
	}
	return true
}

// segment is what SPIFFE allows between two slashes: nothing that could be written in two ways.
func segment(s string) bool {
	for _, r := range s {
		if r != '.' && r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && s != "." && s != ".."
}
