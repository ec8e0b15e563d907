package local

import (
	"bytes"
	"testing"
)

// Two callers share a key only if all that the limit counts by is the same.
func FuzzKeysAreDistinct(f *testing.F) {
	f.Add("a_b", "c", "192.0.2.1", "a", "b_c", "192.0.2.1")
	f.Add("a", "b", "2001:db8::1", "a", "b", "2001:db8::2")
	f.Add("a", "b", "2001:db8::1", "a", "b", "2001:db8:0:1::1")
	f.Add("a", "b", "::ffff:192.0.2.1", "a", "b", "192.0.2.1")
	f.Add("", "b", "::", "a", "", "1.2.3")
	f.Add("\x01a", "b", "fe80::1%eth0", "\x01", "ab", "fe80::1")
	h := newHasher()
	l := &Limit{Name: "l", Key: Attributes, IPv6Prefix: 64}
	f.Fuzz(func(t *testing.T, route, actor, address, route2, actor2, address2 string) {
		x, y := Caller{Route: route, Actor: actor, APIKey: "k", Address: address}, Caller{Route: route2, Actor: actor2, APIKey: "k", Address: address2}
		if x.Validate() != nil || y.Validate() != nil {
			return
		}
		one, err := l.key(h, nil, "acme", &x)
		other, err2 := l.key(h, nil, "acme", &y)
		if err != nil || err2 != nil {
			if route != "" && actor != "" && address != "" && err != nil {
				t.Fatalf("%q, %q, %q: %v", route, actor, address, err)
			}
			return
		}
		a, _ := readAddress(address)
		b, _ := readAddress(address2)
		same := route == route2 && actor == actor2 && a.Is4() == b.Is4() && bytes.Equal(l.network(nil, a), l.network(nil, b))
		if bytes.Equal(one, other) != same {
			t.Fatalf("(%q, %q, %q) and (%q, %q, %q) share a key: %v, want %v", route, actor, address, route2, actor2, address2, !same, same)
		}
	})
}
