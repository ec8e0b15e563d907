package identity

import (
	"net/netip"
	"strings"
	"testing"
)

func TestProxyListsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "0.0.0.0/0", "::/0", "10.0.0.1/8", "::ffff:10.0.0.0/104", "fe80::1%eth0", "10.0.0.0/33", "127.0.0.1:80", "localhost"} {
		if p, err := ParseProxy(text); err == nil || !strings.HasPrefix(err.Error(), "trusted-proxy: an address or a network") {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{"127.0.0.1": "127.0.0.1/32", "::1": "::1/128", "10.0.0.0/8": "10.0.0.0/8"} {
		if p, err := ParseProxy(text); err != nil || p.String() != want {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

func FuzzParseProxy(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "::1/128", "0.0.0.0/0", "10.0.0.1/8", "::ffff:1.2.3.4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProxy(text)
		if err == nil && (p.Bits() == 0 || !p.Contains(p.Addr())) {
			t.Fatalf("%q: %v", text, p)
		}
		if _, again := proxyList([]netip.Prefix{p}); err == nil && again != nil {
			t.Fatalf("%q: %v", text, again)
		}
	})
}
