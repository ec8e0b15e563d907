package web_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

// willing is an agent that allows everything, and remembers what it was asked.
type willing struct {
	door.Agent
	asked []string
	last  plainBody
	work  time.Duration // before an acquire is answered

	reservedBy map[string]string // tenants by id
}

// plainBody is what an ordinary JSON reader reads of any body.
type plainBody struct {
	Tenant, Dimension, Operation, ID, Ticket string

	Cost, Times, Estimate, Actual int64
	Takes                         []plainTake
	Maximum                       bool
	HoldMs                        int64 `json:"hold_ms"`
	WaitMs                        int64 `json:"wait_ms"`
}

type plainTake struct {
	Dimension string
	Cost      int64
}

func (w *willing) heard(what string, b plainBody) (agent.Decision, error) {
	w.asked, w.last = append(w.asked, what), b
	return agent.Decision{Allowed: true, Dimension: "calls", Limit: quota.LimitOf(5), Remaining: 4, PolicyVersion: 1}, nil
}

func plainTakes(takes []core.DimensionCost) (list []plainTake) {
	for _, t := range takes {
		list = append(list, plainTake(t))
	}
	return list
}

func (w *willing) Take(_ context.Context, tenant, dimension string, cost int64) (agent.Decision, error) {
	return w.heard("take", plainBody{Tenant: tenant, Dimension: dimension, Cost: cost})
}

func (w *willing) TakeHeld(tenant, dimension string, cost int64) (agent.Decision, bool) {
	d, err := w.heard("take", plainBody{Tenant: tenant, Dimension: dimension, Cost: cost})
	return d, err == nil
}

func (w *willing) TakeOnce(_ context.Context, id, tenant, dimension string, cost int64) (agent.Decision, error) {
	return w.heard("take", plainBody{ID: id, Tenant: tenant, Dimension: dimension, Cost: cost})
}

func (w *willing) TakeAll(_ context.Context, tenant string, takes []core.DimensionCost) (agent.Decision, error) {
	return w.heard("take", plainBody{Tenant: tenant, Takes: plainTakes(takes)})
}

func (w *willing) TakeAllOnce(_ context.Context, id, tenant string, takes []core.DimensionCost) (agent.Decision, error) {
	return w.heard("take", plainBody{ID: id, Tenant: tenant, Takes: plainTakes(takes)})
}

func (w *willing) TakeOperation(_ context.Context, tenant, operation string, times int64) (agent.Decision, error) {
	return w.heard("take", plainBody{Tenant: tenant, Operation: operation, Times: times})
}

func (w *willing) TakeOperationOnce(_ context.Context, id, tenant, operation string, times int64) (agent.Decision, error) {
	return w.heard("take", plainBody{ID: id, Tenant: tenant, Operation: operation, Times: times})
}

func (w *willing) Reserve(_ context.Context, tenant, dimension string, estimate int64, maximum bool) (agent.Reservation, error) {
	return w.ReserveOnce(context.Background(), "", tenant, dimension, estimate, maximum)
}

func (w *willing) ReserveOnce(_ context.Context, id, tenant, dimension string, estimate int64, maximum bool) (agent.Reservation, error) {
	d, err := w.heard("reserve", plainBody{ID: id, Tenant: tenant, Dimension: dimension, Estimate: estimate, Maximum: maximum})
	return agent.Reservation{ID: "r-1", Decision: d}, err
}

func (w *willing) Settle(id string, actual int64) error {
	_, err := w.heard("settle", plainBody{ID: id, Actual: actual})
	return err
}

func (w *willing) ReservedBy(id string) string { return w.reservedBy[id] }

func (w *willing) Acquire(ctx context.Context, r agent.Acquire) (agent.Permit, error) {
	b := plainBody{ID: r.ID, Tenant: r.Tenant, Operation: r.Operation, Times: r.Times, Takes: plainTakes(r.Takes),
		HoldMs: r.Hold.Milliseconds(), WaitMs: r.Wait.Milliseconds()}
	d, err := w.heard("acquire", b)
	if w.work > 0 {
		select {
		case <-time.After(w.work):
		case <-ctx.Done():
			return agent.Permit{}, ctx.Err()
		}
	}
	return agent.Permit{ID: "p-1", Expires: time.Minute + time.Nanosecond, Waited: w.work, Decision: d}, err
}

func (w *willing) Renew(tenant, id string) (time.Duration, error) {
	_, err := w.heard("renew", plainBody{Tenant: tenant, ID: id})
	return time.Minute - 1, err
}

func (w *willing) Release(tenant, id string) error {
	_, err := w.heard("release", plainBody{Tenant: tenant, ID: id})
	return err
}

func (w *willing) LeaveTurn(_ context.Context, ticket, tenant, operation string) error {
	_, err := w.heard("leave", plainBody{Tenant: tenant, Operation: operation, Ticket: ticket})
	return err
}

func (w *willing) Ready() error { return nil }

