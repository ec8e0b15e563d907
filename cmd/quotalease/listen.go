package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// lookup resolves a host name, as net.Resolver.LookupNetIP does.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// listenLoopback listens on a TCP address of this machine that no other can reach. Whoever
// reaches a port may use it, because nothing checks identities yet; so every other address
// is refused. The flag is named in what the user reads.
func listenLoopback(ctx context.Context, flag, addr string) (net.Listener, error) {
	local, err := loopbackAddr(ctx, net.DefaultResolver.LookupNetIP, flag, addr)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", local.String())
	if err != nil {
		return nil, fmt.Errorf("%s: listen on %s: %w", flag, addr, err)
	}
	return l, nil
}

// loopbackAddr resolves an address once, so that what was checked is what is listened on. An
// empty host means 127.0.0.1, never all interfaces.
func loopbackAddr(ctx context.Context, resolve lookup, flag, addr string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, misuse("%s: %q; allowed: host:port, e.g. 127.0.0.1:7600", flag, addr)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, misuse("%s: port %q; allowed: 0 to 65535", flag, service)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	found := make([]netip.Addr, 1)
	if found[0], err = netip.ParseAddr(host); err != nil {
		if found, err = resolve(ctx, "ip", host); err != nil {
			return netip.AddrPort{}, misuse("%s: resolve %s: %w", flag, host, err)
		}
	}
	for _, ip := range found {
		if !ip.Unmap().IsLoopback() || ip.Zone() != "" {
			return netip.AddrPort{}, misuse("%s: %s is not a loopback address: any other needs identity, which is not built yet;"+
				" allowed: 127.0.0.0/8, ::1, localhost", flag, addr)
		}
	}
	if len(found) == 0 {
		return netip.AddrPort{}, misuse("%s: %s has no address; allowed: 127.0.0.0/8, ::1, localhost", flag, host)
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}
