package identity

import (
	"net/netip"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// ParseProxy reads an address, or a network in CIDR notation.
func ParseProxy(text string) (netip.Prefix, error) {
	bad := &quota.FieldError{Field: "trusted-proxy", Allowed: "an address or a network, such as 127.0.0.1 or 10.1.0.0/16, not all addresses"}
	var p netip.Prefix
	var err error
	if strings.Contains(text, "/") {
		p, err = netip.ParsePrefix(text)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil && a.Zone() == "" {
			p = netip.PrefixFrom(a, a.BitLen())
		}
	}
	if err != nil {
		return netip.Prefix{}, bad
	}
	if _, err := proxyList([]netip.Prefix{p}); err != nil {
		return netip.Prefix{}, bad
	}
	return p, nil
}

// proxyList refuses networks that hold everybody, and those of IPv4 written as IPv6, in which no
// address is ever looked for.
func proxyList(prefixes []netip.Prefix) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		if !p.IsValid() || p.Bits() == 0 || p.Addr().Is4In6() || p.Addr().Zone() != "" || p != p.Masked() {
			return nil, &quota.FieldError{Field: "trusted-proxy",
				Allowed: "a network whose address has no bits beyond its length, not all addresses"}
		}
		list = append(list, p)
	}
	return list, nil
}

// Proxy reports whether a request came from a proxy on the list. An address can be borrowed
// where a network lies between, so there the proxy needs a certificate too.
func (v *Verifier) Proxy(e Evidence) bool {
	peer := e.Peer.Unmap().WithZone("")
	if !peer.IsLoopback() && e.Certificate == nil {
		return false
	}
	for _, p := range v.proxies {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}
