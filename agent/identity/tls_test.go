package identity

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue returns a certificate and its key, in PEM.
func (a *authority) issue(t testing.TB, cn string) (cert, key string) {
	t.Helper()
	own := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn}, DNSNames: []string{cn},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// handshake connects a client and returns whom the server saw, and as what the server showed itself.
func handshake(t *testing.T, server *tls.Config, client *tls.Config) (saw *x509.Certificate, shown string, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	side := tls.Server(a, server)
	done := make(chan error, 1)
	go func() {
		err := side.Handshake()
		if err != nil {
			_ = a.Close()
		}
		done <- err
	}()
	caller := tls.Client(b, client)
	mine := caller.Handshake()
	go func() { _, _ = io.Copy(io.Discard, caller) }() // an alert of the server's ends here
	if err := errors.Join(<-done, mine); err != nil {
		return nil, "", err
	}
	state := side.ConnectionState()
	return Verified(&state), caller.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestTLSAsksForCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.issue(t, "agent.test")
	cfg := TLSConfig{CertFile: file(t, "cert", cert), KeyFile: file(t, "key", key), ClientCAFile: file(t, "ca", ours.pem())}
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	client := func(a *authority) *tls.Config {
		c := &tls.Config{RootCAs: roots, ServerName: "agent.test"}
		if a != nil {
			cert, key := a.issue(t, "acme")
			pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
			if err != nil {
				t.Fatal(err)
			}
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return c
	}
	for _, must := range []bool{false, true} {
		cfg.ClientsMustShow = must
		server, err := NewTLS(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if saw, _, err := handshake(t, server.Config(), client(ours)); err != nil || saw == nil || saw.Subject.CommonName != "acme" {
			t.Errorf("a client of ours: %v, %v", saw, err)
		}
		if saw, _, err := handshake(t, server.Config(), client(theirs)); err == nil {
			t.Errorf("a client of another authority got in: %v", saw)
		}
		saw, _, err := handshake(t, server.Config(), client(nil))
		if (err == nil) == must || saw != nil {
			t.Errorf("a client without a certificate, must show one %v: %v, %v", must, saw, err)
		}
	}
	server, err := NewTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	config := server.Config()
	cert, key = ours.issue(t, "renewed.test")
	rewrite(t, cfg.CertFile, cert)
	if _, err := server.files.look(); err == nil { // a certificate and the key of another
		t.Error("half a renewal is in force")
	}
	rewrite(t, cfg.KeyFile, key)
	if changed, err := server.files.look(); err != nil || !changed {
		t.Fatalf("renewal: %v, %v", changed, err)
	}
	renewed := client(ours)
	renewed.ServerName = "renewed.test"
	if _, shown, err := handshake(t, config, renewed); err != nil || shown != "renewed.test" {
		t.Errorf("after the renewal: %s, %v", shown, err)
	}
	for name, bad := range map[string]TLSConfig{
		"no key":     {CertFile: cfg.CertFile},
		"no CA":      {CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, ClientCAFile: file(t, "ca", "x")},
		"wrong file": {CertFile: cfg.KeyFile, KeyFile: cfg.KeyFile},
	} {
		if _, err := NewTLS(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
