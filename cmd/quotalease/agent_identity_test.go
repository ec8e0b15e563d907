package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestIdentityFlagsThatAreRefused(t *testing.T) {
	t.Parallel()
	keys := write(t, "keys", "")
	for flags, says := range map[string]string{
		"--trusted-proxy 0.0.0.0/0":           "--trusted-proxy: allowed: an address or a network",
		"--trusted-proxy localhost":           "--trusted-proxy: allowed: an address or a network",
		"--tls-key x":                         "--tls-key: allowed: with --tls-cert",
		"--client-ca x":                       "--client-ca: allowed: with --tls-cert",
		"--certificate-tenant cn:{tenant}":    "--certificate-tenant: allowed: with --client-ca",
		"--jwt-issuer x":                      "--jwt-issuer, --jwt-audience, --jwt-claim, --jwt-algorithm: allowed: with --jwt-jwks",
		"--jwt-jwks x":                        "--jwt-issuer: allowed: what the issuer writes there",
		"--api-key-header x":                  "--api-key-header: allowed: with --api-keys",
		"--api-keys " + keys + "x":            "read the API keys: ",
		"--tls-cert x":                        "--tls-cert: allowed: a certificate and its key, both",
		"--verified-callers":                  "--verified-callers: nobody could be verified",
		"--http 0.0.0.0:0":                    "--http: 0.0.0.0:0 is not a loopback address: any other needs --tls-cert",
		"--http 0.0.0.0:0 --api-keys " + keys: "any other needs --tls-cert, --tls-key, --verified-callers and a source of identity",
		"--grpc 0.0.0.0:0 --verified-callers --api-keys " + keys: "--grpc: 0.0.0.0:0 is not a loopback address",
	} {
		args := strings.Fields("agent --grpc 127.0.0.1:0 --http 127.0.0.1:0 " + flags)
		r := console{}.run(t, args...)
		r.expect(t, exitRefused)
		wantText(t, flags, r.err, says)
	}
}

// pair writes a certificate for this machine, and its key.
func pair(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agent"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, own.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certText)
	return write(t, "cert.pem", string(certText)), write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))), pool
}

// An agent with TLS and verified callers may listen where others reach it; both of its doors ask
// who is there.
func TestAnOpenAgentAsksWhoIsThere(t *testing.T) {
	t.Parallel()
	const apiKey = "acme-9f86d081884c7d659a2feaa0c55ad015"
	hash := sha256.Sum256([]byte(apiKey))
	cert, key, pool := pair(t)
	keys := write(t, "keys", hex.EncodeToString(hash[:])+" acme\n")
	var out, errs lockedBuffer
	sh := &shell{in: strings.NewReader(""), out: &out, err: &errs, now: time.Now, getenv: func(string) string { return "" }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, sh, []string{"agent", "--grpc", "0.0.0.0:0", "--http", "0.0.0.0:0", "--control-plane", "127.0.0.1:1",
			"--tls-cert", cert, "--tls-key", key, "--api-keys", keys, "--verified-callers", "--state-dir", filepath.Join(t.TempDir(), "state")})
	}()
	defer func() {
		cancel()
		if code := <-ended; code != exitDone {
			t.Errorf("ended with %d: %s", code, errs.String())
		}
	}()
	until(t, "the agent to listen", func() bool { return strings.Contains(out.String(), "http=") })
	var grpcPort, httpPort string
	for _, word := range strings.Fields(out.String()) {
		if name, addr, ok := strings.Cut(word, "="); ok {
			_, port, _ := net.SplitHostPort(addr)
			if name == "grpc" {
				grpcPort = port
			} else {
				httpPort = port
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ask := func(headers ...string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1:"+httpPort+"/v1/take", strings.NewReader(`{"tenant":"acme","dimension":"calls"}`))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if got := ask(); got != 401 {
		t.Errorf("HTTP without a key: %d, want 401", got)
	}
	if got := ask("X-Api-Key", apiKey); got != 503 { // no control plane is there: the request got that far
		t.Errorf("HTTP with a key: %d, want 503", got)
	}
	conn, err := grpc.NewClient("127.0.0.1:"+grpcPort, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	take := func(ctx context.Context) codes.Code {
		_, err := pb.NewDecisionServiceClient(conn).Take(ctx, &pb.TakeRequest{Dimension: "calls"})
		return status.Code(err)
	}
	if got := take(t.Context()); got != codes.Unauthenticated {
		t.Errorf("gRPC without a key: %v", got)
	}
	if got := take(metadata.AppendToOutgoingContext(t.Context(), "x-api-key", apiKey)); got != codes.Unavailable {
		t.Errorf("gRPC with a key: %v, want UNAVAILABLE: no control plane is there", got)
	}
	if got := ask("X-Api-Key", apiKey+"x"); got != 401 {
		t.Errorf("HTTP with another key: %d, want 401", got)
	}
	resp, err := client.Get("https://127.0.0.1:" + httpPort + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "metrics", string(metrics), `quotalease_agent_identity_refused_total{reason="absent",source="none"} 2`,
		`quotalease_agent_identity_refused_total{reason="unknown",source="api_key"} 1`)
	if said := out.String() + errs.String() + string(metrics); strings.Contains(said, apiKey) {
		t.Errorf("output, log and metrics repeat a key: %s", said)
	}
}

// A proxy's address is enough on this machine, and beyond it only with a certificate.
func TestWhatAnOpenListenerNeeds(t *testing.T) {
	t.Parallel()
	cert, key, _ := pair(t)
	keys := write(t, "keys", "")
	for name, tt := range map[string]struct {
		f    identityFlags
		open bool
	}{
		"nothing":                  {identityFlags{}, false},
		"TLS alone":                {identityFlags{tlsCert: cert, tlsKey: key}, false},
		"keys, callers unverified": {identityFlags{tlsCert: cert, tlsKey: key, apiKeys: keys}, false},
		"keys without TLS":         {identityFlags{apiKeys: keys, verifiedCallers: true}, false},
		"a proxy without its CA":   {identityFlags{tlsCert: cert, tlsKey: key, trustedProxies: []string{"10.0.0.0/8"}, verifiedCallers: true}, false},
		"keys":                     {identityFlags{tlsCert: cert, tlsKey: key, apiKeys: keys, verifiedCallers: true}, true},
		"a proxy and its CA":       {identityFlags{tlsCert: cert, tlsKey: key, clientCA: cert, trustedProxies: []string{"10.0.0.0/8"}, verifiedCallers: true}, true},
		"certificates":             {identityFlags{tlsCert: cert, tlsKey: key, clientCA: cert, certificateTenant: "cn:{tenant}", verifiedCallers: true}, true},
	} {
		known, err := tt.f.build(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := listenAddr(t.Context(), names, "--http", "0.0.0.0:0", known.needs); (err == nil) != tt.open {
			t.Errorf("%s: %v, want open %v", name, err, tt.open)
		}
	}
}
