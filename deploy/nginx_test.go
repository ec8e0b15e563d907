//go:build linux

package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// certified is a certificate with its key, signed by an authority or, without one, by itself.
type certified struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func certify(t *testing.T, cn string, by *certified) *certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &certified{key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: by == nil}
	if by == nil {
		by = &certified{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c
}

// files writes a certificate and its key in PEM.
func (c *certified) files(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))),
		write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func TestNginxNamesWhomItVerified(t *testing.T) {
	t.Parallel()
	binary := program(t, "nginx", "apt-get install nginx-light")
	r := newRig(t)
	at, dir := freeAddr(t), t.TempDir()
	ours, theirs := certify(t, "our authority", nil), certify(t, "theirs", nil)
	server := certify(t, "nginx", ours)
	cert, key := server.files(t, dir, "server")
	ca, _ := ours.files(t, dir, "ca")
	runNginx(t, binary, at, shipped(t, "nginx/quota.conf", "127.0.0.1:7611", r.door.addr, "127.0.0.1:8080", r.app,
		"listen 127.0.0.1:8000;", "listen "+at+" ssl; ssl_certificate "+cert+"; ssl_certificate_key "+key+
			"; ssl_client_certificate "+ca+"; ssl_verify_client optional;"))
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	as := func(c *certified, pairs ...string) int {
		t.Helper()
		config := &tls.Config{RootCAs: roots}
		if c != nil {
			pair := tls.Certificate{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 20 * time.Second}
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(pairs); i += 2 {
			req.Header.Set(pairs[i], pairs[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := as(certify(t, "acme", ours), "X-Quotalease-Tenant", "victim"); got != 200 {
		t.Errorf("acme, by its certificate: %d", got)
	}
	for what, left := range map[string]int64{"acme": 2, "victim": 3} {
		if got := r.left(t, what, "api_calls"); got != left {
			t.Errorf("%s has %d left, want %d", what, got, left)
		}
	}
	for what, c := range map[string]*certified{"nobody": nil, "a subject that is more than CN": certify(t, "acme,OU=x", ours)} {
		if got := as(c, "X-Quotalease-Tenant", "acme"); got != 401 {
			t.Errorf("%s: %d, want 401", what, got)
		}
	}
	if got := as(certify(t, "acme", theirs)); got != 400 { // nginx refuses the certificate itself
		t.Errorf("a certificate of another authority: %d, want 400", got)
	}
	if got := as(certify(t, "acme", ours), "X-Api-Key", keyOf("mallory")); got != 401 {
		t.Errorf("a certificate of acme's with a key of mallory's: %d, want 401", got)
	}
	if got := r.left(t, "acme", "api_calls"); got != 2 || r.seen.count() != 1 {
		t.Errorf("acme has %d left, the application saw %d requests", got, r.seen.count())
	}
}
