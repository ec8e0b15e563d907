package trace

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func TestAccessLogLines(t *testing.T) {
	t.Parallel()
	at := time.Date(2015, time.May, 17, 10, 5, 3, 0, time.UTC)
	event := func(tenant, dimension string) Event {
		return Event{At: at, Tenant: tenant, Dimension: dimension, Cost: 1}
	}
	for _, c := range []struct {
		name, line string
		want       Event
	}{
		{"prefix of combined", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /presentations HTTP/1.1" 200 203023`, event("192.0.2.1", "presentations")},
		{"combined", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a/b?x HTTP/1.1" 304 - "http://example.com/[x]" "agent \"7\""`, event("192.0.2.1", "a")},
		{"with a user, in another zone", `2001:db8::7 id frank [17/May/2015:12:05:03 +0200] "POST /Api/ HTTP/2.0" 201 9`, event("2001:db8::7", "api")},
		{"root", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, event("192.0.2.1", "root")},
		{"root with a query", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /?q=/a HTTP/1.1" 200 1`, event("192.0.2.1", "root")},
		{"whole server", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "OPTIONS * HTTP/1.1" 200 1`, event("192.0.2.1", "root")},
		{"no protocol", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a" 200 1`, event("192.0.2.1", "a")},
		{"absolute form", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http://example.com/a/b HTTP/1.1" 200 1`, event("192.0.2.1", "a")},
		{"absolute form of the root", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http://example.com HTTP/1.1" 200 1`, event("192.0.2.1", "root")},
		{"address in the query", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /go?to=http://example.com/b HTTP/1.1" 200 1`, event("192.0.2.1", "go")},
		{"doubled slash", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET //a//b HTTP/1.1" 200 1`, event("192.0.2.1", "a")},
		{"escaped quote in the path", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a\"b HTTP/1.1" 200 1`, event("192.0.2.1", "a--b")},
		{"home directory", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /~ann/x HTTP/1.1" 200 1`, event("192.0.2.1", "ann")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := parseAccessLine(c.line); err != nil || got != c.want {
				t.Errorf("%s\nis %+v, %v\nwant %+v", c.line, got, err, c.want)
			}
		})
	}
}

func TestAccessLogLinesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, want string }{
		{"words", `restarting`, "client, ident and user"},
		{"virtual host first", `example.com:80 192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "client, ident and user"},
		{"no closing bracket", `192.0.2.1 - - [17/May/2015:10:05:03 +0000 "GET / HTTP/1.1" 200 1`, "square brackets"},
		{"no such day", `192.0.2.1 - - [31/Feb/2026:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "time: written like"},
		{"year 0", `192.0.2.1 - - [17/May/0000:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "in the years 1970 to 2261"},
		{"no request", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "-" 408 0`, "METHOD PATH PROTOCOL"},
		{"tls on a plain port", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "\x16\x03 \x01" 400 0`, "METHOD PATH PROTOCOL"},
		{"cut in the request", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a`, "METHOD PATH PROTOCOL"},
		{"cut in the status", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 2`, "status and a size"},
		{"size is a word", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 big`, "status and a size"},
		{"control character in the client", "192.0.2.\x01 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 1", "tenant: 1 to 256 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := parseAccessLine(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\nis %+v, %v\nwant a problem with %q", c.line, got, err, c.want)
			}
		})
	}
}

// checkEvent holds an event to what the rest of the system takes without asking.
func checkEvent(t *testing.T, e Event) {
	t.Helper()
	if err := (quota.Key{Tenant: e.Tenant, Dimension: e.Dimension}).Validate(); err != nil {
		t.Errorf("%+v: %v", e, err)
	}
	if e.Cost < 0 {
		t.Errorf("%+v: negative cost", e)
	}
	if e.At != quota.At(e.At) || e.At.Year() < firstYear || e.At.Year() > lastYear {
		t.Errorf("%+v: time is not as the ledger keeps it", e)
	}
}

func FuzzAccessLog(f *testing.F) {
	f.Add(`192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a/b?x HTTP/1.1" 200 203023 "-" "agent"`)
	f.Add(`192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http:///%zz \"HTTP/1.1" 200 -`)
	f.Add("\xef\xbb\xbf\n\r\n[] \"\" \\\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzReader(t, text, Options{Format: AccessLog})
	})
}

// fuzzReader reads text to its end. Every line has to come out as an event, as malformed,
// as the header or as blank, whatever is in it.
func fuzzReader(t *testing.T, text string, o Options) {
	r, err := NewReader(strings.NewReader(text), o)
	if err != nil {
		return
	}
	events := 0
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%q ended the read: %v", text, err)
		}
		checkEvent(t, e)
		events++
	}
	s := r.Summary()
	header, blank := 0, 0
	if s.Format == CSV {
		header = 1
	}
	for line := range strings.Lines(strings.TrimPrefix(text, string(byteOrderMark))) {
		if strings.TrimSpace(line) == "" && len(line) < MaxLineBytes {
			blank++
		}
	}
	if s.Events != events || s.Lines != header+blank+s.Events+s.Malformed {
		t.Errorf("%q: %d events and %d blank lines, summary %+v", text, events, blank, s)
	}
	if len(s.Problems) != min(s.Malformed, KeptProblems) {
		t.Errorf("%q: %d malformed lines, %d kept", text, s.Malformed, len(s.Problems))
	}
}
