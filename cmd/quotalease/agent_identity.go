package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/rpc"
	"github.com/quotalease/quotalease/ledger/quota"
)

// identityFlags say whom an agent believes to be which tenant, and what its listeners show.
type identityFlags struct {
	trustedProxies                        []string
	tlsCert, tlsKey, clientCA             string
	certificateTenant                     string
	jwks, jwtIssuer, jwtAudience, jwtName string
	jwtAlgorithms                         []string
	apiKeys, apiKeyHeader                 string
	verifiedCallers                       bool
}

func (f *identityFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxy", nil, "address or network of proxies whose "+identity.TenantHeader+" header is believed; may be repeated (default none)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "certificate of both listeners, PEM (default no TLS)")
	flags.StringVar(&f.tlsKey, "tls-key", "", "its key, PEM")
	flags.StringVar(&f.clientCA, "client-ca", "", "certificates that sign those of clients, PEM")
	flags.StringVar(&f.certificateTenant, "certificate-tenant", "", "where a client's certificate names its tenant: spiffe://example.org/tenant/{tenant}, dns:{tenant}.example.org or cn:{tenant}")
	flags.StringVar(&f.jwks, "jwt-jwks", "", "file of the keys that sign tokens (JWT) in Authorization: Bearer, a JSON Web Key Set")
	flags.StringVar(&f.jwtIssuer, "jwt-issuer", "", "issuer of those tokens")
	flags.StringVar(&f.jwtAudience, "jwt-audience", "", "audience that they are for")
	flags.StringVar(&f.jwtName, "jwt-claim", "", "claim that names the tenant")
	flags.StringSliceVar(&f.jwtAlgorithms, "jwt-algorithm", nil, "asymmetric algorithms that may sign (default ES256, RS256, EdDSA)")
	flags.StringVar(&f.apiKeys, "api-keys", "", "file of API keys: on each line the SHA-256 of a key in hexadecimal, a space, its tenant")
	flags.StringVar(&f.apiKeyHeader, "api-key-header", "", "header that API keys come in (default X-Api-Key)")
	flags.BoolVar(&f.verifiedCallers, "verified-callers", false, "ask every caller who it is, and let it take for its own tenant alone")
}

// knownCallers is what was made of the flags.
type knownCallers struct {
	verifier *identity.Verifier
	tls      *identity.TLS // nil: no TLS
	needs    string        // before a listener may bind an address that others can reach
}

// build checks the flags and reads the files that they name.
func (f *identityFlags) build(log *slog.Logger, metrics prometheus.Registerer) (knownCallers, error) {
	cfg := identity.Config{
		Certificate: f.certificateTenant, KeysFile: f.apiKeys, KeyHeader: f.apiKeyHeader, Logger: log, Metrics: metrics,
		Token: identity.TokenConfig{JWKSFile: f.jwks, Issuer: f.jwtIssuer, Audience: f.jwtAudience, Claim: f.jwtName, Algorithms: f.jwtAlgorithms},
	}
	for _, text := range f.trustedProxies {
		p, err := identity.ParseProxy(text)
		if err != nil {
			return knownCallers{}, refusedFlag(err)
		}
		cfg.Proxies = append(cfg.Proxies, p)
	}
	for _, alone := range []struct {
		given             bool
		flag, with, needs string
	}{
		{f.tlsKey != "", "--tls-key", f.tlsCert, "--tls-cert"},
		{f.clientCA != "", "--client-ca", f.tlsCert, "--tls-cert"},
		{f.certificateTenant != "", "--certificate-tenant", f.clientCA, "--client-ca"},
		{f.jwtIssuer+f.jwtAudience+f.jwtName != "" || len(f.jwtAlgorithms) > 0, "--jwt-issuer, --jwt-audience, --jwt-claim, --jwt-algorithm", f.jwks, "--jwt-jwks"},
		{f.apiKeyHeader != "", "--api-key-header", f.apiKeys, "--api-keys"},
	} {
		if alone.given && alone.with == "" {
			return knownCallers{}, misuse("%s: allowed: with %s", alone.flag, alone.needs)
		}
	}
	known := knownCallers{}
	var err error
	if known.verifier, err = identity.New(cfg); err != nil {
		return knownCallers{}, refusedFlag(err)
	}
	if f.tlsCert != "" {
		known.tls, err = identity.NewTLS(identity.TLSConfig{
			CertFile: f.tlsCert, KeyFile: f.tlsKey, ClientCAFile: f.clientCA, Logger: log,
			ClientsMustShow: f.jwks == "" && f.apiKeys == "",
		})
		if err != nil {
			return knownCallers{}, refusedFlag(err)
		}
	}
	if f.verifiedCallers && len(f.trustedProxies) == 0 && f.certificateTenant+f.jwks+f.apiKeys == "" {
		return knownCallers{}, misuse("--verified-callers: nobody could be verified;" +
			" allowed: with --certificate-tenant, --jwt-jwks, --api-keys or --trusted-proxy")
	}
	// A proxy's address alone says little where a network lies between: it counts with a certificate.
	away := f.clientCA != "" && (f.certificateTenant != "" || len(f.trustedProxies) > 0) || f.jwks != "" || f.apiKeys != ""
	if known.tls == nil || !f.verifiedCallers || !away {
		known.needs = "--tls-cert, --tls-key, --verified-callers and a source of identity" +
			" (--certificate-tenant or --trusted-proxy with --client-ca, --jwt-jwks, --api-keys)"
	}
	return known, nil
}

// refusedFlag names the flag, where a value was refused.
func refusedFlag(err error) error {
	var field *quota.FieldError
	if errors.As(err, &field) {
		return misuse("--%s: allowed: %s", field.Field, field.Allowed)
	}
	return misuse("%w", err)
}

// options are the gRPC listener's.
func (k knownCallers) options(verified bool) (options []grpc.ServerOption) {
	if k.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(k.tls.Config())))
	}
	if verified {
		options = append(options, rpc.Verified(k.verifier)...)
	}
	return options
}

// watch follows the files until ctx ends.
func (k knownCallers) watch(ctx context.Context) {
	var files sync.WaitGroup
	files.Go(func() { k.verifier.Run(ctx) })
	if k.tls != nil {
		files.Go(func() { k.tls.Run(ctx) })
	}
	files.Wait()
}
