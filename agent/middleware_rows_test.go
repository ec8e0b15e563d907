package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/httpquota"
)

// behind is a program's handler behind the middleware. In its world a user is verified by a
// header, which names him, and a request takes what its path says.
func (w *world) behind(cfg httpquota.Config) http.Handler {
	cfg.Tenant = func(r *http.Request) (string, error) {
		user := r.Header.Get("User")
		if user == "" {
			return "", errors.New("nobody has signed in")
		}
		return user, nil
	}
	cfg.Takes = func(r *http.Request) *door.Request {
		path := r.URL.Path[1:]
		if path == "healthz" {
			return nil
		}
		req := &door.Request{Dimension: path}
		if strings.HasPrefix(path, "free_") {
			none := int64(0)
			req.Dimension, req.Cost = path[len("free_"):], &none
		}
		return req
	}
	return httpquota.New(w.agent, cfg)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	}))
}

func visit(h http.Handler, user, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if user != "" {
		r.Header.Set("User", user)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// words are an answer in short: its status, what is left, and when to come back.
func words(rec *httptest.ResponseRecorder) string {
	text := fmt.Sprint(rec.Code)
	if rec.Code == http.StatusOK {
		text += "(" + cmp.Or(rec.Header().Get("X-RateLimit-Remaining"), "?") + ")"
	}
	if after := rec.Header().Get("Retry-After"); after != "" {
		text += " RA " + after
	}
	return text
}

const threeCalls = `
dimensions:
- {name: calls, kind: rate, limit: 1/s, burst: 3, class: hard, overshoot: 3, lease: {ttl: 10s}, cold: {wait: 500ms, then: deny}}
`

// at is a request of a trace, so long after its beginning.
type at struct {
	ms         int
	user, want string
}

func (w *world) visits(trace []at) {
	w.t.Helper()
	h := w.behind(httpquota.Config{Headers: answer.XRateLimit})
	began := time.Now()
	for _, v := range trace {
		time.Sleep(time.Until(began.Add(time.Duration(v.ms) * time.Millisecond)))
		if got := words(visit(h, v.user, "/calls")); got != v.want {
			w.t.Errorf("%q at %d ms: %s, want %s", v.user, v.ms, got, v.want)
		}
	}
}

// REQUIREMENTS R1.5, through the middleware.
func TestR1_5RetryAfterInAProgram(t *testing.T) {
	t.Parallel()
	inWorld(t, threeCalls, func(t *testing.T, w *world) {
		w.visits([]at{
			{0, "alice", "200(2)"}, {100, "alice", "200(1)"}, {200, "alice", "200(0)"}, {300, "alice", "429 RA 1"},
			{500, "alice", "429 RA 1"}, {1300, "alice", "200(0)"}, {1400, "alice", "429 RA 1"},
			// One unit is in hand, and passes. Of the one that was refilled since the agent heard a moment
			// after, with the next lease: what it says is left is what it knows of, and never too much.
			{3500, "alice", "200(0)"},
		})
		time.Sleep(10 * time.Millisecond)
		if got := words(visit(w.behind(httpquota.Config{Headers: answer.XRateLimit}), "alice", "/free_calls")); got != "200(1)" {
			t.Errorf("after the last: %s, want 1 left", got)
		}
	})
}

// REQUIREMENTS R1.6: keys are independent, and who is nobody has none.
func TestR1_6KeysAreIndependent(t *testing.T) {
	t.Parallel()
	inWorld(t, threeCalls, func(t *testing.T, w *world) {
		w.visits([]at{
			{0, "alice", "200(2)"}, {100, "alice", "200(1)"}, {200, "alice", "200(0)"}, {250, "bob", "200(2)"},
			{300, "alice", "429 RA 1"}, {350, "", "401"}, {400, "bob", "200(1)"}, {1300, "alice", "200(0)"},
		})
	})
}

// REQUIREMENTS R1.7: of 121 requests at once 120 pass, and the next is told to come in a second.
func TestR1_7AnAPIsDefaults(t *testing.T) {
	t.Parallel()
	inWorld(t, `
dimensions:
- {name: calls, kind: rate, limit: 2/s, burst: 120, class: hard, overshoot: 120, cold: {wait: 500ms, then: deny}}
`, func(t *testing.T, w *world) {
		h := w.behind(httpquota.Config{})
		var mu sync.Mutex
		count := map[string]int{}
		var wg sync.WaitGroup
		for range 121 {
			wg.Go(func() {
				rec := visit(h, "alice", "/calls")
				mu.Lock()
				defer mu.Unlock()
				count[fmt.Sprint(rec.Code, rec.Header().Get("Retry-After"))]++
			})
		}
		wg.Wait()
		if count["200"] != 120 || count["4291"] != 1 {
			t.Errorf("%v, want 120 times 200, and 429 with Retry-After 1", count)
		}
	})
}

// CASES H1, H2 and H3: who waits as told passes, told is what is left of the window, and the
// headers are those of the limit that denied.
func TestH1H2H3InAProgram(t *testing.T) {
	t.Parallel()
	inWorld(t, `
dimensions:
- {name: calls, kind: rate, limit: 2/s, burst: 4, class: hard, overshoot: 4, cold: {wait: 500ms, then: deny}}
- {name: reports, kind: period, limit: 1, period: {every: minute}, class: hard, cold: {wait: 500ms, then: deny}}
`, func(t *testing.T, w *world) {
		h := w.behind(httpquota.Config{})
		for range 4 {
			visit(h, "alice", "/calls")
		}
		if got := words(visit(h, "alice", "/calls")); got != "429 RA 1" { // half a second, rounded up
			t.Errorf("the fifth call: %s", got)
		}
		time.Sleep(time.Second)
		if got := visit(h, "alice", "/calls").Code; got != http.StatusOK {
			t.Errorf("a second later: %d", got)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 20*time.Second)))
		visit(h, "alice", "/reports")
		denied := visit(h, "alice", "/reports")
		if got := words(denied); got != "429 RA 40" {
			t.Errorf("20 s into the minute: %s", got)
		}
		if p, l := denied.Header().Get("RateLimit-Policy"), denied.Header().Get("RateLimit"); p != `"reports";q=1;w=60` || l != `"reports";r=0;t=40` {
			t.Errorf("headers: %s, %s", p, l)
		}
	})
}

