package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

// plenty is an agent that has units of everything in hand.
type plenty struct{ door.Agent }

func (plenty) Take(_ context.Context, _, dimension string, _ int64) (agent.Decision, error) {
	return agent.Decision{Allowed: true, Dimension: dimension, Limit: quota.LimitOf(50_000), Remaining: 49_999, Reset: time.Hour, Window: 24 * time.Hour, PolicyVersion: 3}, nil
}

func (plenty) Ready() error { return nil }

// discard is the answer to a request, of which nobody looks at the body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

type closer struct{ *strings.Reader }

func (closer) Close() error { return nil }

// takeAgain returns a request to /v1/take that can be made again and again, without a network.
func takeAgain(tb testing.TB) (again func(), status *int) {
	tb.Helper()
	h, err := web.New(plenty{}, web.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "/v1/take", nil)
	if err != nil {
		tb.Fatal(err)
	}
	w, text := &discard{header: http.Header{}}, strings.NewReader(body)
	r.Body = closer{text}
	return func() {
		text.Reset(body)
		clear(w.header)
		h.ServeHTTP(w, r)
	}, &w.status
}

// BenchmarkTakeHandler is what /v1/take costs without a network: reading the body, asking, and
// writing the answer.
func BenchmarkTakeHandler(b *testing.B) {
	again, status := takeAgain(b)
	b.ReportAllocs()
	for b.Loop() {
		again()
	}
	if *status != http.StatusOK {
		b.Fatalf("status %d", *status)
	}
}

// An ordinary take allocates little: its body and texts, what it asks for, and its headers. (It runs
// alone: others would be counted too.)
func TestAnOrdinaryTakeAllocatesLittle(t *testing.T) {
	again, status := takeAgain(t)
	if n := testing.AllocsPerRun(100, again); n > 12 || *status != http.StatusOK {
		t.Errorf("%v allocations, status %d", n, *status)
	}
}
