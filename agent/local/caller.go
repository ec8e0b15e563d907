package local

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Caller says for whom a request is made. Whoever asks has verified it: an address above all is
// that of the connection, or what a proxy of one's own has written, never what a client claims.
// Empty is not known.
type Caller struct {
	Route   string
	Actor   string
	APIKey  string
	Address string // IPv4 or IPv6, without a port
	Bytes   int64  // size of the request, while it waits for a slot
}

// Format writes which attributes are known, never what they are: no log gets to see an address
// or an API key.
func (c Caller) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "caller{route: %t, actor: %t, api_key: %t, address: %t, bytes: %d}",
		c.Route != "", c.Actor != "", c.APIKey != "", c.Address != "", c.Bytes) // a writer in memory
}

// LogValue is Format for structured logs.
func (c Caller) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }

// MaxCallerBytes is the longest attribute of a Caller.
const MaxCallerBytes = 256

type callerKey struct{}

// WithCaller returns a context whose takes are made for a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, &c)
}

// CallerOf returns for whom a request is made.
func CallerOf(ctx context.Context) Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return *c
	}
	return Caller{}
}

// Validate returns a *quota.FieldError about a field of caller.
func (c *Caller) Validate() error {
	for _, f := range []struct{ name, value string }{{"route", c.Route}, {"actor", c.Actor}, {"api_key", c.APIKey}} {
		control := func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }
		if len(f.value) > MaxCallerBytes || !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, control) {
			return &quota.FieldError{Field: "caller." + f.name, Allowed: "at most " + strconv.Itoa(MaxCallerBytes) + " bytes of UTF-8 without control characters"}
		}
	}
	if c.Address != "" {
		if _, ok := readAddress(c.Address); !ok {
			return badAddress
		}
	}
	if c.Bytes < 0 || c.Bytes > quota.MaxCost {
		return &quota.FieldError{Field: "caller.bytes", Allowed: "a whole number from 0 to " + strconv.FormatInt(quota.MaxCost, 10)}
	}
	return nil
}

// badAddress does not repeat what was sent.
var badAddress = &quota.FieldError{Field: "caller.address", Allowed: "an IPv4 or IPv6 address, without port and zone"}

func readAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// hasher makes keys. Addresses and API keys are in them as a keyed hash only. Its own key is
// random and dies with it.
type hasher struct{ pool sync.Pool }

type scratch struct {
	mac hash.Hash
	in  []byte
	sum []byte
}

func newHasher() *hasher {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	h := &hasher{}
	h.pool.New = func() any { return &scratch{mac: hmac.New(sha256.New, secret)} }
	return h
}

// hashed is how many bytes of a hash a key has: nobody finds two alike.
const hashed = 16

// append adds to a key the hash of a value of some kind.
func (h *hasher) append(key []byte, kind byte, value []byte) []byte {
	s := h.pool.Get().(*scratch)
	s.mac.Reset()
	s.in = append(append(s.in[:0], kind), value...)
	_, _ = s.mac.Write(s.in) // a hash never fails
	s.sum = s.mac.Sum(s.sum[:0])
	key = append(key, s.sum[:hashed]...)
	clear(s.in) // no address stays behind
	h.pool.Put(s)
	return key
}

// key appends what a limit counts by. Each part says its length, so that no two lists of values
// make one key. A part that is missing is an error that names it: without it everyone who has
// none would share one key.
func (l *Limit) key(h *hasher, key []byte, tenant string, c *Caller) ([]byte, error) {
	for _, a := range l.Key {
		switch value := l.value(a, tenant, c); {
		case value == "":
			return nil, l.missing(a)
		case a == Address:
			addr, ok := readAddress(value)
			if !ok {
				return nil, badAddress
			}
			var room [16]byte
			key = h.append(key, 'a', l.network(room[:0], addr))
		case a == APIKey:
			var room [MaxCallerBytes]byte
			key = h.append(key, 'k', append(room[:0], value...))
		default:
			key = binary.AppendUvarint(key, uint64(len(value)))
			key = append(key, value...)
		}
	}
	return key, nil
}

func (l *Limit) value(a Attribute, tenant string, c *Caller) string {
	switch a {
	case Route:
		return c.Route
	case Tenant:
		return tenant
	case Actor:
		return c.Actor
	case APIKey:
		return c.APIKey
	}
	return c.Address
}

func (l *Limit) missing(a Attribute) error {
	field := "caller." + string(a)
	if a == Tenant {
		field = "tenant"
	}
	return &quota.FieldError{Field: field, Allowed: "not left out: the local limit " + l.Name + " counts by it"}
}

// network appends the part of an address that counts. One customer has a whole IPv6 network to
// choose from.
func (l *Limit) network(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		four := a.As4()
		return append(b, four[:]...)
	}
	p, err := a.Prefix(l.IPv6Prefix)
	if err != nil { // Validate has seen it
		panic(err)
	}
	sixteen := p.Addr().As16()
	return append(b, sixteen[:]...)
}
