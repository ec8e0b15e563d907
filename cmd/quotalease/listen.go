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

// loopbackOnly is what any other address needs where nothing checks who the caller is.
const loopbackOnly = "identity, which is not built yet"

// listenLoopback listens on a TCP address of this machine that no other can reach. Whoever
// reaches the port may use it, so every other address is refused. The flag is named in what the
// user reads.
func listenLoopback(ctx context.Context, flag, addr string) (net.Listener, error) {
	return listen(ctx, flag, addr, loopbackOnly)
}

// listen listens on a TCP address; on one that others can reach only if that needs nothing more.
func listen(ctx context.Context, flag, addr, needs string) (net.Listener, error) {
	local, err := listenAddr(ctx, net.DefaultResolver.LookupNetIP, flag, addr, needs)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", local.String())
	if err != nil {
		return nil, fmt.Errorf("%s: listen on %s: %w", flag, addr, err)
	}
	return l, nil
}

// listenAddr resolves an address once, so that what was checked is what is listened on. An
// empty host means 127.0.0.1, never all interfaces. needs says what has to be given before an
// address that others can reach is allowed; empty: it is.
func listenAddr(ctx context.Context, resolve lookup, flag, addr, needs string) (netip.AddrPort, error) {
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
		if needs != "" && (!ip.Unmap().IsLoopback() || ip.Zone() != "") {
			return netip.AddrPort{}, misuse("%s: %s is not a loopback address: any other needs %s;"+
				" allowed: 127.0.0.0/8, ::1, localhost", flag, addr, needs)
		}
	}
	if len(found) == 0 {
		return netip.AddrPort{}, misuse("%s: %s has no address; allowed: 127.0.0.0/8, ::1, localhost", flag, host)
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}
