package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/quotalease/quotalease/ledger/quota"
)

// TLSConfig names the files of a listener's TLS, in PEM.
type TLSConfig struct {
	CertFile, KeyFile string
	ClientCAFile      string // that signs clients' certificates; empty: clients show none
	ClientsMustShow   bool   // a certificate; otherwise those who do are verified
	Logger            *slog.Logger
}

// TLS is what a listener shows and asks for, by its files as they are now.
type TLS struct {
	cfg   TLSConfig
	files *watched[*tls.Config]
}

// NewTLS reads the files that cfg names.
func NewTLS(cfg TLSConfig) (*TLS, error) {
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, &quota.FieldError{Field: "tls-cert", Allowed: "a certificate and its key, both"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	paths := []string{cfg.CertFile, cfg.KeyFile}
	if cfg.ClientCAFile != "" {
		paths = append(paths, cfg.ClientCAFile)
	}
	t := &TLS{cfg: cfg}
	var err error
	t.files, err = watch("read the TLS files", t.parse, paths...)
	return t, err
}

func (t *TLS) parse(texts [][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if len(texts) > 2 {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(texts[2]) {
			return nil, fmt.Errorf("%s: %w", t.cfg.ClientCAFile, errors.New("no certificate in PEM"))
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
		if t.cfg.ClientsMustShow {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	return c, nil
}

// Config is for a listener. Each handshake goes by the files as they are then.
func (t *TLS) Config() *tls.Config {
	c := t.files.get().Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.files.get(), nil }
	return c
}

// Run looks for files that have changed until ctx ends.
func (t *TLS) Run(ctx context.Context) {
	lookUntil(ctx, t.cfg.Logger, []looker{t.files})
}

// Verified is the certificate that a client has shown and TLS has verified; nil if none.
func Verified(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}
