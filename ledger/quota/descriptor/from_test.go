package descriptor_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/ledger/quota/descriptor"
)

func TestWhatALocalLimitCountsBy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		attribute, value, want string // empty: it can be none
	}{
		{"address", "203.0.113.7", "203.0.113.7"},
		{"address", "2001:db8::7", "2001:db8::7"},
		{"address", "203.0.113.7/24", "203.0.113.0"}, // as a proxy masks it
		{"address", "2001:db8::7/48", "2001:db8::"},
		{"address", "203.0.113.7:80", ""},
		{"address", "fe80::1%eth0", ""},
		{"address", "0.0.0.0", ""},
		{"address", "203.0.113.7/0", ""},
		{"address", "", ""},
		{"address", "unknown", ""},
		{"actor", "203.0.113.7/24", "203.0.113.7/24"},
		{"route", "/v1/x", "/v1/x"},
		{"route", "", ""},
		{"api_key", "a\x00", ""},
		{"api_key", strings.Repeat("x", 256), strings.Repeat("x", 256)},
		{"api_key", strings.Repeat("x", 257), ""},
	} {
		from := descriptor.From{Attribute: tc.attribute, At: 1}
		if got, ok := from.ValueOf([]entry{{"k", "other"}, {"k", tc.value}}); ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("%s %q: %q, %v, want %q", tc.attribute, tc.value, got, ok, tc.want)
		}
	}
}

// FuzzAddressOf holds what is read as an address to being one, and to staying the same when it is read
// again.
func FuzzAddressOf(f *testing.F) {
	for _, text := range []string{"203.0.113.7", "203.0.113.7/24", "::ffff:203.0.113.7/120", "2001:db8::7/64", "fe80::1%eth0", "::/0", "0x7f.1", ""} {
		f.Add(text)
	}
	from := descriptor.From{Attribute: descriptor.Address}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := from.ValueOf([]entry{{"k", text}})
		if !ok {
			return
		}
		addr, err := netip.ParseAddr(got)
		again, ok := from.ValueOf([]entry{{"k", got}})
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || !ok || again != got {
			t.Fatalf("%q is %q, and that %q: %v", text, got, again, err)
		}
	})
}