func postTo(t testing.TB, a web.Agent, what, body string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := web.New(a, web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/"+what, strings.NewReader(body)))
	return rec
}

func TestAnswersOfReservationsAndSlots(t *testing.T) {
	t.Parallel()
	const answer = `{"allowed":true,"reason":"","dimension":"calls","limit":5,"remaining":4,"retry_after_ms":0,"policy_version":1,"shadow":false,"reset_ms":0`
	limits := map[string]string{"Ratelimit-Policy": `"calls";q=5`, "Ratelimit": `"calls";r=4`}
	for _, tc := range []struct {
		what, body, want string
		headers          map[string]string
	}{
		{"reserve", fieldsHead + `,"estimate":9}`, answer + `,"id":"r-1","estimate":9}`, limits},
		{"settle", `{"id":"r-1","actual":0}`, `{"id":"r-1","actual":0}`, nil},
		{"acquire", fieldsHead + `,"cost":2}`, answer + `,"id":"p-1","expires_ms":60000,"waited_ms":0}`, limits},
		{"renew", `{"tenant":"acme","id":"p-1"}`, `{"id":"p-1","expires_ms":59999}`, nil},
		{"release", `{"tenant":"acme","id":"p-1"}`, `{"id":"p-1"}`, nil},
		{"leave", `{"tenant":"acme","operation":"export","ticket":"t-1"}`, `{"id":"t-1"}`, nil},
	} {
		expect(t, postTo(t, &willing{}, tc.what, tc.body), 200, tc.want, tc.headers)
	}
}

func TestBadBodiesOfEveryPathNameTheField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ what, body, field, allowed string }{
		{"take", `{"tenant":"acme","takes":[]}`, "takes", "a list of 1 to 16 {dimension, cost}"},
		{"take", `{"tenant":"acme","takes":null}`, "takes", "a list of 1 to 16 {dimension, cost}"},
		{"take", `{"tenant":"acme","takes":{"dimension":"calls"}}`, "takes", "a list of 1 to 16 {dimension, cost}"},
		{"take", `{"tenant":"acme","takes":["calls"]}`, "takes[0]", `one JSON object in UTF-8: {"dimension": text, "cost": whole number}`},
		{"take", `{"tenant":"acme","takes":[{"dimension":"calls"},{"dimension":"calls","costs":1}]}`, "takes[1].costs", "not a field; fields are dimension and cost"},
		{"take", `{"tenant":"acme","takes":[{"dimension":"calls","dimension":"views"}]}`, "takes[0].dimension", "given once"},
		{"take", `{"tenant":"acme","takes":[{"dimension":"calls","cost":0}]}`, "takes[0].cost", "a whole number from 1 to 9007199254740991"},
		{"take", `{"tenant":"acme","takes":[{"dimension":"calls","cost":1.0}]}`, "takes[0].cost", "a whole number from 1 to 9007199254740991"},
		{"take", `{"tenant":"acme","operation":7}`, "operation", textIs},
		{"take", fieldsHead + `,"wait_ms":1}`, "wait_ms", notAField},
		{"reserve", fieldsHead + `,"estimate":0}`, "estimate", "a whole number from 1 to 9007199254740991"},
		{"reserve", fieldsHead + `,"estimate":1,"maximum":1}`, "maximum", "true or false"},
		{"reserve", fieldsHead + `,"cost":1}`, "cost", "not a field; fields are tenant, dimension, estimate, maximum, id and caller"},
		{"reserve", `[]`, "body", `one JSON object in UTF-8: {"tenant": text, "dimension": text, "estimate": whole number, "maximum": true or false, "id": text, "caller": {route, actor, api_key, address, bytes}}`},
		{"settle", `{"id":"r-1","actual":-1}`, "actual", "a whole number from 0 to 9007199254740991"},
		{"settle", `{"id":"r-1"}`, "actual", "a whole number from 0 to 9007199254740991"},
		{"settle", `{"id":"r-1","actual":1,"tenant":"acme"}`, "tenant", "not a field; fields are id and actual"},
		{"acquire", fieldsHead + `,"wait_ms":"5"}`, "wait_ms", "a whole number from 0 to 3600000"},
		{"acquire", fieldsHead + `,"hold_ms":-1}`, "hold_ms", "a whole number from 0 to 2592000000"},
		{"acquire", fieldsHead + `,"id":""}`, "id", "1 to 128 bytes"},
		{"renew", `{"tenant":"acme","id":"p-1","hold_ms":1}`, "hold_ms", "not a field; fields are tenant and id"},
		{"release", `{"tenant":"acme"}`, "id", "1 to 128 bytes"},
		{"leave", `{"tenant":"acme","operation":"export"}`, "ticket", "one that a denial gave"},
		{"leave", `{"tenant":"acme","operation":"export","ticket":7}`, "ticket", textIs},
		{"leave", `{"tenant":"acme","ticket":"t-1"}`, "operation", "that of the ticket"},
		{"leave", `{"operation":"export","ticket":"t-1"}`, "tenant", "1 to 256 bytes of UTF-8 without control characters"},
		{"leave", `{"tenant":"acme","operation":"export","ticket":"t-1","times":1}`, "times", "not a field; fields are tenant, operation and ticket"},
		{"release", `{"id":"p-1"}` + strings.Repeat(" ", 64<<10), "body", "at most 65536 bytes"},
		{"takes", `{}`, "takes", "a list of 1 to 100 requests"},
		{"takes", `{"takes":[]}`, "takes", "a list of 1 to 100 requests"},
		{"takes", `{"takes":{"tenant":"acme","dimension":"calls"}}`, "takes", "a list of 1 to 100 requests"},
		{"takes", `{"takes":[` + strings.Repeat("1,", 100) + `1]}`, "takes", "a list of 1 to 100 requests"},
		{"takes", `{"takes":[` + fieldsHead + `}],"id":"x"}`, "id", "not a field; fields are takes"},
		{"takes", `[` + fieldsHead + `}]`, "body", `one JSON object in UTF-8: {"takes": list of requests}`},
	} {
		a := &willing{}
		w := postTo(t, a, tc.what, tc.body)
		want := refusal{"about:blank", "Bad Request", tc.field + ": " + tc.allowed, tc.field}
		if got := decode[refusal](t, w.Body.Bytes()); w.Code != 400 || got != want || len(a.asked) != 0 {
			t.Errorf("%s %.80s: %d %+v, asked %v; want %+v", tc.what, tc.body, w.Code, got, a.asked, want)
		}
	}
}

