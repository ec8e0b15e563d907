package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

type fataler interface{ Fatalf(string, ...any) }

func decode[T any](t fataler, text []byte) (v T) {
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

type refusal struct{ Type, Title, Detail, Field string }

const (
	wholeBody  = `one JSON object in UTF-8: {"tenant": text, "dimension": text, "cost": whole number, "id": text, "takes": list of {dimension, cost}, "operation": text, "times": whole number, "caller": {route, actor, api_key, address, bytes}, "ticket": text}`
	tenantIs   = "1 to 256 bytes of UTF-8 without control characters"
	dimIs      = "1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"
	costIs     = "a whole number from 0 to 9007199254740991"
	textIs     = "text, without U+FFFD and unpaired surrogates"
	notAField  = "not a field; fields are tenant, dimension, cost, id, takes, operation, times, caller and ticket"
	fieldsHead = `{"tenant":"acme","dimension":"calls"`
)

func TestBadBodiesNameTheField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, body, field, allowed string }{
		{"empty", ``, "body", wholeBody},
		{"null", `null`, "body", wholeBody},
		{"a list", `[]`, "body", wholeBody},
		{"cut short", `{"tenant":"acme"`, "body", wholeBody},
		{"cut in a value", `{"tenant":"ac`, "body", wholeBody},
		{"no colon", `{"tenant" "acme"}`, "body", wholeBody},
		{"trailing comma", fieldsHead + `,}`, "body", wholeBody},
		{"trailing data", fieldsHead + `} {}`, "body", wholeBody},
		{"trailing brace", fieldsHead + `}}`, "body", wholeBody},
		{"a form", `tenant=acme`, "body", wholeBody},
		{"not UTF-8", "{\"tenant\":\"ac\xffme\",\"dimension\":\"calls\"}", "body", wholeBody},
		{"too long", fieldsHead + `}` + strings.Repeat(" ", 64<<10), "body", "at most 65536 bytes"},
		{"no tenant", `{"dimension":"calls"}`, "tenant", tenantIs},
		{"empty tenant", `{"tenant":"","dimension":"calls"}`, "tenant", tenantIs},
		{"NUL in the tenant", `{"tenant":"a\u0000b","dimension":"calls"}`, "tenant", tenantIs},
		{"10 kB tenant", `{"tenant":"` + strings.Repeat("x", 10_000) + `","dimension":"calls"}`, "tenant", tenantIs},
		{"null tenant", `{"tenant":null,"dimension":"calls"}`, "tenant", textIs},
		{"number for a tenant", `{"tenant":7,"dimension":"calls"}`, "tenant", textIs},
		{"half a surrogate pair", `{"tenant":"a\ud800","dimension":"calls"}`, "tenant", textIs},
		{"no dimension", `{"tenant":"acme"}`, "dimension", dimIs},
		{"capital in the dimension", `{"tenant":"acme","dimension":"Calls"}`, "dimension", dimIs},
		{"list for a dimension", `{"tenant":"acme","dimension":["calls"]}`, "dimension", textIs},
		{"unknown field", fieldsHead + `,"costs":5}`, "costs", notAField},
		{"field without a name", fieldsHead + `,"":5}`, `""`, notAField},
		{"name in capitals", `{"Tenant":"acme","dimension":"calls"}`, "Tenant", notAField},
		{"very long unknown field", fieldsHead + `,"` + strings.Repeat("é", 100) + `":5}`, strings.Repeat("é", 32) + "...", notAField},
		{"tenant twice", fieldsHead + `,"tenant":"other"}`, "tenant", "given once"},
		{"fraction", fieldsHead + `,"cost":1.5}`, "cost", costIs},
		{"whole, but written as a fraction", fieldsHead + `,"cost":1.0}`, "cost", costIs},
		{"exponent", fieldsHead + `,"cost":1e3}`, "cost", costIs},
		{"negative", fieldsHead + `,"cost":-1}`, "cost", costIs},
		{"huge", fieldsHead + `,"cost":9007199254740992}`, "cost", costIs},
		{"past int64", fieldsHead + `,"cost":9223372036854775808}`, "cost", costIs},
		{"text for a cost", fieldsHead + `,"cost":"5"}`, "cost", costIs},
		{"null cost", fieldsHead + `,"cost":null}`, "cost", costIs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeAgent{decision: agent.Decision{Allowed: true}}
			w := post(serve(t, f, web.Config{}), tc.body)
			if w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%d %s %s, want a 400 problem", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			want := refusal{"about:blank", "Bad Request", tc.field + ": " + tc.allowed, tc.field}
			if got := decode[refusal](t, w.Body.Bytes()); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := f.calls(); len(got) != 0 {
				t.Errorf("the agent was asked: %v", got)
			}
		})
	}
}

