package main

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// names is a resolver that knows a few hosts.
func names(_ context.Context, _, host string) ([]netip.Addr, error) {
	known := map[string][]netip.Addr{
		"here.test":   {netip.MustParseAddr("127.0.0.7")},
		"both.test":   {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.7")},
		"away.test":   {netip.MustParseAddr("192.0.2.7")},
		"mapped.test": {netip.MustParseAddr("::ffff:127.0.0.1")},
		"empty.test":  {},
	}
	found, ok := known[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	return found, nil
}

func TestListenersStayOnLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		":7600":                   "127.0.0.1:7600",
		"127.0.0.1:7600":          "127.0.0.1:7600",
		"127.8.9.1:0":             "127.8.9.1:0",
		"[::1]:7600":              "[::1]:7600",
		"localhost:7600":          "127.0.0.1:7600",
		"[::ffff:127.0.0.1]:7600": "127.0.0.1:7600",
		"here.test:7600":          "127.0.0.7:7600",
		"mapped.test:7600":        "127.0.0.1:7600",
	} {
		got, err := listenAddr(t.Context(), names, "--grpc", addr, loopbackOnly)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v; want %s", addr, got, err, want)
		}
	}
}

func TestOtherAddressesAreRefused(t *testing.T) {
	t.Parallel()
	const identity = "needs identity, which is not built yet"
	for addr, says := range map[string]string{
		"0.0.0.0:7600":          identity,
		"[::]:7600":             identity,
		"192.0.2.7:7600":        identity,
		"[2001:db8::1]:7600":    identity,
		"[::ffff:10.0.0.1]:1":   identity,
		"[fe80::1%lo]:7600":     identity,
		"away.test:7600":        identity,
		"both.test:7600":        identity,
		"empty.test:7600":       "has no address",
		"none.test:7600":        "resolve none.test",
		"127.0.0.1":             "allowed: host:port",
		"127.0.0.1:http":        "allowed: 0 to 65535",
		"127.0.0.1:65536":       "allowed: 0 to 65535",
		"":                      "allowed: host:port",
		"2130706433.test:7600":  "resolve 2130706433.test",
		"127.0.0.1.example.:76": "resolve 127.0.0.1.example.",
	} {
		got, err := listenAddr(t.Context(), names, "--grpc", addr, loopbackOnly)
		if err == nil {
			t.Errorf("%q: listens on %s, want a refusal", addr, got)
			continue
		}
		var chosen *exitError
		if !errors.As(err, &chosen) || chosen.code != exitRefused {
			t.Errorf("%q: %v has no exit code %d", addr, err, exitRefused)
		}
		wantText(t, addr, err.Error(), "--grpc: ", says)
	}
}

func TestListenLoopback(t *testing.T) {
	t.Parallel()
	l, err := listenLoopback(t.Context(), "--grpc", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !netip.MustParseAddrPort(l.Addr().String()).Addr().IsLoopback() {
		t.Errorf("listens on %s", l.Addr())
	}
	_, err = listenLoopback(t.Context(), "--http", l.Addr().String())
	if err == nil {
		t.Fatal("two listeners on one port")
	}
	wantText(t, "a port in use", err.Error(), "--http: listen on "+l.Addr().String())
}

func FuzzLoopbackAddr(f *testing.F) {
	for _, seed := range []string{":7600", "127.0.0.1:0", "[::1]:1", "both.test:7", "0x7f.1:80", "[::ffff:7f00:1]:9", "[fe80::1%lo]:1", "::1:7600"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		got, err := listenAddr(t.Context(), names, "--grpc", addr, loopbackOnly)
		if err == nil && (!got.Addr().IsLoopback() || got.Addr().Zone() != "") {
			t.Errorf("%q: listens on %s", addr, got)
		}
	})
}