// Whatever the bytes, at whichever path: what reaches the agent is what an ordinary JSON reader
// reads, and what does not is a 400 that names a field.
func FuzzEveryBody(f *testing.F) {
	paths := []string{"take", "reserve", "settle", "acquire", "renew", "release", "leave"}
	for i, body := range []string{
		`{"tenant":"acme","takes":[{"dimension":"calls","cost":3},{"dimension":"views"}],"id":"x"}`, fieldsHead + `,"estimate":7,"maximum":true}`,
		`{"id":"r","actual":0}`, `{"tenant":"acme","operation":"start","times":2,"hold_ms":5,"wait_ms":6}`, `{"tenant":"acme","id":"p"}`, `{"tenant":"acme","id":"p"}`,
		`{"tenant":"acme","operation":"export","ticket":"t"}`,
		`{"tenant":"acme","takes":[{"dimension":"calls","cost":1e3}]}`, `{"tenant":"acme","takes":[[[[[[`, "{\"takes\":[{\"\xff\":1}]}",
	} {
		f.Add(i%len(paths), []byte(body))
	}
	f.Fuzz(func(t *testing.T, path int, body []byte) {
		what := paths[uint(path)%uint(len(paths))]
		a := &willing{}
		w := postTo(t, a, what, string(body))
		if w.Code == 400 {
			if r := decode[refusal](t, w.Body.Bytes()); r.Field == "" || len(a.asked) != 0 {
				t.Fatalf("%s %q: %s, asked %v", what, body, w.Body, a.asked)
			}
			return
		}
		if w.Code != 200 || !slices.Equal(a.asked, []string{what}) {
			t.Fatalf("%s %q: %d, asked %v", what, body, w.Code, a.asked)
		}
		var given struct{ Cost, Times *int64 }
		plain := decode[plainBody](t, body)
		if err := json.Unmarshal(body, &given); err != nil {
			t.Fatal(err)
		}
		for i := range plain.Takes {
			plain.Takes[i].Cost = max(plain.Takes[i].Cost, 1)
		}
		one := int64(1)
		switch {
		case what != "take" && what != "acquire":
		case plain.Operation != "":
			plain.Times = *orElse(given.Times, &one)
		case len(plain.Takes) == 0:
			plain.Cost = *orElse(given.Cost, &one)
			if what == "acquire" {
				plain.Takes = []plainTake{{plain.Dimension, plain.Cost}}
				plain.Dimension, plain.Cost = "", 0
			}
		}
		if !reflect.DeepEqual(a.last, plain) {
			t.Fatalf("%s %q: asked %+v, plainly %+v", what, body, a.last, plain)
		}
	})
}

func orElse(n, otherwise *int64) *int64 {
	if n == nil {
		return otherwise
	}
	return n
}

// pipes is a listener in memory, for one connection.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A caller who waits in line for slots outlasts the server's times, and only such a one.
func TestAWaitOutlastsTheServersTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, err := web.New(&willing{work: 50 * time.Minute}, web.Config{})
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: h, ReadTimeout: web.ReadTimeout, WriteTimeout: web.WriteTimeout}
		l := pipes{make(chan net.Conn), make(chan struct{})}
		over := make(chan error, 1)
		go func() { over <- server.Serve(l) }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			l.accept <- theirs
			return ours, nil
		}}}
		post := func(wait string) (int, error) {
			resp, err := client.Post("http://agent/v1/acquire", "application/json", strings.NewReader(fieldsHead+`,"wait_ms":`+wait+`}`))
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, resp.Body.Close()
		}
		began := time.Now()
		if code, err := post("3600000"); code != 200 || err != nil || time.Since(began) != 50*time.Minute {
			t.Errorf("after %v: %d, %v", time.Since(began), code, err)
		}
		if code, err := post("0"); err == nil {
			t.Errorf("an agent that hangs: %d, want a connection that is closed", code)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-over; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}
