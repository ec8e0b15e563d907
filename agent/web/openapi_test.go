package web_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/agent/agenttest"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/embed"
	"github.com/quotalease/quotalease/agent/identity"
	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/ledger/quota"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// described is the description that the door serves.
func described(t *testing.T) (text []byte, doc *openapi3.T) {
	t.Helper()
	rec := httptest.NewRecorder()
	serve(t, &fakeAgent{}, web.Config{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("GET /openapi.json: %d %v", rec.Code, rec.Header())
	}
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return rec.Body.Bytes(), doc
}

// TestTheDescriptionIsCurrent holds openapi.json, for who wants it without an agent, to what is
// served. go test ./agent/web -run TestTheDescriptionIsCurrent -update writes it anew.
func TestTheDescriptionIsCurrent(t *testing.T) {
	t.Parallel()
	text, _ := described(t)
	if *update {
		if err := os.WriteFile("openapi.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil || !bytes.Equal(text, want) {
		t.Errorf("openapi.json is not what is served; write it with -update (%v)", err)
	}
}

func TestTheDescriptionIsValid(t *testing.T) {
	t.Parallel()
	text, doc := described(t)
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]*)"`).FindAllSubmatch(text, -1) {
		if doc.Components.Schemas[string(ref[1])] == nil {
			t.Errorf("%s is not described", ref[1])
		}
	}
	for name, s := range doc.Components.Schemas {
		for member, about := range s.Value.Properties {
			if about.Value.Description == "" {
				t.Errorf("%s.%s has no meaning", name, member)
			}
			if !strings.Contains(string(text), `"#/components/schemas/`+name+`"`) {
				t.Errorf("%s is described and never used", name)
			}
		}
	}
}

// Every path that the door names is described, with its method, and no other.
func TestEveryPathIsDescribed(t *testing.T) {
	t.Parallel()
	_, doc := described(t)
	h := serve(t, &fakeAgent{}, web.Config{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	ask := func(method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, nil))
		return rec
	}
	names := regexp.MustCompile(`/[a-z0-9/.]*[a-z]`).FindAllString(decode[struct{ Detail string }](t, ask(http.MethodGet, "/elsewhere").Body.Bytes()).Detail, -1)
	if len(names) < 11 {
		t.Fatalf("the door names %q", names)
	}
	for _, name := range names {
		item := doc.Paths.Value(name)
		if item == nil {
			t.Errorf("%s is not described", name)
			continue
		}
		allow := ask(http.MethodDelete, name).Header().Get("Allow")
		for method := range item.Operations() {
			if method != strings.TrimSuffix(allow, ", HEAD") {
				t.Errorf("%s: described is %s, allowed %s", name, method, allow)
			}
		}
	}
	for name := range doc.Paths.Map() {
		if !slices.Contains(names, name) {
			t.Errorf("%s is described, and not one of %q", name, names)
		}
	}
}