// What only the agent knows to be wrong, such as a dimension that policy lacks, reads alike.
func TestTheAgentsRefusalNamesTheField(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{err: &quota.FieldError{Field: "dimension", Allowed: "one that policy defines: calls"}}
	expect(t, post(serve(t, f, web.Config{}), body), 400,
		`{"type":"about:blank","title":"Bad Request","status":400,"detail":"dimension: one that policy defines: calls","field":"dimension"}`, nil)
}

func TestGoodBodies(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]asked{
		fieldsHead + `}`:                                          {"acme", "calls", 1},
		fieldsHead + `,"cost":0}`:                                 {"acme", "calls", 0},
		fieldsHead + `,"cost":9007199254740991}`:                  {"acme", "calls", agent.MaxCost},
		` {"cost": 7, "dimension":"a.b", "tenant":"고객/é"}` + "\n": {"고객/é", "a.b", 7},
		`{"tenant":"\ud83d\ude00","dimension":"calls"}`:           {"😀", "calls", 1},
	} {
		f := &fakeAgent{decision: agent.Decision{Allowed: true}}
		w := post(serve(t, f, web.Config{}), body)
		if got := f.calls(); w.Code != 200 || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %d, asked %v, want %v", body, w.Code, got, want)
		}
	}
}

// Whatever the bytes: what reaches the agent is valid and is what an ordinary JSON reader
// reads, and what does not is a 400 that names a field.
func FuzzTakeBody(f *testing.F) {
	for _, seed := range []string{body, `{}`, fieldsHead + `,"cost":0}`, fieldsHead + `,"cost":1e400}`, fieldsHead + `,"x":{"y":[1]}}`, `{"tenant":"\ud800"}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &fakeAgent{decision: agent.Decision{Allowed: true, Limit: quota.LimitOf(5), Remaining: 4, PolicyVersion: 1}}
		w := post(serve(t, a, web.Config{}), string(body))
		calls := a.calls()
		if w.Code == 400 {
			if r := decode[refusal](t, w.Body.Bytes()); r.Field == "" || len(calls) != 0 {
				t.Fatalf("%q: %s, asked %v", body, w.Body, calls)
			}
			return
		}
		if w.Code != 200 || len(calls) != 1 {
			t.Fatalf("%q: %d, asked %v", body, w.Code, calls)
		}
		plain := decode[struct {
			Tenant, Dimension string
			Cost              *int64
		}](t, body)
		cost := int64(1)
		if plain.Cost != nil {
			cost = *plain.Cost
		}
		if got := calls[0]; got != (asked{plain.Tenant, plain.Dimension, cost}) {
			t.Fatalf("%q: asked %v", body, got)
		}
		if err := (quota.Key{Tenant: calls[0].tenant, Dimension: calls[0].dimension}).Validate(); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if !policyField.MatchString(w.Header().Get("RateLimit-Policy")) || !limitField.MatchString(w.Header().Get("RateLimit")) {
			t.Fatalf("%q: headers %v", body, w.Header())
		}
	})
}

func TestAnIDIsHandedOn(t *testing.T) {
	t.Parallel()
	f := &fakeAgent{decision: agent.Decision{Allowed: true}}
	h := serve(t, f, web.Config{})
	for _, body := range []string{
		`{"tenant":"acme","dimension":"calls","id":"order-1"}`, `{"tenant":"acme","dimension":"calls"}`, `{"tenant":"acme","dimension":"calls","id":""}`,
	} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(body)))
	}
	// An empty id is refused: who sends one believes that a repeat is safe.
	if want := []string{"order-1"}; !slices.Equal(f.ids, want) || len(f.calls()) != 2 {
		t.Errorf("ids %q of %d takes", f.ids, len(f.calls()))
	}
}