// What costs nothing passes even if nothing is left, and is told so; what takes nothing is not
// even asked who it is.
func TestWhatCostsNothingPasses(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		h := w.behind(httpquota.Config{Headers: answer.XRateLimit})
		for range 10 {
			visit(h, "acme", "/exports")
		}
		for _, tc := range []struct{ user, path, want string }{
			{"acme", "/exports", "429"}, {"acme", "/free_exports", "200(0)"}, {"", "/free_exports", "401"}, {"", "/healthz", "200(?)"},
			{"acme", "/exprots", "500"}, {strings.Repeat("x", 257), "/exports", "401"},
		} {
			if got, _, _ := strings.Cut(words(visit(h, tc.user, tc.path)), " "); got != tc.want {
				t.Errorf("%s %s: %s, want %s", tc.user, tc.path, got, tc.want)
			}
		}
		w.up.cut(true)
		time.Sleep(time.Minute)
		pass := w.behind(httpquota.Config{PassInOutage: true})
		if refused, passed, free := visit(h, "acme", "/payments"), visit(pass, "acme", "/payments"), visit(h, "acme", "/free_payments"); refused.Code != 503 || refused.Header().Get("Retry-After") == "" ||
			passed.Code != 200 || free.Code != 200 {
			t.Errorf("in an outage: %d, %d where it may pass, %d where it costs nothing", refused.Code, passed.Code, free.Code)
		}
		w.up.cut(false)
	})
}