// The names of dimensions are described as they are checked.
func TestDimensionsAreDescribedAsTheyAreChecked(t *testing.T) {
	t.Parallel()
	_, doc := described(t)
	form := regexp.MustCompile(doc.Components.Schemas["Take"].Value.Properties["dimension"].Value.Pattern)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[a-z0-9_.A-Z -]{0,65}`), rapid.String()).Draw(t, "name")
		if form.MatchString(name) != (quota.ValidateDimension(name) == nil) {
			t.Errorf("%q: described as %v", name, form.MatchString(name))
		}
	})
}

// The reasons that are described are those of DOORS.md.
func TestReasonsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	_, doc := described(t)
	text, err := os.ReadFile("../DOORS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| reason | what to do |")
	table, _, _ = strings.Cut(table, "\n\n")
	want := []string{""}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(table, -1) {
		want = append(want, row[1])
	}
	var got []string
	for _, reason := range doc.Components.Schemas["Decision"].Value.Properties["reason"].Value.Enum {
		got = append(got, reason.(string))
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 8 || !slices.Equal(got, want) {
		t.Errorf("described %q, documented %q", got, want)
	}
}

const describedPolicy = `
dimensions:
- {name: exports, kind: period, limit: 10, period: {every: year}, class: hard, cold: {wait: 5s, then: deny}}
- {name: views, kind: period, limit: unlimited, period: {every: year}, class: best_effort, cold: {wait: 5s, then: deny}}
- {name: tokens, kind: period, limit: 100000, period: {every: year}, class: bounded, cold: {wait: 5s, then: deny}}
- {name: jobs, kind: concurrency, limit: 2, max_hold: 1h, class: hard, overshoot: 2, cold: {wait: 5s, then: deny}}
operations:
- {name: export, takes: [{dimension: exports, cost: 2}, {dimension: views}], on_deny: defer}
`

// question is one request to a real door, and the status of its answer. In its body $ is the
// last id that an answer gave.
type question struct {
	method, path, body string
	header             map[string]string
	status             int
}

func asks(path, body string, status int) question {
	return question{http.MethodPost, "/v1/" + path, body, nil, status}
}

func checks(query string, status int, header map[string]string) question {
	return question{http.MethodGet, "/v1/check" + query, "", header, status}
}

var questions = []question{
	asks("take", `{"tenant":"acme","dimension":"exports"}`, 200),
	asks("take", `{"tenant":"acme","dimension":"views","cost":9007199254740991}`, 200),
	asks("take", `{"tenant":"acme","operation":"export","times":2,"id":"a"}`, 200),
	asks("take", `{"tenant":"acme","takes":[{"dimension":"exports"},{"dimension":"tokens","cost":5}]}`, 200),
	asks("take", `{"tenant":"acme","dimension":"exports","cost":0}`, 200),
	asks("take", `{"tenant":"acme","dimension":"exports","cost":11}`, 429),
	asks("take", `{"tenant":"acme","dimension":"exports","cost":10}`, 429),
	asks("take", `{"tenant":"acme","dimension":"exports","cost":1.5}`, 400),
	asks("take", `{"tenant":"acme","dimension":"exprots"}`, 400),
	asks("take", `{"tenant":"acme","operation":"export","times":5}`, 429),
	asks("take", `{"tenant":"acme","operation":"export","ticket":"018f3c3e-0000-7000-8000-000000000000"}`, 404),
	asks("takes", `{"takes":[{"tenant":"acme","dimension":"views"},{"tenant":"acme","dimension":"exports","cost":10},{"tenant":"acme","dimension":"exprots"},{"tenant":"acme","operation":"export","ticket":"018f3c3e-0000-7000-8000-000000000000"}]}`, 200),
	asks("takes", `{"takes":[]}`, 400),
	asks("reserve", `{"tenant":"acme","dimension":"exports","estimate":100,"maximum":true}`, 429),
	asks("reserve", `{"tenant":"acme","dimension":"tokens","estimate":100}`, 200),
	asks("settle", `{"id":"$","actual":7}`, 200),
	asks("settle", `{"id":"$","actual":8}`, 400),
	asks("settle", `{"id":"nobody's","actual":8}`, 404),
	asks("acquire", `{"tenant":"acme","dimension":"jobs","cost":2,"id":"job","hold_ms":60000}`, 200),
	asks("acquire", `{"tenant":"acme","dimension":"jobs"}`, 429),
	asks("acquire", `{"tenant":"acme","dimension":"jobs","wait_ms":-1}`, 400),
	asks("renew", `{"tenant":"acme","id":"job"}`, 200),
	asks("release", `{"tenant":"acme","id":"job"}`, 200),
	asks("renew", `{"tenant":"acme","id":"job"}`, 404),
	asks("release", `{"tenant":"acme","id":"other"}`, 404),
	asks("leave", `{"tenant":"acme","operation":"export","ticket":"018f3c3e-0000-7000-8000-000000000000"}`, 200),
	asks("leave", `{"tenant":"acme","operation":"export","ticket":"first"}`, 400),
	{http.MethodPost, "/v1/take", `{"tenant":"acme","dimension":"exports"}`, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	checks("?dimension=exports", 401, nil),
	checks("?dimension=exports", 200, map[string]string{web.TenantHeader: "other"}),
	checks("?dimension=exports", 429, map[string]string{web.TenantHeader: "acme", web.CostHeader: "10"}),
	checks("?dimension=exports&style=nginx", 403, map[string]string{web.TenantHeader: "acme", web.CostHeader: "10"}),
	checks("?dimension=exports&style=apache", 400, map[string]string{web.TenantHeader: "acme"}),
	checks("", 400, map[string]string{web.TenantHeader: "acme"}),
	{http.MethodGet, "/healthz", "", nil, 200},
	{http.MethodGet, "/readyz", "", nil, 200},
	{http.MethodGet, "/openapi.json", "", nil, 200},
}

var inAnOutage = []question{
	asks("take", `{"tenant":"acme","dimension":"exports"}`, 503),
	asks("takes", `{"takes":[{"tenant":"acme","dimension":"exports"}]}`, 200),
	asks("reserve", `{"tenant":"acme","dimension":"tokens","estimate":100}`, 503),
	asks("acquire", `{"tenant":"acme","dimension":"jobs"}`, 503),
	asks("leave", `{"tenant":"acme","operation":"export","ticket":"018f3c3e-0000-7000-8000-000000000000"}`, 503),
	checks("?dimension=exports", 503, map[string]string{web.TenantHeader: "acme"}),
	checks("?dimension=exports&style=nginx", 403, map[string]string{web.TenantHeader: "acme"}),
	{http.MethodGet, "/readyz", "", nil, 503},
}

func TestRealAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	_, doc := described(t)
	doc.Servers = nil // the requests here name none
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	control, err := agenttest.Start(describedPolicy)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	q, err := embed.Start(t.Context(), embed.Config{ControlPlanes: []string{control.Addr()}, Region: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	proxies, err := identity.New(identity.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.New(q, web.Config{Identity: proxies, Headers: answer.XRateLimit})
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, ask := range questions {
		id = asDescribed(t, h, router, ask, id)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ask := range inAnOutage {
		asDescribed(t, h, router, ask, "")
	}
}

// asDescribed asks a question, and holds it and its answer to the description: a request that is
// accepted is a described one, and of an answer every member and every header is described.
func asDescribed(t *testing.T, h http.Handler, router routers.Router, ask question, id string) string {
	t.Helper()
	name := fmt.Sprintf("%s %s %s", ask.method, ask.path, ask.body)
	body := strings.ReplaceAll(ask.body, "$", id)
	request := func() *http.Request {
		r := httptest.NewRequest(ask.method, ask.path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		for name, value := range ask.header {
			r.Header.Set(name, value)
		}
		return r
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, request())
	if rec.Code != ask.status {
		t.Errorf("%s: status %d, want %d: %s", name, rec.Code, ask.status, rec.Body)
	}
	r := request()
	route, parameters, err := router.FindRoute(r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil && rec.Code == http.StatusOK {
		t.Errorf("%s is accepted, and not as described: %v", name, err)
	}
	if err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: rec.Code, Header: rec.Header(), Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: input.Options,
	}); err != nil {
		t.Errorf("%s: the answer is not as described: %v\n%s", name, err, rec.Body)
	}
	response := route.Operation.Responses.Status(rec.Code).Value
	for header := range rec.Header() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(response.Headers)), func(n string) bool { return http.CanonicalHeaderKey(n) == header }) &&
			header != "Content-Type" {
			t.Errorf("%s: header %s is not described", name, header)
		}
	}
	var members map[string]any
	if json.Unmarshal(rec.Body.Bytes(), &members) != nil || ask.path == "/openapi.json" {
		return id
	}
	schemas := []*openapi3.SchemaRef{response.Content.Get(rec.Header().Get("Content-Type")).Schema}
	if any := schemas[0].Value.AnyOf; any != nil {
		schemas = any
	}
	for member := range members {
		if !slices.ContainsFunc(schemas, func(s *openapi3.SchemaRef) bool { return s.Value.Properties[member] != nil }) {
			t.Errorf("%s: member %s is not described", name, member)
		}
	}
	if given, ok := members["id"].(string); ok {
		return given
	}
	return id
}
